import { spawnSync } from 'node:child_process';
import { connect, createServer, type Socket } from 'node:net';

/** Stands between an agent and the controller, passes everything on, and counts. */
export interface ByteCounter extends AsyncDisposable {
  /** `http://127.0.0.1:<port>` */
  readonly url: string;
  /** Begins to count; the result says what has passed since. */
  watch(): () => Traffic;
}

/** What passed in one direction each, bytes of HTTP. */
export interface Traffic {
  seconds: number;
  up: number;
  down: number;
  /** TCP segments that went up; undefined where the kernel's counts cannot be read or a connection came or went */
  segmentsUp?: number;
}

export async function countBytes(target: string): Promise<ByteCounter> {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  let up = 0;
  let down = 0;
  let connections = 0;

  const server = createServer({ noDelay: true }, (near) => {
    connections++;
    const far = connect({ host: hostname, port: Number(port), noDelay: true });
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      from.on('error', () => to.destroy());
      from.on('close', () => {
        sockets.delete(from);
        connections++;
        to.destroy();
      });
    }
    near.on('data', (piece) => {
      up += piece.length;
    });
    far.on('data', (piece) => {
      down += piece.length;
    });
    near.pipe(far);
    far.pipe(near);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const own = (server.address() as { port: number }).port;

  return {
    url: `http://127.0.0.1:${own}`,
    watch() {
      const before = { up, down, connections, at: performance.now(), segments: segmentsTo(own) };
      return () => {
        const segments = segmentsTo(own);
        const steady = connections === before.connections && segments !== undefined && before.segments !== undefined;
        return {
          seconds: (performance.now() - before.at) / 1000,
          up: up - before.up,
          down: down - before.down,
          ...(steady && { segmentsUp: (segments ?? 0) - (before.segments ?? 0) }),
        };
      };
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Segments, acknowledgements included, that the other ends of all connections to a port of this machine have sent. */
function segmentsTo(port: number): number | undefined {
  const { status, stdout } = spawnSync('ss', ['-tinH', 'state', 'established', `dport = :${port}`], {
    encoding: 'utf8',
  });
  return status === 0 ? segmentsSent(stdout) : undefined;
}

/** The sum of `segs_out` in the text of `ss -ti`. */
export function segmentsSent(text: string): number {
  return [...text.matchAll(/\bsegs_out:(\d+)/g)].reduce((sum, [, count]) => sum + Number(count), 0);
}
