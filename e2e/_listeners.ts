import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/** A TCP port on which something listens. */
interface Listener {
  port: number;
  isLoopback: boolean;
}

/** Ports on which something listens in the network of a process; with `own`, ports of the process alone. */
export function listeners(pid: number, { own = false } = {}): Listener[] {
  const sockets = own ? socketsOf(pid) : undefined;
  const found = ['tcp', 'tcp6'].flatMap((table) =>
    readFileSync(`/proc/${pid}/net/${table}`, 'utf8')
      .trim()
      .split('\n')
      .slice(1)
      .map((line) => line.trim().split(/\s+/))
      .filter(([, , , state, , , , , , inode = '']) => state === '0A' && (!sockets || sockets.has(inode)))
      .map(([, local = '']) => {
        const [address = '', port = ''] = local.split(':');
        return { port: Number.parseInt(port, 16), isLoopback: address.length === 8 && address.endsWith('7F') };
      }),
  );
  return [...new Map(found.map((one) => [`${one.port}${one.isLoopback}`, one])).values()];
}

/** The inodes of the sockets that a process has open. */
function socketsOf(pid: number): Set<string> {
  const folder = `/proc/${pid}/fd`;
  const targets = readdirSync(folder).map((fd) => {
    try {
      return readlinkSync(`${folder}/${fd}`);
    } catch {
      // It was closed meanwhile.
      return '';
    }
  });
  return new Set(targets.flatMap((target) => /^socket:\[(\d+)\]$/.exec(target)?.[1] ?? []));
}
