import { expect, test } from 'vitest';
import { silentLog } from '../../../src/lib/log.ts';
import type { TunnelView } from '../../../src/wire/tunnel.ts';
import { atEnd } from '../../../testing/at-end.ts';
import type { SentTunnel } from '../domain/desired.ts';
import { VirtualClock } from '../machine/_virtual-clock.ts';
import { makeTunnel } from './_make.ts';
import { Tunnel } from './tunnel.ts';

/** A tunnel over an ssh client of the test. */
function setUp() {
  const clock = new VirtualClock();
  const attempts: { view: TunnelView; opened(): void; end(reason: string): void; signal: AbortSignal }[] = [];
  const state = { isAllowed: true, cleared: 0, changes: 0, refusal: '' };
  const tunnel = new Tunnel({
    client: {
      async open(view, { signal, opened }) {
        if (state.refusal) throw new Error(state.refusal);
        return new Promise((resolve) => {
          attempts.push({ view, opened, end: resolve, signal });
          signal.addEventListener('abort', () => resolve('ended'));
        });
      },
      clear: () => void state.cleared++,
    },
    ...{ clock, random: () => 0.5, log: silentLog },
    isAllowed: () => state.isAllowed,
    changed: () => void state.changes++,
  });
  const stop = new AbortController();
  const running = tunnel.run(stop.signal);
  atEnd(async () => {
    stop.abort();
    await running;
  });
  const send = async (sent: SentTunnel | undefined) => {
    tunnel.look({ tunnel: sent });
    await turn();
  };
  const said = () => JSON.parse(tunnel.report().tunnelStatus ?? '');
  return { clock, attempts, state, tunnel, send, said, stop, running };
}
const turn = () => new Promise((resolve) => setImmediate(resolve));

test('a tunnel is open once the server has accepted it, and closed when the controller closes it', async () => {
  const { attempts, send, said, state } = setUp();
  await turn();
  expect(said()).toEqual({});
  await send(makeTunnel());
  expect(said()).toEqual({ status: 'opening' });
  attempts[0]?.opened();
  expect(said()).toEqual({ status: 'open' });
  const cleared = state.cleared;
  await send(makeTunnel({ closed: true, rsaKey: '' }));
  expect(attempts[0]?.signal.aborted).toBe(true);
  expect(said()).toEqual({ status: 'closed' });
  expect(state.cleared).toBe(cleared + 1);
  await send(undefined);
  expect(said()).toEqual({});
  expect(attempts).toHaveLength(1);
});

test('a tunnel that fails is tried again after pauses that grow up to five minutes, and the reason stays readable', async () => {
  const { clock, attempts, send, said, tunnel } = setUp();
  await send(makeTunnel());
  const pauses = [2, 4, 8, 16, 32, 64, 128, 256, 300, 300];
  for (const [index, seconds] of pauses.entries()) {
    attempts[index]?.end('no route to host');
    await turn();
    expect(said()).toEqual({ status: 'failed', message: 'no route to host' });
    expect(tunnel.problems).toEqual(['tunnel: no route to host']);
    await clock.advance(seconds * 1000 - 1);
    expect(attempts).toHaveLength(index + 1);
    await clock.advance(1);
    await turn();
    expect(attempts).toHaveLength(index + 2);
    expect(said().status).toBe('failed');
  }
});

test('the pauses begin again after a tunnel was open for a minute', async () => {
  const { clock, attempts, send } = setUp();
  await send(makeTunnel());
  for (const [index, seconds] of [2, 4, 8].entries()) {
    attempts[index]?.opened();
    attempts[index]?.end('connection lost');
    await turn();
    await clock.advance(seconds * 1000);
    await turn();
  }
  expect(attempts).toHaveLength(4);
  attempts[3]?.opened();
  await clock.advance(60_000);
  attempts[3]?.end('connection lost');
  await turn();
  await clock.advance(2000);
  await turn();
  expect(attempts).toHaveLength(5);
});

test('another key or port ends the tunnel and opens the next one at once, also in a pause', async () => {
  const { attempts, send } = setUp();
  await send(makeTunnel());
  await send(makeTunnel({ rsaKey: 'NEXT' }));
  expect(attempts.map(({ view, signal }) => [view.rsaKey, signal.aborted])).toEqual([
    ['PRIVATE KEY', true],
    ['NEXT', false],
  ]);
  attempts[1]?.end('refused');
  await turn();
  await send(makeTunnel({ rsaKey: 'THIRD' }));
  expect(attempts).toHaveLength(3);
  await send(makeTunnel({ rsaKey: 'THIRD' }));
  expect(attempts).toHaveLength(3);
});

test.each<[string, SentTunnel, RegExp]>([
  [
    'without host keys of the server',
    makeTunnel({ knownHosts: ' \n' }),
    /sent no host keys of bastion\.example \(knownHosts\)/,
  ],
  ['with neither key nor password', makeTunnel({ rsaKey: '' }), /sent neither a key nor a password/],
  ['that cannot be read', { problem: 'the tunnel cannot be read: host' }, /cannot be read: host/],
])('a tunnel %s is not opened', async (_title, sent, want) => {
  const { attempts, send, said } = setUp();
  await send(sent);
  expect(said()).toEqual({ status: 'failed', message: expect.stringMatching(want) });
  expect(attempts).toEqual([]);
});

test('the policy of the machine forbids a tunnel, ends an open one, and allows it again', async () => {
  const { attempts, send, said, state } = setUp();
  await send(makeTunnel());
  attempts[0]?.opened();
  state.isAllowed = false;
  await send(makeTunnel());
  expect(attempts[0]?.signal.aborted).toBe(true);
  expect(said()).toEqual({
    status: 'failed',
    message: expect.stringContaining('policy of this machine forbids tunnels'),
  });
  state.isAllowed = true;
  await send(makeTunnel());
  expect(attempts).toHaveLength(2);
  expect(said()).toEqual({ status: 'opening' });
});

test('a machine without an ssh client says so, and tries again', async () => {
  const { clock, attempts, send, said, state } = setUp();
  state.refusal = 'this machine has no ssh client; install openssh-client';
  await send(makeTunnel());
  expect(said()).toEqual({ status: 'failed', message: state.refusal });
  state.refusal = '';
  await clock.advance(2000);
  await turn();
  expect(attempts).toHaveLength(1);
});

test('the end of the agent ends the tunnel and removes its key', async () => {
  const { attempts, send, stop, running, state } = setUp();
  await send(makeTunnel());
  const { cleared } = state;
  stop.abort();
  await running;
  expect(attempts[0]?.signal.aborted).toBe(true);
  expect(state.cleared).toBe(cleared + 1);
});

test('only a change of what it says asks for a report', async () => {
  const { attempts, send, state } = setUp();
  await send(makeTunnel());
  attempts[0]?.opened();
  const { changes } = state;
  attempts[0]?.opened();
  await send(makeTunnel());
  expect(state.changes).toBe(changes);
});
