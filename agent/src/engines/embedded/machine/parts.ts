import { type Handler, handlersFrom } from './handlers.ts';

/** What of a machine a private containerd is made of. */
export interface ContainerdParts {
  /** absolute path of the program */
  containerd: string;
  /** the default one first, at least one */
  handlers: readonly Handler[];
  /** the folder of the CNI plugins */
  plugins: string;
}

/** What a machine has in the folders of programs and of CNI plugins: absolute paths, the folders in their order. */
export interface FoundPrograms {
  programs: readonly string[];
  plugins: readonly string[];
}

/** Folders with programs, as a service of the machine sees them. */
export const PROGRAM_FOLDERS = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin'] as const;
/** Folders with CNI plugins: of Debian, of the plugins' own releases, of others. */
export const PLUGIN_FOLDERS = ['/usr/lib/cni', '/opt/cni/bin', '/usr/libexec/cni'] as const;

const PLUGINS = ['bridge', 'host-local', 'loopback', 'portmap', 'firewall'] as const;

/** The parts of a private containerd, or the names of the packages of Debian that bring what is missing. */
export function containerdParts({ programs, plugins }: FoundPrograms): ContainerdParts | { missing: string[] } {
  const containerd = programs.find((path) => path.endsWith('/containerd'));
  const isComplete = (folder: string) => PLUGINS.every((name) => plugins.includes(`${folder}/${name}`));
  const folder = plugins.map((path) => path.slice(0, path.lastIndexOf('/'))).find(isComplete);
  const handlers = handlersFrom(programs);
  const missing = [
    ...(containerd === undefined ? ['containerd'] : []),
    ...(handlers.some(({ program }) => program) ? [] : ['runc']),
    ...(folder === undefined ? ['containernetworking-plugins'] : []),
    ...(programs.some((path) => path.endsWith('/iptables')) ? [] : ['iptables']),
  ];
  return missing.length > 0 || containerd === undefined || folder === undefined
    ? { missing }
    : { containerd, handlers, plugins: folder };
}
