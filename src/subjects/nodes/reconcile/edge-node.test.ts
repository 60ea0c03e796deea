import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createInMemoryApiServer } from '../../../../testing/in-memory-api-server.ts';
import type { Application, EdgeNode, EdgeNodeStatus } from '../../../api/v3/index.ts';
import { runControllers } from '../../../assembly/controllers.ts';
import { createLookups } from '../../../datastore/lookups.ts';
import { createStores } from '../../../datastore/stores.ts';
import { silentLog } from '../../../lib/log.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import type { DesiredEntry, Observation } from '../../../rules/inputs.ts';
import { entryUuid } from '../../../rules/names.ts';
import { createRenderer } from '../../../templates/renderer.ts';
import type { MicroserviceStatus } from '../../../wire/agent.ts';
import { KINDS } from '../../kinds.ts';
import { makeApplication, makeEntry } from '../../workloads/_make.ts';
import { makeNode, makeObservation } from '../_make.ts';
import { liveness } from '../rules/liveness.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const uuidOf = (i: number) => `33333333-3333-4333-8333-${String(i).padStart(12, '0')}`;

/** One node with applications of so many microservices each, and controllers that run on fake time. */
async function createFixture({ applications, microservices = 1 }: { applications: number; microservices?: number }) {
  const stores = createStores({ namespace: 'skerry' });
  const server = createInMemoryApiServer(stores);
  const placed: Application[] = Array.from({ length: applications }, (_, i) =>
    makeApplication({
      name: `app-${i}`,
      uid: `uid-${i}`,
      entries: Array.from({ length: microservices }, (_, j) =>
        makeEntry({ name: `m-${j}`, uuid: uuidOf(i * microservices + j) }),
      ),
    }),
  );
  const entries = new Map<string, DesiredEntry>(
    placed.flatMap((application) =>
      (application.spec.microservices ?? []).map((entry) => [
        entryUuid(application, entry),
        {
          owner: application.metadata.uid ?? '',
          application: application.metadata.name,
          name: entry.name,
          shouldRun: true,
        },
      ]),
    ),
  );
  const first = makeNode();
  stores.nodes.swap([{ ...first, metadata: { ...first.metadata, resourceVersion: '1' } }], '1');
  stores.applications.swap(
    placed.map((one) => ({ ...one, metadata: { ...one.metadata, resourceVersion: '1' } })),
    '1',
  );
  for (const store of [stores.registries, stores.secrets, stores.configMaps]) store.swap([], '1');

  const node = () => stores.nodes.get('skerry', first.metadata.name) as EdgeNode;
  const uuid = nodeUuid(first);
  let observation: Observation | undefined;
  const listeners = new Set<(uuid: string, now: Observation, before: Observation | undefined) => void>();
  const listeningSince = Date.now();
  const clock = () => Date.now();
  let ids = 100;
  const stop = new AbortController();
  const writes: { at: number; status: EdgeNodeStatus | undefined }[] = [];
  stores.nodes.subscribe(({ object, previous }) => {
    if (JSON.stringify(object.status) !== JSON.stringify(previous?.status))
      writes.push({ at: clock(), status: object.status });
  });
  const runs = runControllers(
    {
      namespace: 'skerry',
      client: server.client,
      stores,
      kinds: KINDS,
      controlPlane: 'kubernetes',
      platform: { parts: [], isBusEnabled: false, isRemote: false },
      lookups: createLookups(stores),
      observations: {
        get: () => observation,
        entries: () => (observation ? [[uuid, observation]] : []),
        forget: () => {},
        subscribe(listener) {
          listeners.add(listener);
          return { [Symbol.dispose]: () => void listeners.delete(listener) };
        },
      },
      desired: () => ({
        microservices: [],
        registries: [],
        runtimeClasses: [],
        models: [],
        knowledge: [],
        volumeMounts: [],
        systemFiles: [],
        parts: [],
        leftOut: { models: [], knowledge: [], volumeMounts: [] },
        config: {},
        deleteNode: false,
        digests: {},
        held: new Map(),
        entries,
      }),
      provisioned: () => undefined,
      liveness: (one) => liveness(one, observation, clock(), listeningSince),
      listeningSince,
      ids: { next: async () => ids++, isIssued: () => false, reset: () => {} },
      templates: createRenderer(),
      events: { record: () => {}, [Symbol.asyncDispose]: async () => {} },
      self: { apiVersion: 'v1', kind: 'Lease', metadata: { name: 'lease', namespace: 'skerry' } },
      log: silentLog,
      metrics: {},
      clock,
    },
    stop.signal,
  );
  await vi.advanceTimersByTimeAsync(1_000);

  /** The agent reports every microservice; `item` gives the members of each. */
  function report(item: (i: number) => Partial<MicroserviceStatus>) {
    const before = observation;
    observation = makeObservation({
      agent: '1.0.0',
      contactAt: clock(),
      reportedAt: clock(),
      report: {
        daemonStatus: 'RUNNING',
        microserviceStatus: [...entries.keys()].map((id, i) => ({ id, status: 'RUNNING', revision: 'r1', ...item(i) })),
      },
    });
    for (const listener of listeners) listener(uuid, observation, before);
  }

  return {
    node,
    report,
    writes,
    clock,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await runs;
    },
  };
}

test('a node whose status writes are paced is UNKNOWN at its silence limit', async () => {
  await using fixture = await createFixture({ applications: 5, microservices: 100 });
  const { node, report, clock } = fixture;
  // Two writes of 500 changes each exhaust the budget; the text that follows waits for longer than the silence limit.
  report(() => ({ status: 'RUNNING' }));
  await vi.advanceTimersByTimeAsync(1_000);
  report(() => ({ status: 'RESTARTING' }));
  await vi.advanceTimersByTimeAsync(1_000);
  report(() => ({ status: 'RESTARTING', lastError: 'exit 1' }));
  const contactAt = clock();
  await vi.advanceTimersByTimeAsync(29_000);
  expect(node().status?.daemonStatus).toBe('RUNNING');
  await vi.advanceTimersByTimeAsync(2_000);
  expect(node().status?.daemonStatus).toBe('UNKNOWN');
  expect(fixture.writes.at(-1)?.at).toBeLessThan(contactAt + 31_000);
});

test('a change of one microservice is written at once on a node with 300 applications', async () => {
  await using fixture = await createFixture({ applications: 300 });
  const { node, report } = fixture;
  report(() => ({ status: 'RUNNING' }));
  await vi.advanceTimersByTimeAsync(20_000);
  for (let turn = 0; turn < 6; turn++) {
    const status = turn % 2 ? 'RUNNING' : 'RESTARTING';
    report((i) => ({ status: i === 0 ? status : 'RUNNING' }));
    await vi.advanceTimersByTimeAsync(1_000);
    expect(node().status?.microservices?.find(({ uuid }) => uuid === uuidOf(0))?.state, `turn ${turn}`).toBe(status);
  }
});
