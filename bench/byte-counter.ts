import { spawnSync } from 'node:child_process';
import { connect, createServer, type Socket } from 'node:net';
import { carry, type SlowLink } from './slow-link.ts';

/** A proxy between an agent and the controller that counts bytes. */
export interface ByteCounter extends AsyncDisposable {
  /** `http://127.0.0.1:<port>` */
  readonly url: string;
  /** Passes bytes as over this link from now on; those that are connected have to connect again. */
  change(link: SlowLink | undefined): void;
  /** Begins to count; the result returns what has passed since. */
  watch(): () => Traffic;
}

/** Bytes of HTTP in each direction. */
interface Traffic {
  seconds: number;
  up: number;
  down: number;
  /** TCP segments sent upstream, acknowledgements and probes included; undefined where the kernel does not count them */
  segmentsUp?: number;
}

export async function countBytes(target: string): Promise<ByteCounter> {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  let up = 0;
  let down = 0;
  let slow: SlowLink | undefined;

  const server = createServer({ noDelay: true }, (near) => {
    const far = connect({ host: hostname, port: Number(port), noDelay: true });
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      from.on('error', () => to.destroy());
      from.on('close', () => {
        sockets.delete(from);
        to.destroy();
      });
    }
    near.on('data', (piece) => {
      up += piece.length;
    });
    far.on('data', (piece) => {
      down += piece.length;
    });
    if (slow) {
      carry(near, far, slow, { connects: true });
      carry(far, near, slow, { connects: false });
    } else {
      near.pipe(far);
      far.pipe(near);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const own = (server.address() as { port: number }).port;

  return {
    url: `http://127.0.0.1:${own}`,
    change(link) {
      slow = link;
      for (const socket of [...sockets]) socket.destroy();
    },
    watch() {
      const before = { up, down, at: performance.now(), segments: segmentsTo(own) };
      const latest = new Map(before.segments);
      // The count of a connection is lost when it ends, so it is read every few seconds.
      const look = () => {
        for (const [connection, segments] of segmentsTo(own) ?? []) latest.set(connection, segments);
      };
      const timer = setInterval(look, LOOK_MS);
      return () => {
        clearInterval(timer);
        look();
        return {
          seconds: (performance.now() - before.at) / 1000,
          up: up - before.up,
          down: down - before.down,
          ...(before.segments && { segmentsUp: sum(latest) - sum(before.segments) }),
        };
      };
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const LOOK_MS = 5_000;

/** Segments that the other ends of the connections to a port of this machine have sent. */
function segmentsTo(port: number): ReadonlyMap<string, number> | undefined {
  const filter = ['state', 'established', `dport = :${port}`];
  const { status, stdout } = spawnSync('ss', ['-tinH', ...filter], { encoding: 'utf8' });
  return status === 0 ? segmentsSent(stdout) : undefined;
}

/** `segs_out` by the address of the sender, from the text of `ss -ti`: two lines for each connection. */
export function segmentsSent(text: string): ReadonlyMap<string, number> {
  const connections = text.matchAll(/^\d+ +\d+ +(\S+) .*\n\s.*\bsegs_out:(\d+)/gm);
  return new Map([...connections].map(([, sender = '', count]) => [sender, Number(count)]));
}

const sum = (counts: ReadonlyMap<string, number>) => [...counts.values()].reduce((total, count) => total + count, 0);
