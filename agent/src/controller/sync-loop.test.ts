import { expect, test } from 'vitest';
import { newKey } from '../state/identity.ts';
import { signingKey } from '../state/token.ts';
import { VirtualClock } from '../system/_virtual-clock.ts';
import { type HttpRequest, type HttpResponse, TransportError } from '../system/http.ts';
import { silentLog } from '../system/log.ts';
import { ControllerClient } from './client.ts';
import { SyncLoop } from './sync-loop.ts';

/** The link in virtual time, against a network that misbehaves. */

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOLD = /wait=(\d+)/;

/** How the network answers a request; undefined: as a controller does that has no news. */
type Network = (request: HttpRequest) => Promise<HttpResponse> | undefined;

function start(network: Network = () => undefined) {
  const clock = new VirtualClock();
  const stop = new AbortController();
  const polls: { at: number; wait: number }[] = [];
  const statuses: number[] = [];
  let wall = 0;
  let epochPosition: string | undefined;
  const answer = (body: unknown, status = 200): HttpResponse => ({ status, headers: {}, body: JSON.stringify(body) });

  async function controller(request: HttpRequest): Promise<HttpResponse> {
    if (request.path.endsWith('/status') && request.method === 'GET')
      return answer({ status: 'online', timestamp: clock.now() + wall, uptimeSec: 1 });
    if (request.method === 'PUT') {
      statuses.push(clock.now());
      return answer('', 204);
    }
    const wait = Number(HOLD.exec(request.path)?.[1] ?? 0);
    if (wait > 0) await clock.sleep(wait * SECOND, request.signal);
    return answer({ lastUpdated: '', due: '' });
  }

  /** As the real one: an answer has to come within the deadline. */
  async function transport(request: HttpRequest): Promise<HttpResponse> {
    const wait = Number(HOLD.exec(request.path)?.[1] ?? 0);
    if (request.path.includes('/changes')) polls.push({ at: clock.now(), wait });
    const late = clock.sleep(request.deadline, request.signal).then(() => {
      throw new TransportError('TIMEOUT', 'no answer');
    });
    late.catch(() => {});
    return Promise.race([network(request) ?? controller(request), late]);
  }

  const log = silentLog();
  const link = new SyncLoop({
    client: new ControllerClient({
      controllerUrl: 'http://controller.example:51121',
      instance: 'i',
      boot: 'b',
      clock,
      transport,
      epochPosition: {
        get: () => epochPosition,
        set(position) {
          epochPosition = position;
        },
      },
      node: { uuid: '00000000-0000-4000-8000-000000000001', key: signingKey(newKey()) },
    }),
    clock,
    random: () => 0.5,
    log,
    have: () => ({}),
    save: () => {},
    carryOut: () => {},
    deleting: () => {},
    deleted: () => {},
    report: async () => ({ daemonStatus: 'RUNNING', warningMessage: String(clock.now()) }),
    reported: () => {},
    statusFrequency: () => 10,
    changeFrequency: () => 20,
  });
  const done = link.run(stop.signal);
  return {
    clock,
    link,
    polls,
    statuses,
    moveControllerClock: (ms: number) => {
      wall = ms;
    },
    async [Symbol.asyncDispose]() {
      stop.abort();
      await done;
    },
  };
}

/** What sits between, and ends every connection on which nothing was said for so long. */
const cutsIdleAfter =
  (clock: () => VirtualClock, milliseconds: () => number): Network =>
  (request) => {
    const wait = Number(HOLD.exec(request.path)?.[1] ?? 0) * SECOND;
    if (wait <= milliseconds()) return undefined;
    return clock()
      .sleep(milliseconds(), request.signal)
      .then(() => {
        throw new TransportError('ECONNRESET', 'cut');
      });
  };

test('a network that cuts quiet connections makes the holds shorter, two cuts at a time, until they last', async () => {
  let patience = 20 * SECOND;
  await using world = start(
    cutsIdleAfter(
      () => world.clock,
      () => patience,
    ),
  );
  await world.clock.advance(10 * MINUTE);
  const waits = world.polls.map(({ wait }) => wait).filter((wait) => wait > 0);
  expect([...new Set(waits)]).toEqual([60, 30, 15]);
  expect(waits.filter((wait) => wait === 60)).toHaveLength(2);
  expect(waits.filter((wait) => wait === 30)).toHaveLength(2);
  expect(world.link.connection.state).toBe('OK');

  // Another network: after an hour a longer hold is tried again.
  patience = 10 * MINUTE;
  await world.clock.advance(130 * MINUTE);
  expect(world.polls.at(-1)?.wait).toBe(60);
});

test('one cut now and then does not shorten the holds', async () => {
  let count = 0;
  await using world = start((request) => {
    if (!HOLD.test(request.path) || ++count % 3 !== 0) return undefined;
    return world.clock.sleep(30 * SECOND, request.signal).then(() => {
      throw new TransportError('ECONNRESET', 'cut');
    });
  });
  await world.clock.advance(60 * MINUTE);
  expect(count).toBeGreaterThan(30);
  expect(new Set(world.polls.map(({ wait }) => wait).filter((wait) => wait > 0))).toEqual(new Set([60]));
});

test('a link that swallows everything is noticed within two minutes, and left within one after it is back', async () => {
  let open = true;
  await using world = start((request) =>
    open ? undefined : (world.clock.sleep(24 * 60 * MINUTE, request.signal) as never),
  );
  await world.clock.advance(5 * MINUTE);
  expect(world.link.connection.state).toBe('OK');
  open = false;
  await world.clock.advance(2 * MINUTE);
  expect(world.link.connection).toMatchObject({ state: 'NOT_CONNECTED', error: expect.stringContaining('TIMEOUT') });
  await world.clock.advance(60 * MINUTE);
  open = true;
  const back = world.clock.now();
  await world.clock.advance(MINUTE);
  expect(world.link.connection.state).toBe('OK');
  expect(world.statuses.some((at) => at >= back)).toBe(true);
});

test('a report that gets no answer ends the poll that hangs on the same link', async () => {
  let open = true;
  await using world = start((request) =>
    open ? undefined : (world.clock.sleep(24 * 60 * MINUTE, request.signal) as never),
  );
  await world.clock.advance(5 * MINUTE);
  open = false;
  await world.clock.advance(5 * SECOND);
  world.link.changed();
  const before = world.polls.length;
  await world.clock.advance(40 * SECOND);
  expect(world.link.connection.state).toBe('NOT_CONNECTED');
  open = true;
  await world.clock.advance(60 * SECOND);
  expect(world.link.connection.state).toBe('OK');
  expect(world.polls.length).toBeGreaterThan(before);
});

test('a controller that does not hold polls is not asked without end, however long the way to it is', async () => {
  await using world = start((request) => {
    const body = JSON.stringify({ lastUpdated: '', due: '', status: 'online', timestamp: 0, uptimeSec: 1 });
    return world.clock.sleep(2 * SECOND, request.signal).then(() => ({ status: 200, headers: {}, body }));
  });
  await world.clock.advance(MINUTE);
  const before = world.polls.length;
  await world.clock.advance(10 * MINUTE);
  // Every 20 s, as the settings say.
  expect(world.polls.length - before).toBeLessThan(33);
});

test('a long poll that ends for the next epoch position delays no poll, and one that ends for nothing does', async () => {
  let sequenceNumber = 0;
  const headers = () => ({ 'skerry-epoch-position': `1.aaaaaaaa.${Math.min(++sequenceNumber, 6)}` });
  await using world = start((request) => {
    if (!HOLD.test(request.path)) return undefined;
    const body = JSON.stringify({ lastUpdated: '', due: '' });
    return world.clock.sleep(200, request.signal).then(() => ({ status: 200, headers: headers(), body }));
  });
  await world.clock.advance(10 * SECOND);
  const gaps = world.polls.map(({ at }, i) => at - (world.polls[i - 1]?.at ?? at));
  expect(Math.max(...gaps.slice(2, 7))).toBeLessThan(500);
  expect(Math.min(...gaps.slice(8))).toBeGreaterThanOrEqual(1_000);
});

test('an hour without a link costs two attempts a minute, not more', async () => {
  let open = true;
  let attempts = 0;
  await using world = start(() => {
    attempts++;
    return open ? undefined : Promise.reject(new TransportError('ENOTFOUND', 'getaddrinfo ENOTFOUND'));
  });
  await world.clock.advance(MINUTE);
  open = false;
  await world.clock.advance(2 * MINUTE);
  attempts = 0;
  await world.clock.advance(60 * MINUTE);
  expect(world.link.connection).toMatchObject({ state: 'NOT_CONNECTED', error: expect.stringContaining('ENOTFOUND') });
  expect(attempts).toBeGreaterThan(60);
  expect(attempts).toBeLessThan(150);
  open = true;
  await world.clock.advance(2 * MINUTE);
  expect(world.link.connection.state).toBe('OK');
});

const RETURNS: Record<string, { problem: () => Promise<HttpResponse>; asks: string[] }> = {
  'the way was lost: for changes, since every request delays it': {
    problem: () => Promise.reject(new TransportError('ECONNREFUSED', 'refused')),
    asks: ['/agent/changes', '/agent/changes'],
  },
  'its token was refused: for the time first, since a clock may have moved': {
    problem: async () => ({ status: 401, headers: {}, body: JSON.stringify({ code: 'AGENT_JWT_EXPIRED' }) }),
    asks: ['/status', '/agent/changes'],
  },
};
for (const [name, { problem, asks }] of Object.entries(RETURNS))
  test(`who comes back after ${name}`, async () => {
    let ails = false;
    const asked: string[] = [];
    await using world = start((request) => {
      if (ails) return problem();
      if (request.method === 'GET') asked.push(request.path.replace(/^\/api\/v3|\?.*$/g, ''));
      return undefined;
    });
    await world.clock.advance(30 * SECOND);
    ails = true;
    await world.clock.advance(2 * MINUTE);
    expect(world.link.connection.state).not.toBe('OK');
    asked.length = 0;
    ails = false;
    await world.clock.advance(10 * MINUTE);
    expect(asked.slice(0, 2)).toEqual(asks);
    expect(world.link.connection.state).toBe('OK');
  });
