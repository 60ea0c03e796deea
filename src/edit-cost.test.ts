import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { countCalls } from './_count-calls.ts';
import {
  applicationBody,
  type InMemoryController,
  NAMESPACE,
  startInMemoryController,
} from './_in-memory-controller.ts';
import type { ConfigMap, Secret } from './api/resources.ts';
import type { Application, CatalogItem, EdgeNode, Model, Registry } from './api/v3/index.ts';
import { nodeUuid } from './domain/index.ts';

/**
 * The whole controller in one process, over an API server in memory, with few and with many of everything: nodes,
 * applications, registries, Secrets, ConfigMaps. Both get the same edits. How often each function of ours was
 * called (V8 counts), how many objects stores returned, and what was written must not depend on how many others there
 * are.
 */
const FEW = 10;
const MANY = process.env.SKERRY_NIGHTLY ? 1_000 : 250;
/** Additional calls of one function that are allowed with many objects, since timers and batches vary. */
const SLACK = 60;
/** Greatest number of functions that a failure names. */
const SHOWN = 20;

interface Work {
  /** calls by function */
  calls: Map<string, number>;
  /** objects that stores returned, by store and method */
  objectsRead: Map<string, number>;
  writes: Map<string, number>;
}

/** The edits, which concern only the application, node or registry with number 3. */
const STEPS: Record<string, (fleet: InMemoryController) => Promise<unknown> | unknown> = {
  'an application is created over REST': async ({ rest, spare }) => {
    expect(await rest('POST', '/application', applicationBody('another', spare))).toBe(201);
  },
  'the node of the created application reports that it runs': ({ report, spare }) => report(spare),
  'an application is edited over REST': async ({ rest, node }) => {
    expect(await rest('PUT', '/application/line-4', applicationBody('line-4', node(4), 'edited'))).toBe(204);
  },
  'an application is edited with kubectl': ({ cluster, stores }) =>
    cluster.edit(stores.applications.get(NAMESPACE, 'line-3') as Application, ({ spec }) => {
      for (const entry of spec.microservices ?? []) entry.config = { edited: true };
    }),
  'a microservice ends': ({ report, node }) => report(node(3), 'STOPPED'),
  'a microservice runs again': ({ report, node }) => report(node(3)),
  'a node is edited': ({ cluster, node }) =>
    cluster.edit(node(3), ({ spec }) => {
      spec.description = 'edited';
    }),
  'a registry that one application uses is edited': ({ cluster, stores }) =>
    cluster.edit(stores.registries.get(NAMESPACE, 'team-3') as Registry, ({ spec }) => {
      spec.email = 'edited@plant.example';
    }),
  'a catalog item that one application uses is edited': ({ cluster, stores }) =>
    cluster.edit(stores.catalogItems.get(NAMESPACE, 'item-3') as CatalogItem, ({ spec }) => {
      spec.images = [{ archId: 1, containerImage: 'plant/part-0:2.0' }];
    }),
  'a registry that all applications use is labelled': ({ cluster, stores }) =>
    cluster.edit(stores.registries.get(NAMESPACE, 'remote') as Registry, ({ metadata }) => {
      metadata.labels = { ...metadata.labels, edited: 'true' };
    }),
  'a Secret that one application uses is edited': ({ cluster, stores }) =>
    cluster.edit(stores.secrets.get(NAMESPACE, 'secret-3') as Secret, (secret) => {
      secret.data = { value: Buffer.from('edited').toString('base64') };
    }),
  'a password of a registry is edited': ({ cluster, stores }) =>
    cluster.edit(stores.secrets.get(NAMESPACE, 'password-3') as Secret, (secret) => {
      secret.data = { value: Buffer.from('edited').toString('base64') };
    }),
  'a Secret of one volume mount is edited': ({ cluster, stores }) =>
    cluster.edit(stores.secrets.get(NAMESPACE, 'files-3') as Secret, (secret) => {
      secret.data = { value: Buffer.from('edited').toString('base64') };
    }),
  'a volume mount gets another source over REST': async ({ rest }) => {
    expect(await rest('PATCH', '/volumeMounts/files-4', { secretName: 'secret-4' })).toBe(200);
  },
  'a Secret in use is not deleted': async ({ rest }) => {
    expect(await rest('DELETE', '/secrets/files-3')).toBe(409);
  },
  'a ConfigMap that one application uses is edited': ({ cluster, stores }) =>
    cluster.edit(stores.configMaps.get(NAMESPACE, 'map-3') as ConfigMap, (map) => {
      map.data = { value: 'edited' };
    }),
  'a model that one node has is edited': ({ cluster, stores }) =>
    cluster.edit(stores.models.get(NAMESPACE, 'model-3') as Model, ({ spec }) => {
      spec.revision = 'edited';
    }),
  'a model is linked to one more node': async ({ rest, node }) => {
    expect(await rest('POST', '/models/model-3/link', { fogUuids: [nodeUuid(node(4))] })).toBe(200);
  },
  'a node reports that its models are ready': async ({ reportModels, node, stores, settle }) => {
    reportModels(node(3));
    await settle();
    expect(stores.models.get(NAMESPACE, 'model-3')?.status?.nodeCount).toBe('1/2');
  },
  'an entry binds a model': async ({ rest, microservice }) => {
    const catalog = { bindPath: '/models', items: [{ name: 'model-5' }] };
    expect(await rest('PATCH', `/microservices/${microservice(3)}/models`, catalog)).toBe(204);
  },
  'a model in use is not deleted': async ({ rest }) => {
    expect(await rest('DELETE', '/models/model-5')).toBe(409);
  },
  'one application, microservice, node and registry are read': async ({ rest, node, microservice }) => {
    expect(await rest('GET', '/application/line-3')).toBe(200);
    expect(await rest('GET', `/microservices/${microservice(3)}`)).toBe(200);
    expect(await rest('GET', `/node/${nodeUuid(node(3))}`)).toBe(200);
    expect(await rest('GET', '/registries/23')).toBe(200);
  },
  'the microservices of one application are listed': async ({ rest }) => {
    expect(await rest('GET', '/microservices?application=line-3')).toBe(200);
  },
  'a registry in use is not deleted': async ({ rest }) => {
    expect(await rest('DELETE', '/registries/23')).toBe(400);
  },
  'an application is deleted': async ({ rest }) => {
    expect(await rest('DELETE', '/application/another')).toBe(204);
  },
  'the node of the deleted application reports that nothing runs': ({ report, spare }) => report(spare),
  'a node is created and deleted': async ({ rest, settle, stores }) => {
    expect(await rest('POST', '/node', { name: 'extra', archId: 1 })).toBe(201);
    await settle();
    const [extra] = stores.nodes.byIndex('name', 'extra');
    expect(await rest('DELETE', `/node/${nodeUuid(extra as EdgeNode)}`)).toBe(202);
  },
};

describe('the cost of an edit does not grow with the objects that it does not concern', () => {
  const work = new Map<string, Work[]>();

  beforeAll(async () => {
    // Objects are not frozen, as in production.
    vi.stubEnv('NODE_ENV', 'production');
    for (const size of [FEW, MANY]) {
      await using fleet = await startInMemoryController(size);
      for (const [step, act] of Object.entries(STEPS)) {
        work.set(step, [...(work.get(step) ?? []), await measure(fleet, () => act(fleet))]);
      }
    }
  });
  afterAll(() => {
    vi.unstubAllEnvs();
  });

  test.each(Object.keys(STEPS))('%s', (step) => {
    const [few, many] = work.get(step) as [Work, Work];
    expect([...many.writes].sort()).toEqual([...few.writes].sort());
    expect(more(many.calls, few.calls)).toEqual([]);
    expect(more(many.objectsRead, few.objectsRead)).toEqual([]);
    // The step had an effect.
    expect(few.calls.size).toBeGreaterThan(20);
  });
});

/** What was done so much more often that it must have to do with the number of the others. */
const more = (many: ReadonlyMap<string, number>, few: ReadonlyMap<string, number>) =>
  [...many]
    .filter(([what, count]) => count > (few.get(what) ?? 0) + SLACK)
    .slice(0, SHOWN)
    .map(([what, count]) => `${what}: ${few.get(what) ?? 0} among ${FEW}, ${count} among ${MANY}`);

async function measure(fleet: InMemoryController, act: () => unknown): Promise<Work> {
  await fleet.settle();
  fleet.cluster.writes.clear();
  fleet.objectsRead.clear();
  const calls = await countCalls(async () => {
    await act();
    await fleet.settle();
  });
  return { calls, objectsRead: new Map(fleet.objectsRead), writes: new Map(fleet.cluster.writes) };
}
