import type { AddressInfo } from 'node:net';
import { connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/** What the link between an agent and its controllers does to bytes. */
type LinkState =
  | 'open'
  /** every connection is reset, and so is each new one */
  | 'cut'
  /** a long delay, in both directions */
  | 'slow'
  /** connections stay open, and nothing arrives in either direction */
  | 'half-open'
  /** requests of the agent arrive; responses do not */
  | 'deaf';

/** A TCP proxy of some servers, as a Service is, with faults on demand. */
export interface TcpLink extends AsyncDisposable {
  readonly port: number;
  set(state: LinkState): void;
}

const SLOW_MS = 400;

/** @param targets ports of 127.0.0.1 that may be connected to now; each connection goes to the next one */
export async function startLink(targets: () => readonly number[]): Promise<TcpLink> {
  let state: LinkState = 'open';
  let turn = 0;
  const pairs = new Set<readonly [Socket, Socket]>();
  /** connections that lost bytes: they can never continue */
  const damaged = new Set<Socket>();

  const server = createServer((near) => {
    const ports = targets();
    const port = ports[turn++ % Math.max(1, ports.length)];
    near.on('error', () => {});
    if (state === 'cut' || port === undefined) return void near.resetAndDestroy();
    const far = connect(port, '127.0.0.1');
    const pair = [near, far] as const;
    pairs.add(pair);
    const end = () => {
      pairs.delete(pair);
      damaged.delete(near);
      near.destroy();
      far.destroy();
    };
    for (const socket of pair) {
      socket.setNoDelay(true);
      socket.on('error', end).on('close', () => {
        // On a half-open link neither end notices that the other one has closed.
        if (state === 'half-open' || state === 'deaf') damaged.add(near);
        else end();
      });
    }
    pump(near, far, 'up', near);
    pump(far, near, 'down', near);
  });

  function pump(from: Socket, to: Socket, way: 'up' | 'down', near: Socket): void {
    let last = Promise.resolve();
    from.on('data', (bytes: Buffer) => {
      if (state === 'half-open' || (state === 'deaf' && way === 'down')) {
        damaged.add(near);
        return;
      }
      const delay = state === 'slow' ? SLOW_MS : 0;
      last = last.then(async () => {
        if (delay > 0) await sleep(delay);
        if (!to.destroyed) to.write(bytes);
      });
    });
  }

  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const reset = (which: (near: Socket) => boolean) => {
    for (const [near, far] of [...pairs]) {
      if (!which(near)) continue;
      near.resetAndDestroy();
      far.destroy();
    }
  };
  return {
    port: (server.address() as AddressInfo).port,
    set(next) {
      state = next;
      if (next === 'cut') reset(() => true);
      else if (next === 'open' || next === 'slow') reset((near) => damaged.has(near));
    },
    async [Symbol.asyncDispose]() {
      server.close();
      reset(() => true);
    },
  };
}
