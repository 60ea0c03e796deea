import { expect, test } from 'vitest';
import type { Clock } from './clock.ts';
import { silentLog } from './log.ts';
import { type ServedOptions, serveUntilAborted } from './serve-until-aborted.ts';

/** A connection that ends by `end`, or is closed. */
function connection() {
  const { promise: closed, resolve } = Promise.withResolvers<void>();
  const one = {
    closed,
    isClosed: false,
    end: resolve,
    async close() {
      one.isClosed = true;
    },
  };
  return one;
}
type Made = ReturnType<typeof connection>;

/** Serves until `attempts` pauses were made; the pauses in ms, the lines of the log, and the connections. */
async function served(attempts: number, behaviour: Partial<ServedOptions<Made>>) {
  const stop = new AbortController();
  const pauses: number[] = [];
  const lines: string[] = [];
  const made: Made[] = [];
  let lost = 0;
  const clock: Clock = {
    now: () => 0,
    wall: () => 0,
    after(ms, callback) {
      pauses.push(ms);
      if (pauses.length === attempts) stop.abort();
      const timer = setImmediate(callback);
      return () => clearImmediate(timer);
    },
  };
  const log = Object.assign(Object.create(silentLog), { warn: (_: unknown, text: string) => void lines.push(text) });
  await serveUntilAborted<Made>(
    {
      ...{ clock, log, random: () => 0, failing: 'in vain', lost: () => void lost++ },
      reconnect: { baseMs: 100, factor: 2, maxMs: 400, jitter: 0.5 },
      dial: async () => {
        const one = connection();
        made.push(one);
        return one;
      },
      serve: async () => {},
      ...behaviour,
    },
    stop.signal,
  );
  return { pauses, lines, made, lost };
}

const refused = async () => {
  throw new Error('ECONNREFUSED');
};

test('the pauses between attempts in vain grow to the longest', async () => {
  const { pauses, lost } = await served(4, { dial: refused });
  expect(pauses).toEqual([100, 200, 400, 400]);
  expect(lost).toBe(4);
});

test('one line in sixty attempts says that a server does not answer', async () => {
  expect((await served(121, { dial: refused })).lines).toEqual(['in vain', 'in vain', 'in vain']);
});

test('after a connection that worked, the pauses begin with the shortest', async () => {
  let attempt = 0;
  const { pauses } = await served(5, {
    serve: async (_one, _signal, works) => {
      if (++attempt === 3) works();
      throw new Error('refused');
    },
  });
  expect(pauses.slice(0, 3)).toEqual([100, 200, 100]);
  expect(pauses.slice(3)).toEqual([100, 200]);
});

test('each connection is closed, also when the work with it fails', async () => {
  const { made } = await served(2, { serve: refused });
  expect(made.map(({ isClosed }) => isClosed)).toEqual([true, true]);
});

test('the work with a connection is aborted when the connection ends', async () => {
  const reasons: unknown[] = [];
  await served(1, {
    serve: (one, signal) =>
      new Promise((resolve) => {
        signal.addEventListener('abort', () => {
          reasons.push((signal.reason as Error).message);
          resolve();
        });
        one.end();
      }),
  });
  expect(reasons).toEqual(['the connection ended']);
});
