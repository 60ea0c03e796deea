/** A process of the machine with its command line. */
export interface RunningProcess {
  pid: number;
  /** its words */
  command: readonly string[];
}

/** The shims of the containerd at a socket: they keep containers running while it is away. */
export const shimsOf = (processes: readonly RunningProcess[], socket: string): number[] =>
  processes
    .filter(({ command }) => isShim(command) && command[command.indexOf('-address') + 1] === socket)
    .map(({ pid }) => pid);

const isShim = ([program = '', ...words]: readonly string[]) =>
  program.slice(program.lastIndexOf('/') + 1).startsWith('containerd-shim-') && words.includes('-address');
