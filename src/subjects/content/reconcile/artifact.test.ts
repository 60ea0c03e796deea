import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { controllerDependencies } from '../../../../testing/controller-dependencies.ts';
import { createInMemoryApiServer, type InMemoryApiServer } from '../../../../testing/in-memory-api-server.ts';
import { LABELS } from '../../../api/names.ts';
import {
  type Application,
  ARTIFACT_KINDS,
  type Artifact,
  type ArtifactKind,
  type EdgeNode,
  type ObservedArtifact,
} from '../../../api/v3/index.ts';
import { createStores, type Stores } from '../../../datastore/stores.ts';
import type { Store } from '../../../kube/store.ts';
import { artifactFingerprint } from '../../../wire/artifacts.ts';
import { makeRegistry } from '../../catalog/_make.ts';
import { RESOURCES } from '../../kinds.ts';
import { makeNode } from '../../nodes/_make.ts';
import { makeApplication, makeEntry } from '../../workloads/_make.ts';
import { makeKnowledge, makeModel } from '../_make.ts';
import { createArtifactController } from './artifact.ts';

/** Model and Knowledge over an API server in memory. */
const namespace = 'skerry';
const makeOf = { models: makeModel, knowledge: makeKnowledge };
const node = (i: number) => ({ name: `gw-${i}`, uuid: `${i}1111111-1111-4111-8111-111111111111` });
let stores: Stores;
let cluster: InMemoryApiServer;
let stop: AbortController;
let running: Promise<unknown>;
const clock = { now: 1_000_000 };

beforeEach(() => {
  stores = createStores({ namespace });
  for (const store of Object.values(stores)) store.swap([], '1');
  stores.nodes.swap(
    [0, 1, 2].map((i) => makeNode(node(i))),
    '2',
  );
  stores.registries.swap([makeRegistry('hub', { id: 7, type: 'hub' })], '2');
  cluster = createInMemoryApiServer(stores);
  stop = new AbortController();
});
afterEach(async () => {
  stop.abort();
  await running;
});

function run(kind: ArtifactKind) {
  const deps = controllerDependencies(cluster.client, namespace, stores);
  running = createArtifactController({ ...deps, clock: () => clock.now }, kind).run(stop.signal);
}

const spec = { registryId: 7, files: ['x'] };
const SOURCE = { repo: 'team/tiny', revision: '', registryId: 7, files: ['x'] };
const get = (kind: ArtifactKind) => (stores[kind] as Store<Artifact>).get(namespace, 'tiny');
const countOf = (kind: ArtifactKind) => get(kind)?.status?.nodeCount;

/** A report of a node, long enough after the last count that it is counted at once. */
async function report(kind: ArtifactKind, i: number, item: Partial<ObservedArtifact>, laterMs = 10_000) {
  clock.now += laterMs;
  const said = { uuid: 'uid-tiny', name: 'tiny', state: 'Ready', pulledFor: artifactFingerprint(SOURCE), ...item };
  const body = { status: { observedGeneration: 1, [kind]: [said] } };
  const options = { signal: stop.signal, subresource: 'status' } as const;
  await cluster.client.patch(RESOURCES.nodes, { namespace, name: `gw-${i}` }, { type: 'merge', body }, options);
}

describe.each(ARTIFACT_KINDS)('of %s', (kind) => {
  const start = async (nodes: readonly string[], applications: readonly Application[] = []) => {
    stores.applications.swap([...applications], '2');
    (stores[kind] as unknown as { swap(items: Artifact[], version: string): void }).swap(
      [makeOf[kind]('tiny', { ...spec, nodes: [...nodes] })],
      '2',
    );
    run(kind);
    await vi.waitFor(() => expect(countOf(kind)).toBeDefined());
  };
  const binding = (i: number) =>
    makeApplication({
      entries: [
        makeEntry({
          agent: { name: `gw-${i}` },
          [kind]: { bindPath: '/m', permissions: 'ro', items: [{ name: 'tiny' }] },
        }),
      ],
    });

  test('the status counts the nodes that are linked or bind it, each once', async () => {
    await start(['gw-0', node(1).uuid], [binding(1)]);
    expect(countOf(kind)).toBe('0/2');
    await report(kind, 1, {});
    await vi.waitFor(() => expect(countOf(kind)).toBe('1/2'));
  });

  test('content that was pulled for a former spec does not count', async () => {
    await start(['gw-0']);
    await report(kind, 0, { pulledFor: 'another' });
    await report(kind, 0, {});
    await vi.waitFor(() => expect(countOf(kind)).toBe('1/1'));
    cluster.edit(get(kind) as Artifact, (copy) => {
      copy.spec.revision = 'v2';
    });
    await vi.waitFor(() => expect(countOf(kind)).toBe('0/1'));
  });

  test('reports in quick succession are counted together', async () => {
    await start(['gw-0', 'gw-1', 'gw-2']);
    await report(kind, 0, {});
    await vi.waitFor(() => expect(countOf(kind)).toBe('1/3'));
    const before = cluster.writes.get(`replace ${kind}/status`);
    for (const i of [1, 2]) await report(kind, i, {}, 10);
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect([countOf(kind), cluster.writes.get(`replace ${kind}/status`)]).toEqual(['1/3', before]);
    // Any cause of a run counts.
    cluster.edit(get(kind) as Artifact, (copy) => {
      copy.spec.format = 'unknown';
    });
    await vi.waitFor(() => expect(countOf(kind)).toBe('3/3'));
  });

  test('an entry that moves to another node takes it along', async () => {
    await start([], [binding(0)]);
    await report(kind, 1, {});
    expect(countOf(kind)).toBe('0/1');
    const [application] = stores.applications.list();
    cluster.edit(application as Application, (copy) => {
      for (const entry of copy.spec.microservices ?? []) entry.agent = { name: 'gw-1' };
    });
    await vi.waitFor(() => expect(countOf(kind)).toBe('1/1'));
  });

  test('a node that is deleted no longer counts', async () => {
    await start(['gw-0', 'gw-1']);
    expect(countOf(kind)).toBe('0/2');
    stores.nodes.remove(stores.nodes.get(namespace, 'gw-1') as EdgeNode);
    await vi.waitFor(() => expect(countOf(kind)).toBe('0/1'));
  });

  test('one that an entry binds has the label that kubectl deletes obey', async () => {
    await start([], [binding(0)]);
    await vi.waitFor(() => expect(get(kind)?.metadata.labels?.[LABELS.inUse]).toBe('true'));
  });

  test('one whose registry does not exist says so', async () => {
    stores.registries.swap([], '3');
    await start(['gw-0']);
    const ready = get(kind)?.status?.conditions?.find(({ type }) => type === 'Ready');
    expect(ready).toMatchObject({ status: 'False', reason: 'RegistryNotFound' });
  });
});
