import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createInMemoryApiServer } from '../_in-memory-api-server.ts';
import type { Application } from '../api/v3/index.ts';
import { makeApplication, makeEntry } from '../domain/_util.ts';
import { invalid } from '../domain/errors.ts';
import type { Renderer } from '../domain/templates/renderer.ts';
import { KINDS } from '../kinds/index.ts';
import { silentLog } from '../kube/mod.ts';
import { createLookups } from '../stores/lookups.ts';
import { createStores } from '../stores/stores.ts';
import { runControllers } from './index.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const SLOW_MS = 3_000;

/** One document at a time, as the real renderer; one with the text `endless` fails after all the time it may take. */
function createSlowRenderer() {
  let last: Promise<unknown> = Promise.resolve();
  let failures = 0;
  const renderer: Renderer = {
    render({ document }, { signal }) {
      const turn = last.then(async () => {
        signal.throwIfAborted();
        if (!JSON.stringify(document).includes('endless')) return document;
        const { promise, resolve, reject } = Promise.withResolvers<void>();
        const timer = setTimeout(resolve, SLOW_MS);
        signal.addEventListener('abort', () => reject(signal.reason));
        await promise.finally(() => clearTimeout(timer));
        failures++;
        throw invalid('the document takes longer than 3 s to render', undefined, 'EXPRESSION_FAILED');
      });
      last = turn.catch(() => {});
      return turn;
    },
  };
  return { renderer, failures: () => failures };
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
    condition: (name: string, of: string) => read(name).status?.conditions?.find(({ type }) => type === of),
    async [Symbol.asyncDispose]() {
      stop.abort();
      await vi.advanceTimersByTimeAsync(SLOW_MS);
      await runs;
    },
  };
}

test('eight applications whose templates never end delay no other application, and another template by their turns', async () => {
  await using fixture = await start(Array.from({ length: 8 }, (_, i) => hostile(`hostile-${i}`, 128)));
  const { add, condition, read } = fixture;
  await vi.advanceTimersByTimeAsync(10_000);
  await add(makeApplication({ name: 'plain', uid: 'uid-plain', entries: [] }));
  const spec = { template: { name: 'line', variables: {} } };
  await add(makeApplication({ name: 'templated', uid: 'uid-templated', entries: [], spec }));
  await vi.advanceTimersByTimeAsync(1_000);
  expect(condition('plain', 'Ready')).toMatchObject({ status: 'True', reason: 'Empty' });
  expect(condition('templated', 'Ready')).toMatchObject({ status: 'False', reason: 'TemplateNotRendered' });
  expect(condition('templated', 'Reconciling')).toMatchObject({ status: 'True' });
  await vi.advanceTimersByTimeAsync(9 * SLOW_MS);
  expect(read('templated').spec.description).toBe('rendered');
  expect(condition('templated', 'Ready')).toMatchObject({ status: 'True', reason: 'Empty' });
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

test('each of many failures is remembered at once and tried again after five minutes', async () => {
  await using fixture = await start([hostile('hostile', 30)]);
  const { condition, failures } = fixture;
  await vi.advanceTimersByTimeAsync(5_000);
  expect(condition('hostile', 'Ready')).toMatchObject({
    reason: 'TemplateInvalid',
    message: expect.stringContaining('m-0: template: the document takes longer than 3 s'),
  });
  // Longer than the deadline of one run.
  await vi.advanceTimersByTimeAsync(31 * SLOW_MS);
  expect(failures()).toBe(30);
  await vi.advanceTimersByTimeAsync(3 * 60_000);
  expect(failures()).toBe(30);
  await vi.advanceTimersByTimeAsync(3 * 60_000);
  expect(failures()).toBe(60);
});
