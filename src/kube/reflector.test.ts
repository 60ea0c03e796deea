import { describe, expect, onTestFinished, test } from 'vitest';
import { CONFIG_MAPS, type ConfigMap, createVirtualClock, makeConfigMap, type VirtualClock } from './_util.ts';
import { ApiError, TransportError } from './api-error.ts';
import type { ListOptions, ListPage } from './client.ts';
import { type Reaction, type ReflectorOptions, reactTo, startReflector } from './reflector.ts';
import { createStore } from './store.ts';
import type { WatchEvent, WatchOptions } from './watch-stream.ts';

const apiError = (status: number, reason = '', message = reason) =>
  new ApiError(status, { reason, message }, 'watch configmaps');

describe('what follows from the end of a watch', () => {
  const cases: Record<string, { error: unknown; want: Partial<Reaction> }> = {
    'the watch resumes after a lost connection': { error: new TransportError('lost', ''), want: { next: 'resume' } },
    'the watch resumes after a refused connection': {
      error: new TransportError('refused', ''),
      want: { next: 'resume' },
    },
    'the watch resumes after a timeout': { error: new TransportError('timeout', ''), want: { next: 'resume' } },
    'a new list is taken after an event that cannot be read': {
      error: new TransportError('malformed', ''),
      want: { next: 'relist' },
    },
    'a new list is taken after an event that is too large': {
      error: new TransportError('too-large', ''),
      want: { next: 'relist' },
    },
    'a new list is taken at once when the version has expired': {
      error: apiError(410, 'Expired'),
      want: { next: 'relist', pause: 'none' },
    },
    'a new list is taken at once when the version has expired by the older reason': {
      error: apiError(410, 'Gone'),
      want: { next: 'relist', pause: 'none' },
    },
    'a new list is taken when the server is behind the version': {
      error: apiError(504, 'Timeout', 'Too large resource version: 9, current: 1'),
      want: { next: 'relist', reason: 'version-too-large' },
    },
    'the watch resumes with a backoff after 429': {
      error: apiError(429, 'TooManyRequests'),
      want: { next: 'resume', pause: 'backoff' },
    },
    'the watch resumes with a backoff after 500': {
      error: apiError(500, 'InternalError'),
      want: { next: 'resume', pause: 'backoff' },
    },
    'the watch resumes with a backoff after 401': {
      error: apiError(401, 'Unauthorized'),
      want: { next: 'resume', pause: 'backoff' },
    },
    'a pause for refused requests follows 403': { error: apiError(403, 'Forbidden'), want: { pause: 'refused' } },
    'a pause for refused requests follows 404': { error: apiError(404, 'NotFound'), want: { pause: 'refused' } },
    'a new list is taken after a bug': {
      error: new TypeError('x is undefined'),
      want: { next: 'relist', reason: 'bug' },
    },
  };
  test.each(Object.entries(cases))('%s', (_name, { error, want }) => {
    expect(reactTo(error)).toMatchObject(want);
  });
});

type Watching = (options: WatchOptions) => AsyncGenerator<WatchEvent<ConfigMap>>;

const END: WatchEvent<ConfigMap> = bookmark(10, true);

function bookmark(version: number, end = false): WatchEvent<ConfigMap> {
  const annotations: Record<string, string> = end ? { 'k8s.io/initial-events-end': 'true' } : {};
  return { type: 'BOOKMARK', object: makeConfigMap('', version, { annotations }) };
}

const added = (name: string, version: number): WatchEvent<ConfigMap> => ({
  type: 'ADDED',
  object: makeConfigMap(name, version),
});

/** A watch that sends these events and then stays open until its signal aborts. */
function open(...events: WatchEvent<ConfigMap>[]): Watching {
  return async function* (options) {
    options.onOpen?.();
    yield* events;
    await new Promise((_resolve, reject) => {
      options.signal?.addEventListener('abort', () => reject(options.signal?.reason));
    });
  };
}

/** Waits within a watch; rejects when its signal aborts. */
function pass(clock: VirtualClock, ms: number, { signal }: WatchOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    clock.after(ms, resolve);
    signal?.addEventListener('abort', () => reject(signal.reason));
  });
}

/** A watch that sends these events and then ends, with an error or properly. */
function closing(error: unknown, ...events: WatchEvent<ConfigMap>[]): Watching {
  return async function* (options) {
    if (events.length > 0 || error === undefined) options.onOpen?.();
    yield* events;
    if (error !== undefined) throw error;
  };
}

/** A reflector with a client that plays the given watches in order and repeats the last one. */
function makeReflector(
  watches: Watching[],
  options: Partial<ReflectorOptions<ConfigMap>> = {},
  pages: ((options: ListOptions) => ListPage<ConfigMap>)[] = [],
) {
  const clock: VirtualClock = createVirtualClock();
  const calls: { at: number; options: WatchOptions }[] = [];
  const lists: ListOptions[] = [];
  const store = createStore<ConfigMap>({ resource: CONFIG_MAPS });
  const client = {
    watch(_resource: unknown, watchOptions: WatchOptions = {}) {
      calls.push({ at: clock.now(), options: watchOptions });
      const play = watches[Math.min(calls.length, watches.length) - 1] as Watching;
      return play(watchOptions);
    },
    async listPage(_resource: unknown, listOptions: ListOptions = {}) {
      lists.push(listOptions);
      const page = pages[Math.min(lists.length, pages.length) - 1];
      if (!page) throw new Error('no list expected');
      return page(listOptions);
    },
  };
  const reflector = startReflector({ client: client as never, store, clock, random: () => 0, ...options });
  onTestFinished(() => reflector[Symbol.asyncDispose]());
  const gaps = () => calls.slice(1).map((call, i) => call.at - (calls[i]?.at ?? 0));
  const asked = () =>
    calls.map(({ options: { sendInitialEvents, resourceVersion } }) =>
      sendInitialEvents ? 'stream' : resourceVersion,
    );
  return { clock, calls, lists, store, reflector, gaps, asked };
}

describe('the reflector', () => {
  test('streams the list, puts it into the store at its end, and follows on the same connection', async () => {
    const { clock, store, asked, reflector } = makeReflector([
      open(added('a', 1), added('b', 2), END, added('c', 11), bookmark(12)),
    ]);
    await clock.advance(0);
    expect(store.synced).toBe(true);
    expect(store.list().map((object) => object.metadata.name)).toEqual(['a', 'b', 'c']);
    expect(asked()).toEqual(['stream']);
    expect(reflector.health.state).toBe('following');
  });

  test('leaves the store empty until a streamed list is complete', async () => {
    const { clock, store } = makeReflector([open(added('a', 1))]);
    await clock.advance(0);
    expect([store.synced, store.size]).toEqual([false, 0]);
  });

  test('resumes from the last version, also that of a bookmark, after a connection was lost', async () => {
    const { clock, asked } = makeReflector([
      closing(new TransportError('lost', ''), END, added('a', 11)),
      closing(new TransportError('lost', ''), bookmark(20)),
      open(),
    ]);
    await clock.advance(10_000);
    expect(asked()).toEqual(['stream', '11', '20']);
  });

  test('resumes at once after the proper end of a watch that lasted a while', async () => {
    const living: Watching = async function* (options) {
      options.onOpen?.();
      yield options.sendInitialEvents ? END : bookmark(11);
      await pass(clock, 60_000, options);
    };
    const { clock, gaps } = makeReflector([living]);
    await clock.advance(10 * 60_000);
    expect(gaps()).toEqual(Array(10).fill(60_000));
  });

  test('delays the next watch when the server ends every watch immediately', async () => {
    const { clock, calls } = makeReflector([closing(undefined, END), closing(undefined)]);
    await clock.advance(60_000);
    expect(calls.length).toBeLessThan(12);
  });

  test('waits longer after each failure, up to the maximum, and resets the delay after a watch that lasted', async () => {
    const lost = closing(new TransportError('refused', ''));
    const well: Watching = async function* (options) {
      options.onOpen?.();
      await pass(clock, 20_000, options);
      yield bookmark(11);
      throw new TransportError('lost', '');
    };
    const { clock, gaps } = makeReflector([
      closing(new TransportError('lost', ''), END),
      ...Array<Watching>(8).fill(lost),
      well,
      lost,
      open(),
    ]);
    await clock.advance(200_000);
    expect(gaps()).toEqual([500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000, 20_500, 1_000]);
  });

  test('requests a lifetime between 5 and 10 minutes and closes the connection 5 seconds after it', async () => {
    const { clock, calls, gaps } = makeReflector([open(END), open()], { timing: { idleMs: 3_600_000 } });
    await clock.advance(5 * 60_000 + 4_999);
    expect(calls).toHaveLength(1);
    await clock.advance(1_000);
    expect(calls[0]?.options.timeoutSeconds).toBe(300);
    expect(gaps()).toEqual([305_500]);
    const latest = makeReflector([open(END)], { random: () => 0.999_999 });
    await latest.clock.advance(0);
    expect(latest.calls[0]?.options.timeoutSeconds).toBe(600);
  });

  test('closes a connection that sends neither events nor bookmarks, and resumes', async () => {
    const { clock, asked, gaps } = makeReflector([open(END), open()]);
    await clock.advance(160_000);
    expect(asked()).toEqual(['stream', '10']);
    expect(gaps()).toEqual([150_500]);
  });

  test('does not close a silent connection as long as the server has never sent a bookmark', async () => {
    const page = { items: [], resourceVersion: '10' };
    const { clock, calls } = makeReflector([open()], { lists: 'pages' }, [() => page]);
    await clock.advance(300_000);
    expect(calls).toHaveLength(1);
  });

  test('closes later silent connections too once the server has sent a bookmark', async () => {
    const { clock, asked, gaps } = makeReflector([closing(new TransportError('lost', ''), END), open()]);
    await clock.advance(160_000);
    expect(asked()).toEqual(['stream', '10', '10']);
    expect(gaps()).toEqual([500, 150_500]);
  });

  test('does not close a connection that sends events', async () => {
    const talking: Watching = async function* (options) {
      options.onOpen?.();
      yield END;
      for (let version = 11; ; version++) {
        await pass(clock, 100_000, options);
        yield bookmark(version);
      }
    };
    const { clock, calls } = makeReflector([talking]);
    await clock.advance(299_000);
    expect(calls).toHaveLength(1);
  });

  test('takes lists in pages, now and later, when the server does not stream lists', async () => {
    const { clock, asked, lists, store } = makeReflector(
      [
        closing(apiError(422, 'Invalid', 'sendInitialEvents is forbidden')),
        closing(apiError(410, 'Expired'), added('b', 12)),
        open(),
      ],
      {},
      [() => ({ items: [makeConfigMap('a', 1)], resourceVersion: '10' })],
    );
    await clock.advance(10_000);
    expect(asked()).toEqual(['stream', '10', '10']);
    expect(lists).toHaveLength(2);
    expect(store.list()).toHaveLength(1);
  });

  test('takes one list in pages when a streamed list stalls, and streams the next list', async () => {
    const { clock, asked, lists } = makeReflector(
      [open(added('a', 1)), closing(apiError(410, 'Expired'), bookmark(11)), open(END)],
      {},
      [() => ({ items: [], resourceVersion: '10' })],
    );
    await clock.advance(40_000);
    expect(asked()).toEqual(['stream', '10', 'stream']);
    expect(lists).toHaveLength(1);
  });

  test('never requests resourceVersion=0', async () => {
    const { clock, calls } = makeReflector([closing(apiError(410, 'Expired'), END), open(END)]);
    await clock.advance(10_000);
    for (const { options } of calls) expect(options.resourceVersion).not.toBe('0');
  });

  test('has the state "refused" after 403, keeps its objects and retries slowly', async () => {
    const { clock, reflector, gaps, store } = makeReflector([
      closing(apiError(403, 'Forbidden'), added('a', 1), END),
      ...Array<Watching>(6).fill(closing(apiError(403, 'Forbidden'))),
      open(END),
    ]);
    await clock.advance(500);
    expect(reflector.health).toMatchObject({ state: 'refused', lastError: expect.stringContaining('Forbidden') });
    expect(store.size).toBe(1);
    await clock.advance(180_000);
    // The first retries come soon: an API server that has just started has not read its roles.
    expect(
      gaps()
        .slice(0, 5)
        .every((gap) => gap < 15_000),
    ).toBe(true);
    expect(
      gaps()
        .slice(5)
        .every((gap) => gap >= 30_000 && gap <= 60_000),
    ).toBe(true);
    expect(reflector.health).toEqual({ state: 'following', since: expect.any(Number) });
  });

  test('takes a new list after five consecutive errors of the server', async () => {
    const { clock, asked } = makeReflector([
      closing(apiError(500), END),
      ...Array<Watching>(4).fill(closing(apiError(500))),
      open(END),
    ]);
    await clock.advance(60_000);
    expect(asked()).toEqual(['stream', '10', '10', '10', '10', 'stream']);
  });

  test('waits at least as long as Retry-After requests', async () => {
    const busy = new ApiError(429, { reason: 'TooManyRequests' }, 'watch', 7);
    const { clock, gaps } = makeReflector([closing(busy, END), open()]);
    await clock.advance(10_000);
    expect(gaps()).toEqual([7_000]);
  });

  test('takes a new list when the resource versions of the server go back', async () => {
    const { clock, asked, store } = makeReflector([
      open(added('a', 9), END, bookmark(5)),
      open(added('b', 4), bookmark(6, true)),
    ]);
    await clock.advance(10_000);
    expect(asked()).toEqual(['stream', 'stream']);
    expect(store.list().map((object) => object.metadata.name)).toEqual(['b']);
  });

  test('takes a new list at once when one is requested, and only one however often it is', async () => {
    const { clock, asked, store, reflector } = makeReflector([
      open(added('a', 9), END),
      open(added('a', 9), bookmark(30, true), bookmark(31)),
    ]);
    await clock.advance(10_000);
    expect(store.seenTo).toBe('10');
    for (let i = 0; i < 3; i++) reflector.listAgain();
    expect(store.list().map((object) => object.metadata.name)).toEqual(['a']);
    await clock.advance(0);
    expect(asked()).toEqual(['stream', 'stream']);
    expect(store.seenTo).toBe('31');
  });

  test('goes on with the list that it takes when another one is requested', async () => {
    const { clock, asked, store, reflector } = makeReflector([
      async function* (options) {
        options.onOpen?.();
        yield added('a', 9);
        await pass(clock, 1_000, options);
        yield END;
        await pass(clock, 60_000, options);
      },
    ]);
    await clock.advance(500);
    reflector.listAgain();
    await clock.advance(1_000);
    expect(asked()).toEqual(['stream']);
    expect(store.seenTo).toBe('10');
  });

  test('takes a list after a pause when it is requested during the pause', async () => {
    const { clock, asked, reflector } = makeReflector([
      closing(new TransportError('lost', ''), added('a', 9), END),
      open(added('a', 9), END),
    ]);
    await clock.advance(10);
    expect(asked()).toEqual(['stream']);
    reflector.listAgain();
    await clock.advance(10_000);
    expect(asked()).toEqual(['stream', 'stream']);
  });

  test('continues a list with the inconsistent token when its token has expired, and watches from the version of the first page', async () => {
    const expired = new ApiError(410, { reason: 'Expired', metadata: { continue: 'inconsistent' } }, 'list configmaps');
    const { clock, asked, lists, store } = makeReflector([open()], { lists: 'pages' }, [
      () => ({ items: [makeConfigMap('a', 1)], resourceVersion: '10', continueToken: 'second' }),
      () => {
        throw expired;
      },
      () => ({ items: [makeConfigMap('b', 15)], resourceVersion: '20' }),
    ]);
    await clock.advance(0);
    expect(lists.map((list) => list.continueToken)).toEqual([undefined, 'second', 'inconsistent']);
    expect(store.size).toBe(2);
    expect(asked()).toEqual(['10']);
  });

  test('takes the next list without a limit when even the version of the first page has expired', async () => {
    const expired = new ApiError(410, { reason: 'Expired', metadata: { continue: 'inconsistent' } }, 'list');
    const { clock, lists } = makeReflector(
      [closing(apiError(410, 'Expired')), open()],
      { lists: 'pages', pageSize: 7 },
      [
        () => ({ items: [], resourceVersion: '10', continueToken: 'second' }),
        () => {
          throw expired;
        },
        () => ({ items: [], resourceVersion: '20' }),
        () => ({ items: [], resourceVersion: '30' }),
      ],
    );
    await clock.advance(1_000);
    expect(lists.map((list) => list.limit)).toEqual([7, 7, 7, 0]);
  });

  /** A server with 8 objects, whose pages of more than `most` exceed the client's limit. */
  const crowded = (most: number) => (options: ListOptions) => {
    const { limit = 0, continueToken = '0' } = options;
    if (limit > most) throw new TransportError('too-large', 'a response exceeds 32 bytes');
    const [begin, end] = [Number(continueToken), Math.min(8, Number(continueToken) + limit)];
    const items = Array.from({ length: end - begin }, (_, i) => makeConfigMap(`object-${begin + i}`, 1));
    return { items, resourceVersion: '10', ...(end < 8 && { continueToken: String(end) }) };
  };

  test('halves the pages of a list that are too large, continues with the same page, and grows the pages of later lists', async () => {
    const { clock, lists, store } = makeReflector(
      [closing(apiError(410, 'Expired')), open()],
      { lists: 'pages', pageSize: 8 },
      [...Array(6).fill(crowded(2)), crowded(8)],
    );
    await clock.advance(1_000);
    expect(store.size).toBe(8);
    expect(lists.map(({ limit, continueToken = '' }) => `${limit} ${continueToken}`.trim())).toEqual([
      ...['8', '4', '2', '2 2', '2 4', '2 6'],
      ...['4', '4 4'],
    ]);
  });

  test('is synchronized although only pages of one object can be read', async () => {
    const { clock, store } = makeReflector([open()], { lists: 'pages', pageSize: 500 }, [crowded(1)]);
    await clock.advance(0);
    expect([store.synced, store.size]).toEqual([true, 8]);
  });

  test('retries with a pause when even one object is too large', async () => {
    const { clock, lists, store } = makeReflector([open()], { lists: 'pages', pageSize: 2 }, [crowded(0)]);
    await clock.advance(2_000);
    expect(store.synced).toBe(false);
    expect(lists.map(({ limit }) => limit).slice(0, 4)).toEqual([2, 1, 1, 1]);
    expect(lists.length).toBeLessThan(8);
  });

  test('stops when it is disposed, also while it retries', async () => {
    const { clock, reflector } = makeReflector([closing(new TransportError('refused', ''))]);
    await clock.advance(100);
    await reflector[Symbol.asyncDispose]();
    expect(reflector.health.state).toBe('stopped');
  });
});
