import { randomInt } from 'node:crypto';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { createServer } from 'node:net';

/** Ports that no outgoing connection uses (Linux gives those 32768 to 60999). */
const STILL = [20_000, 30_000] as const;

/** The ports that this process chose. */
const chosen = new Set<number>();

/**
 * A TCP port of 127.0.0.1 that was free a moment ago; the preferred one when it is free. It is not one of the kernel's
 * ephemeral ports, which any outgoing connection may take meanwhile. It belongs to this process until its end: no other
 * call gets it, here or in another process, so a server may also be started there later, and again.
 */
export async function freePort(preferred?: number): Promise<number> {
  if (preferred && (chosen.has(preferred) || (await reserve(preferred))) && (await listens(preferred)))
    return preferred;
  for (let attempt = 0; attempt < 50; attempt++) {
    const port = randomInt(...STILL);
    if (!chosen.has(port) && (await reserve(port)) && (await listens(port))) return port;
  }
  return (await listens(0)) as number;
}

/**
 * Reserves a port by an abstract Unix socket of its name, which the kernel removes when this process ends. Where there
 * are none (only Linux has them), no port is reserved for others.
 */
function reserve(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer().unref();
    const end = (reserved: boolean) => {
      if (reserved) chosen.add(port);
      resolve(reserved);
    };
    server.once('error', (error: NodeJS.ErrnoException) => end(error.code !== 'EADDRINUSE'));
    server.listen(`\0skerry-port-${port}`, () => end(true));
  });
}

/** Whether a server could listen on this port of 127.0.0.1 now. */
export async function isFree(port: number): Promise<boolean> {
  return (await listens(port)) !== undefined;
}

/** The process that listens on a TCP port of this machine: `node (pid 4711)`; undefined when none does or it is not visible. */
export function portOwner(port: number, proc = '/proc'): string | undefined {
  const inodes = ['tcp', 'tcp6'].flatMap((file) => listeningInodes(read(`${proc}/net/${file}`), port));
  if (inodes.length === 0) return undefined;
  const sockets = new Set(inodes.map((inode) => `socket:[${inode}]`));
  for (const pid of list(proc).filter((name) => /^\d+$/.test(name))) {
    for (const descriptor of list(`${proc}/${pid}/fd`)) {
      if (sockets.has(link(`${proc}/${pid}/fd/${descriptor}`))) return `${commandOf(pid, proc)} (pid ${pid})`;
    }
  }
  return 'a process that this user may not see';
}

/** The inodes of the sockets that listen on a port, from the text of /proc/net/tcp or tcp6. */
export function listeningInodes(table: string, port: number): string[] {
  const LISTEN = '0A';
  return table
    .split('\n')
    .slice(1)
    .map((line) => line.trim().split(/\s+/))
    .filter(([, local, , state]) => state === LISTEN && Number.parseInt(local?.split(':')[1] ?? '', 16) === port)
    .map((fields) => fields[9] as string);
}

function commandOf(pid: string, proc: string): string {
  const words = read(`${proc}/${pid}/cmdline`).split('\0').filter(Boolean);
  const text = words.length > 0 ? words.join(' ') : read(`${proc}/${pid}/comm`).trim();
  return text.length > 80 ? `${text.slice(0, 79)}…` : text;
}

function listens(port: number): Promise<number | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(undefined));
    server.listen(port, '127.0.0.1', () => {
      const address = server.address() as { port: number };
      server.close(() => resolve(address.port));
    });
  });
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

function list(path: string): string[] {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
}

function link(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return '';
  }
}
