import { expect, test } from 'vitest';
import { silentLog } from '../../../src/lib/log.ts';
import { VirtualClock } from '../machine/_virtual-clock.ts';
import { type HttpRequest, type HttpResponse, TransportError } from '../machine/http.ts';
import { newKey } from '../state/identity.ts';
import { signingKey } from '../state/token.ts';
import { failure } from './_fake-controller.ts';
import { ControllerClient } from './client.ts';
import { SyncLoop } from './sync-loop.ts';

/** The sync loop in virtual time, on a network with faults. */

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const WAIT = /wait=(\d+)/;

/** The response of the network to a request; undefined: that of a controller with no change. */
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
    const wait = Number(WAIT.exec(request.path)?.[1] ?? 0);
    if (wait > 0) await clock.sleep(wait * SECOND, request.signal);
    return answer({ lastUpdated: '', due: '' });
  }

  /** Like the real transport, this one fails a request at its deadline. */
  async function transport(request: HttpRequest): Promise<HttpResponse> {
    const wait = Number(WAIT.exec(request.path)?.[1] ?? 0);
    if (request.path.includes('/changes')) polls.push({ at: clock.now(), wait });
    const late = clock.sleep(request.deadline, request.signal).then(() => {
      throw new TransportError('TIMEOUT', 'no answer');
    });
    late.catch(() => {});
    return Promise.race([network(request) ?? controller(request), late]);
  }

  const log = silentLog;
  const loop = new SyncLoop({
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
    short: () => undefined,
    save: () => {},
    carryOut: () => {},
    sessionsChanged: () => {},
    trust: async () => {},
    deleting: () => {},
    deleted: () => {},
    report: async () => ({ daemonStatus: 'RUNNING', warningMessage: String(clock.now()) }),
    reported: () => {},
    statusFrequency: () => 10,
    changeFrequency: () => 20,
  });
  const done = loop.run(stop.signal);
  return {
    clock,
    loop,
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

/** A middlebox that cuts every connection that was idle for so long. */
const cutsIdleAfter =
  (clock: () => VirtualClock, milliseconds: () => number): Network =>
  (request) => {
    const wait = Number(WAIT.exec(request.path)?.[1] ?? 0) * SECOND;
    if (wait <= milliseconds()) return undefined;
    return clock()
      .sleep(milliseconds(), request.signal)
      .then(() => {
        throw new TransportError('ECONNRESET', 'cut');
      });
  };

test('a network that cuts idle connections shortens the long polls after every two cuts, until they last', async () => {
  let patience = 20 * SECOND;
  await using fixture = start(
    cutsIdleAfter(
      () => fixture.clock,
      () => patience,
    ),
  );
  await fixture.clock.advance(10 * MINUTE);
  const waits = fixture.polls.map(({ wait }) => wait).filter((wait) => wait > 0);
  expect([...new Set(waits)]).toEqual([60, 30, 15]);
  expect(waits.filter((wait) => wait === 60)).toHaveLength(2);
  expect(waits.filter((wait) => wait === 30)).toHaveLength(2);
  expect(fixture.loop.connection.state).toBe('OK');

  // On another network, a longer wait is tried again after an hour.
  patience = 10 * MINUTE;
  await fixture.clock.advance(130 * MINUTE);
  expect(fixture.polls.at(-1)?.wait).toBe(60);
});

test('an occasional cut does not shorten the long polls', async () => {
  let count = 0;
  await using fixture = start((request) => {
    if (!WAIT.test(request.path) || ++count % 3 !== 0) return undefined;
    return fixture.clock.sleep(30 * SECOND, request.signal).then(() => {
      throw new TransportError('ECONNRESET', 'cut');
    });
  });
  await fixture.clock.advance(60 * MINUTE);
  expect(count).toBeGreaterThan(30);
  expect(new Set(fixture.polls.map(({ wait }) => wait).filter((wait) => wait > 0))).toEqual(new Set([60]));
});

test('a network that drops all packets is noticed within two minutes, and the agent reconnects within one', async () => {
  let open = true;
  await using fixture = start((request) =>
    open ? undefined : (fixture.clock.sleep(24 * 60 * MINUTE, request.signal) as never),
  );
  await fixture.clock.advance(5 * MINUTE);
  expect(fixture.loop.connection.state).toBe('OK');
  open = false;
  await fixture.clock.advance(2 * MINUTE);
  expect(fixture.loop.connection).toMatchObject({ state: 'NOT_CONNECTED', error: expect.stringContaining('TIMEOUT') });
  await fixture.clock.advance(60 * MINUTE);
  open = true;
  const back = fixture.clock.now();
  await fixture.clock.advance(MINUTE);
  expect(fixture.loop.connection.state).toBe('OK');
  expect(fixture.statuses.some((at) => at >= back)).toBe(true);
});

test('a report without a response ends the poll on the same network', async () => {
  let open = true;
  await using fixture = start((request) =>
    open ? undefined : (fixture.clock.sleep(24 * 60 * MINUTE, request.signal) as never),
  );
  await fixture.clock.advance(5 * MINUTE);
  open = false;
  await fixture.clock.advance(5 * SECOND);
  fixture.loop.changed();
  const before = fixture.polls.length;
  await fixture.clock.advance(40 * SECOND);
  expect(fixture.loop.connection.state).toBe('NOT_CONNECTED');
  open = true;
  await fixture.clock.advance(60 * SECOND);
  expect(fixture.loop.connection.state).toBe('OK');
  expect(fixture.polls.length).toBeGreaterThan(before);
});

test('a controller that answers long polls at once is not polled in a busy loop, even with a long round trip', async () => {
  await using fixture = start((request) => {
    const body = JSON.stringify({ lastUpdated: '', due: '', status: 'online', timestamp: 0, uptimeSec: 1 });
    return fixture.clock.sleep(2 * SECOND, request.signal).then(() => ({ status: 200, headers: {}, body }));
  });
  await fixture.clock.advance(MINUTE);
  const before = fixture.polls.length;
  await fixture.clock.advance(10 * MINUTE);
  // Every 20 s, as the settings say.
  expect(fixture.polls.length - before).toBeLessThan(33);
});

test('a long poll that ends early delays the next one, unless it brought a new epoch position', async () => {
  let sequenceNumber = 0;
  const headers = () => ({ 'skerry-epoch-position': `1.aaaaaaaa.${Math.min(++sequenceNumber, 6)}` });
  await using fixture = start((request) => {
    if (!WAIT.test(request.path)) return undefined;
    const body = JSON.stringify({ lastUpdated: '', due: '' });
    return fixture.clock.sleep(200, request.signal).then(() => ({ status: 200, headers: headers(), body }));
  });
  await fixture.clock.advance(10 * SECOND);
  const gaps = fixture.polls.map(({ at }, i) => at - (fixture.polls[i - 1]?.at ?? at));
  expect(Math.max(...gaps.slice(2, 7))).toBeLessThan(500);
  expect(Math.min(...gaps.slice(8))).toBeGreaterThanOrEqual(1_000);
});

test('an hour without a network costs at most two attempts a minute', async () => {
  let open = true;
  let attempts = 0;
  await using fixture = start(() => {
    attempts++;
    return open ? undefined : Promise.reject(new TransportError('ENOTFOUND', 'getaddrinfo ENOTFOUND'));
  });
  await fixture.clock.advance(MINUTE);
  open = false;
  await fixture.clock.advance(2 * MINUTE);
  attempts = 0;
  await fixture.clock.advance(60 * MINUTE);
  expect(fixture.loop.connection).toMatchObject({
    state: 'NOT_CONNECTED',
    error: expect.stringContaining('ENOTFOUND'),
  });
  expect(attempts).toBeGreaterThan(60);
  expect(attempts).toBeLessThan(150);
  open = true;
  await fixture.clock.advance(2 * MINUTE);
  expect(fixture.loop.connection.state).toBe('OK');
});

const RECOVERIES: Record<string, { problem: () => Promise<HttpResponse>; asks: string[] }> = {
  'a lost connection polls for changes first, since every other request delays that': {
    problem: () => Promise.reject(new TransportError('ECONNREFUSED', 'refused')),
    asks: ['/agent/changes', '/agent/changes'],
  },
  "a refused token asks for the controller's time first, since a clock may have moved": {
    problem: async () => ({ status: 401, headers: {}, body: JSON.stringify(failure(401, 'AGENT_JWT_EXPIRED').body) }),
    asks: ['/status', '/agent/changes'],
  },
};
for (const [name, { problem, asks }] of Object.entries(RECOVERIES))
  test(`an agent that recovers from ${name}`, async () => {
    let isFaulty = false;
    const asked: string[] = [];
    await using fixture = start((request) => {
      if (isFaulty) return problem();
      if (request.method === 'GET') asked.push(request.path.replace(/^\/api\/v3|\?.*$/g, ''));
      return undefined;
    });
    await fixture.clock.advance(30 * SECOND);
    isFaulty = true;
    await fixture.clock.advance(2 * MINUTE);
    expect(fixture.loop.connection.state).not.toBe('OK');
    asked.length = 0;
    isFaulty = false;
    await fixture.clock.advance(10 * MINUTE);
    expect(asked.slice(0, 2)).toEqual(asks);
    expect(fixture.loop.connection.state).toBe('OK');
  });

test('a list that the controller has no room to send now is requested again after Retry-After, with jitter', async () => {
  const requested: number[] = [];
  const respond = (status: number, body: object, headers = {}) =>
    Promise.resolve({ status, headers, body: JSON.stringify(body) });
  await using fixture = start((request) => {
    if (request.path.includes('/changes'))
      return respond(200, { lastUpdated: '', due: 'volumeMounts:a1', volumeMounts: true });
    if (!request.path.endsWith('/volumeMounts')) return undefined;
    requested.push(fixture.clock.now());
    return respond(503, { code: 'CONTROLLER_NOT_READY', retryable: true }, { 'retry-after': '5' });
  });
  await fixture.clock.advance(MINUTE);
  const pauses = requested.slice(1).map((at, i) => at - (requested[i] ?? 0));
  expect(pauses.length).toBeGreaterThan(5);
  for (const pause of pauses) {
    expect(pause).toBeGreaterThanOrEqual(5 * SECOND);
    expect(pause).toBeLessThanOrEqual(8 * SECOND);
  }
  expect(fixture.loop.connection.error).toContain('CONTROLLER_NOT_READY');
});
