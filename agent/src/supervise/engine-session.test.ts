import { expect, test } from 'vitest';
import { silentLog } from '../../../src/lib/log.ts';
import type { EngineEvent } from '../engine-port/connection.ts';
import { EngineError } from '../engine-port/error.ts';
import { MemoryEngine } from '../engines/memory/_engine.ts';
import { VirtualClock } from '../machine/_virtual-clock.ts';
import { EngineSession, type Outage } from './engine-session.ts';

/** A session with an engine whose events and connections the test controls. */
function createFixture() {
  const clock = new VirtualClock();
  const start = clock.now();
  let emit: (event: EngineEvent | Error) => void = () => {};
  let refused: Error | undefined;
  const memory = new MemoryEngine();
  const engine = {
    url: memory.url,
    connect: async () => {
      if (refused) throw refused;
      return memory.connect();
    },
    network: () => memory.network(),
    ensureNetwork: () => memory.ensureNetwork(),
    removeNetwork: () => memory.removeNetwork(),
    async *events(signal: AbortSignal): AsyncGenerator<EngineEvent> {
      while (!signal.aborted) {
        const event = await new Promise<EngineEvent | Error | undefined>((resolve) => {
          emit = resolve;
          signal.addEventListener('abort', () => resolve(undefined), { once: true });
        });
        if (event instanceof Error) throw event;
        if (event) yield event;
      }
    },
  };
  const calls: string[] = [];
  const outages: (Outage | undefined)[] = [];
  let losses = 0;
  let wake = () => {};
  const deps = { engine, clock, random: () => 0.5, log: silentLog, metrics: { add: () => losses++ } };
  const session: EngineSession = new EngineSession(deps, {
    prepare: async () => void calls.push('prepare'),
    connected: (_facts, _network, outage) => {
      calls.push('connected');
      outages.push(outage && { from: outage.from - start, to: outage.to - start });
    },
    turn: async (signal) => {
      calls.push('turn');
      session.reached();
      await new Promise<void>((resolve) => {
        wake = resolve;
        signal.addEventListener('abort', () => resolve(), { once: true });
      });
    },
    wake: () => wake(),
    ended: () => calls.push('ended'),
    changed: () => {},
  });
  const stop = new AbortController();
  return {
    session,
    clock,
    calls,
    outages,
    losses: () => losses,
    refuse: (error: Error | undefined) => {
      refused = error;
    },
    emit: (event: EngineEvent | Error) => emit(event),
    run: () => session.run(stop.signal),
    stop: () => stop.abort(),
  };
}

test('a session is prepared before the first turn', async () => {
  const { calls, clock, run, stop } = createFixture();
  const done = run();
  await clock.advance(0);
  expect(calls).toEqual(['prepare', 'connected', 'turn']);
  stop();
  await done;
  expect(calls.at(-1)).toBe('ended');
});

test('an engine that does not answer is unreachable until it has been read again', async () => {
  const { session, clock, refuse, losses, run, stop } = createFixture();
  refuse(new EngineError('Unavailable', 'no socket'));
  const done = run();
  await clock.advance(0);
  expect(session.state).toMatchObject({ state: 'lost', error: 'no socket' });
  expect(session.unreachable).toBe('no socket');
  expect(losses()).toBe(0);
  refuse(undefined);
  await clock.advance(2_000);
  expect(session.state.state).toBe('connected');
  expect(session.unreachable).toBeUndefined();
  stop();
  await done;
});

test('attempts to connect are made at growing intervals of at most 15 s', async () => {
  const { session, clock, refuse, calls, run, stop } = createFixture();
  refuse(new EngineError('Unavailable', 'no socket'));
  const done = run();
  await clock.advance(60_000);
  const failed = calls.length;
  expect(failed).toBeGreaterThanOrEqual(7);
  expect(failed).toBeLessThanOrEqual(9);
  await clock.advance(45_000);
  expect(calls.length - failed).toBe(3);
  expect(session.facts).toBeUndefined();
  stop();
  await done;
});

test('an event stream that ends is an outage, and the engine still counts as reachable', async () => {
  const { session, clock, outages, losses, emit, run, stop } = createFixture();
  const done = run();
  await clock.advance(10_000);
  emit(new EngineError('Unavailable', 'the stream broke'));
  await clock.advance(0);
  expect(session.state).toMatchObject({ state: 'lost', error: 'the stream broke' });
  expect(session.unreachable).toBeUndefined();
  await clock.advance(500);
  expect(session.state.state).toBe('connected');
  expect(outages).toEqual([undefined, { from: 10_000, to: 10_500 }]);
  expect(losses()).toBe(1);
  stop();
  await done;
});

test('a session that is renewed connects again at once, and no loss is counted', async () => {
  const { session, clock, calls, losses, run, stop } = createFixture();
  const done = run();
  await clock.advance(0);
  session.renew();
  await clock.advance(0);
  expect(calls).toEqual(['prepare', 'connected', 'turn', 'ended', 'prepare', 'connected', 'turn']);
  expect(losses()).toBe(0);
  stop();
  await done;
});

test('a container that another program ended is in endedByHand for 15 s', async () => {
  const { session, clock, emit, run, stop } = createFixture();
  const done = run();
  await clock.advance(0);
  emit({ containerId: 'a', action: 'start' });
  await clock.advance(0);
  emit({ containerId: 'b', action: 'kill' });
  await clock.advance(15_000);
  expect([...session.endedByHand()]).toEqual(['b']);
  await clock.advance(1);
  expect([...session.endedByHand()]).toEqual([]);
  stop();
  await done;
});
