import { isAbsolute, join } from 'node:path';
import { PROGRAM_VARIABLE, RESTART_CODE, WATCHED_VARIABLE } from './update/program.ts';

/**
 * Starts the agent again in place of this process: by the launcher where there is one, else with the same command line.
 * Containers are no children of the agent and run on. Where Node cannot replace its process, and below a launcher that
 * watches, the exit code asks whoever started the agent to start it again.
 */
export function restartProcess(): never {
  const program = process.env[PROGRAM_VARIABLE];
  const [file, ...args] = program
    ? [join(program, 'node'), join(program, 'launcher.mjs'), ...process.argv.slice(2)]
    : [nodePath(), ...process.execArgv, ...process.argv.slice(1)];
  if (!process.env[WATCHED_VARIABLE] && file)
    process.execve?.(file, [file, ...args], process.env as Record<string, string>);
  process.exit(RESTART_CODE);
}

/** Where Node brings its own loader along, that is what runs; then the name that it was started with leads to Node. */
function nodePath(): string {
  return isAbsolute(process.argv0) ? process.argv0 : process.execPath;
}
