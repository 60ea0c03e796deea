import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { controllerDependencies } from '../../testing/controller-dependencies.ts';
import { createInMemoryApiServer } from '../../testing/in-memory-api-server.ts';
import { type Chain, EVERY_KIND, SYSTEM_APPLICATION, systemChains } from '../../testing/system-references.ts';
import { LABELS } from '../api/names.ts';
import type { Application } from '../api/v3/index.ts';
import { createKindController } from '../controllers/kind.ts';
import { createStores, storeOf } from '../datastore/stores.ts';
import type { Kind } from '../kinds/definition.ts';
import type { KindObject } from '../kinds/object.ts';
import type { Resource } from '../kube/mod.ts';
import { createCoreObjectController } from '../subjects/content/reconcile/core-objects.ts';
import { KINDS } from '../subjects/kinds.ts';

/** Which objects the reconcilers mark as used by the system, by every reference that there is. */
const namespace = 'plant';

/** The reconcilers of a leader over an API server in memory. */
function lead() {
  const stores = createStores({ namespace });
  for (const store of Object.values(stores)) store.swap([], '1');
  const cluster = createInMemoryApiServer(stores);
  const { client } = cluster;
  const deps = controllerDependencies(client, namespace, stores);
  const stop = new AbortController();
  const loops = [
    ...(Object.values(KINDS) as unknown as Kind[])
      .filter(({ isOfSystem, key }) => !isOfSystem && key !== 'nodes')
      .map((kind) => createKindController(deps, kind)),
    createCoreObjectController(deps, 'secrets'),
    createCoreObjectController(deps, 'configMaps'),
  ];
  const running = Promise.all(loops.map((loop) => loop.run(stop.signal)));
  return {
    stores,
    cluster,
    create: (kind: Kind, object: KindObject) =>
      client.create(kind.resource as Resource<KindObject>, {
        ...object,
        metadata: { ...object.metadata, namespace },
      }),
    async [Symbol.asyncDispose]() {
      stop.abort();
      await running;
    },
  };
}

describe.each(await systemChains())('of $title', (chain: Chain) => {
  let leader: ReturnType<typeof lead>;
  beforeAll(() => {
    leader = lead();
  });
  afterAll(() => leader?.[Symbol.asyncDispose]());

  /** Whether each object of the chain is marked, by kind. */
  const marks = () =>
    Object.fromEntries(
      chain.links.map(({ kind, object }) => [
        kind.key,
        storeOf(leader.stores, kind).get(namespace, object.metadata.name)?.metadata.labels?.[LABELS.usedBySystem],
      ]),
    );
  const all = (mark: string | undefined) => Object.fromEntries(chain.links.map(({ kind }) => [kind.key, mark]));

  test('objects are marked that exist before an application of the system names them, until it is gone', async () => {
    const { create, cluster, stores } = leader;
    for (const { kind, object } of chain.links) await create(kind, object);
    await create(EVERY_KIND.applications as Kind, { ...chain.application, metadata: { name: 'plant' }, spec: {} });
    await create(EVERY_KIND.applications as Kind, chain.application);
    await expect.poll(marks, { timeout: 30_000 }).toEqual(all('true'));
    const application = stores.applications.get(namespace, SYSTEM_APPLICATION) as Application;
    cluster.edit(application, ({ spec }) => {
      spec.isSystem = false;
    });
    await expect.poll(marks, { timeout: 30_000 }).toEqual(all(undefined));
  });
});
