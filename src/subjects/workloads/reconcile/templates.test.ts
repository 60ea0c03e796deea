import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createInMemoryApiServer } from '../../../../testing/in-memory-api-server.ts';
import type { Application } from '../../../api/v3/index.ts';
import { runControllers } from '../../../assembly/controllers.ts';
import { createLookups } from '../../../datastore/lookups.ts';
import { createStores } from '../../../datastore/stores.ts';
import { silentLog } from '../../../lib/log.ts';
import { invalid } from '../../../rules/errors.ts';
import { type Renderer, RenderTimeout } from '../../../rules/renderer.ts';
import { KINDS } from '../../kinds.ts';
import { makeApplication, makeEntry } from '../_make.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const SLOW_MS = 3_000;

/** One document at a time, as the real renderer; one with the text `endless` fails after all the time it may take. */
function createSlowRenderer() {
  let last: Promise<unknown> = Promise.resolve();
  let failures = 0;
  const renderer: Renderer = {
    render({ document, parsesOnly }, { signal, timeMs = SLOW_MS }) {
      if (parsesOnly) return parse(document);
      const turn = last.then(async () => {
        signal.throwIfAborted();
        if (!JSON.stringify(document).includes('endless')) return document;
        const { promise, resolve, reject } = Promise.withResolvers<void>();
        const timer = setTimeout(resolve, timeMs);
        signal.addEventListener('abort', () => reject(signal.reason));
        await promise.finally(() => clearTimeout(timer));
        if (timeMs === SLOW_MS) failures++;
        throw new RenderTimeout(timeMs);
      });
      last = turn.catch(() => {});
      return turn;
    },
  };
  return { renderer, failures: () => failures };
}

/** Reads expressions as the real renderer; of filters it knows none. */
async function parse<T extends object>(document: T): Promise<T> {
  if (JSON.stringify(document).includes('|')) throw invalid('microservice.images.amd64: undefined filter: nowhere');
  return document;
}

/** With a role that only callers who may bind it give. */
const STRONG = { roleRef: { name: 'agent-admin' } };

const template = (kind: string, name: string, spec: object) => ({
  apiVersion: 'skerry.dev/v3',
  kind,
  metadata: { name, namespace: 'skerry', uid: `uid-${name}`, generation: 1, resourceVersion: '1' },
  spec,
});
/** An application of so many entries whose templates never end. */
const hostile = (name: string, entries: number) =>
  makeApplication({
    name,
    uid: `uid-${name}`,
    entries: Array.from({ length: entries }, (_, i) =>
      makeEntry({ name: `m-${i}`, agent: undefined, images: undefined, template: { name: 'endless' } }),
    ),
  });

/** All controllers over an API server in memory, on fake time. */
async function start(applications: readonly Application[]) {
  const stores = createStores({ namespace: 'skerry' });
  const { client } = createInMemoryApiServer(stores);
  for (const store of Object.values(stores)) store.swap([], '1');
  stores.microserviceTemplates.swap(
    [
      template('MicroserviceTemplate', 'endless', { microservice: { images: { amd64: '{{ endless }}' } } }) as never,
      template('MicroserviceTemplate', 'broken', { microservice: { images: { amd64: '{{ a | nowhere }}' } } }) as never,
      template('MicroserviceTemplate', 'strong', { microservice: { serviceAccount: STRONG } }) as never,
    ],
    '1',
  );
  stores.applicationTemplates.swap(
    [template('ApplicationTemplate', 'line', { application: { description: 'rendered' } }) as never],
    '1',
  );
  const { renderer, failures } = createSlowRenderer();
  const stop = new AbortController();
  let ids = 100;
  const runs = runControllers(
    {
      namespace: 'skerry',
      client,
      stores,
      kinds: KINDS,
      controlPlane: 'kubernetes',
      platform: { parts: [], isBusEnabled: false, isRemote: false },
      lookups: createLookups(stores),
      observations: {
        get: () => undefined,
        entries: () => [],
        forget: () => {},
        subscribe: () => ({ [Symbol.dispose]: () => {} }),
      },
      desired: () => undefined,
      provisioned: () => undefined,
      liveness: () => 'never',
      listeningSince: Date.now(),
      ids: { next: async () => ids++, isIssued: () => false, reset: () => {} },
      templates: renderer,
      events: { record: () => {}, [Symbol.asyncDispose]: async () => {} },
      self: { apiVersion: 'v1', kind: 'Lease', metadata: { name: 'lease', namespace: 'skerry' } },
      log: silentLog,
      metrics: {},
      clock: () => Date.now(),
    },
    stop.signal,
  );
  const add = (application: Application) => client.create(KINDS.applications.resource, application);
  for (const application of applications) await add(application);
  const read = (name: string) => stores.applications.get('skerry', name) as Application;
  return {
    add,
    failures,
    read,
    stores,
    condition: (name: string, of: string) => read(name).status?.conditions?.find(({ type }) => type === of),
    async [Symbol.asyncDispose]() {
      stop.abort();
      await vi.advanceTimersByTimeAsync(SLOW_MS);
      await runs;
    },
  };
}

test('two hundred applications whose templates never end delay another template by their first turns alone, and later by one document', async () => {
  const names = Array.from({ length: 200 }, (_, i) => `hostile-${i}`);
  await using fixture = await start(names.map((name) => hostile(name, 2)));
  const { add, condition, read } = fixture;
  const addTemplated = (name: string) =>
    add(
      makeApplication({ name, uid: `uid-${name}`, entries: [], spec: { template: { name: 'line', variables: {} } } }),
    );
  await add(makeApplication({ name: 'plain', uid: 'uid-plain', entries: [] }));
  await addTemplated('first');
  await vi.advanceTimersByTimeAsync(1_000);
  expect(condition('plain', 'Ready')).toMatchObject({ status: 'True', reason: 'Empty' });
  expect(condition('first', 'Ready')).toMatchObject({ status: 'False', reason: 'TemplateNotRendered' });
  // 200 first turns of a quarter of a second, and the documents of slow applications in between.
  await vi.advanceTimersByTimeAsync(60_000);
  expect(read('first').spec.description).toBe('rendered');
  await addTemplated('second');
  await vi.advanceTimersByTimeAsync(SLOW_MS + 1_000);
  expect(read('second').spec.description).toBe('rendered');
  expect(condition('second', 'Ready')).toMatchObject({ status: 'True', reason: 'Empty' });
});

test('a document that takes longer than a first turn is rendered in the time of slow applications', async () => {
  await using fixture = await start([hostile('slow', 1)]);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(fixture.condition('slow', 'Ready')).toMatchObject({ status: 'False' });
  expect(fixture.failures()).toBe(0);
  await vi.advanceTimersByTimeAsync(SLOW_MS);
  expect(fixture.failures()).toBe(1);
});

test('a template names no role that has to be bound, also not one that the entry has, since it would hold on to it', async () => {
  const entry = { agent: undefined, images: undefined, template: { name: 'strong' } };
  await using fixture = await start([
    makeApplication({ name: 'taken', uid: 'uid-taken', entries: [makeEntry(entry)] }),
    makeApplication({ name: 'given', uid: 'uid-given', entries: [makeEntry({ ...entry, serviceAccount: STRONG })] }),
  ]);
  await vi.advanceTimersByTimeAsync(5_000);
  expect(fixture.read('taken').spec.microservices).not.toMatchObject([{ serviceAccount: STRONG }]);
  expect(fixture.condition('taken', 'Ready')).toMatchObject({
    reason: 'TemplateInvalid',
    message: expect.stringContaining('cannot give the role "agent-admin"'),
  });
  expect(fixture.condition('given', 'Ready')?.reason).toBe('TemplateInvalid');
});

test('a template whose expressions cannot be read is not Ready, and says where and why', async () => {
  await using fixture = await start([]);
  await vi.advanceTimersByTimeAsync(1_000);
  const readyOf = (name: string) =>
    fixture.stores.microserviceTemplates.get('skerry', name)?.status?.conditions?.find(({ type }) => type === 'Ready');
  expect(readyOf('broken')).toMatchObject({
    status: 'False',
    reason: 'TemplateInvalid',
    message: 'microservice.images.amd64: undefined filter: nowhere',
  });
  expect(readyOf('strong')).toMatchObject({ status: 'True', reason: 'Usable' });
});

test('a variable that the template does not have is in Ready, and nothing is rendered', async () => {
  const template = { name: 'line', variables: { prt: 1 } };
  await using fixture = await start([
    makeApplication({ name: 'misspelt', uid: 'uid-misspelt', entries: [], spec: { template } }),
  ]);
  await vi.advanceTimersByTimeAsync(5_000);
  expect(fixture.condition('misspelt', 'Ready')).toMatchObject({
    reason: 'TemplateInvalid',
    message: expect.stringContaining('template.variables: the template "line" has no variable "prt"'),
  });
  expect(fixture.read('misspelt').spec.description).toBeUndefined();
});

test('each of many failures is remembered at once and tried again after five minutes', async () => {
  await using fixture = await start([hostile('hostile', 30)]);
  const { condition, failures } = fixture;
  await vi.advanceTimersByTimeAsync(5_000);
  expect(condition('hostile', 'Ready')).toMatchObject({
    reason: 'TemplateInvalid',
    message: expect.stringContaining('m-0: template: the document takes longer than 3 s'),
  });
  // Slow applications get half of the time.
  await vi.advanceTimersByTimeAsync(62 * SLOW_MS);
  expect(failures()).toBe(30);
  await vi.advanceTimersByTimeAsync(90_000);
  expect(failures()).toBe(30);
  await vi.advanceTimersByTimeAsync(5 * 60_000);
  expect(failures()).toBe(60);
});
