import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { type CallCounter, startCallCounter } from '../testing/count-calls.ts';
import { makeDraft } from '../testing/example.ts';
import { EVERY_KIND, FORMS } from '../testing/examples.ts';
import {
  applicationBody,
  type InMemoryController,
  NAMESPACE,
  ROUTER,
  RUNTIMES,
  startInMemoryController,
} from '../testing/in-memory-controller.ts';
import { type Kind as Key, RULES } from '../testing/sequences/model.ts';
import { ANNOTATIONS, SERVICE_TAG } from './api/names.ts';
import type { ConfigMap, Secret } from './api/resources.ts';
import type { Application, CatalogItem, EdgeNode, Model, Registry } from './api/v3/index.ts';
import type { Service } from './api/v3/service.ts';
import { type Stores, storeOf } from './datastore/stores.ts';
import type { KindObject } from './kinds/object.ts';
import { nodeUuid } from './rules/identity.ts';
import { platformSecretName } from './subjects/platform/rules/secret.ts';

/**
 * The whole controller in one process, over an API server in memory, with few and with many objects of every kind. Both get
 * the same edits. How often each function of ours was called (V8 counts), how many objects stores returned, and what
 * was written must not depend on how many others there are.
 */
const FEW = 10;
const MANY = process.env.SKERRY_NIGHTLY ? 1_000 : 200;
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

type Step = (fleet: InMemoryController) => Promise<unknown> | unknown;
/** A request and the status of its response. */
type Request = readonly [method: string, path: string, status: number, body?: object];
type Act = (typeof ACTS)[number];
type Acts = Readonly<
  Record<'create' | 'edit' | 'delete', (fleet: InMemoryController) => Request> &
    Partial<Record<'link' | 'unlink', (fleet: InMemoryController) => Request>>
>;

const ACTS = ['create', 'link', 'edit', 'unlink', 'delete'] as const;
const NAME = 'another';

/** The status of the object of a kind that these requests created. */
const made = ({ stores }: InMemoryController, key: Key) =>
  (storeOf(stores, EVERY_KIND[key]).byIndex('name', NAME)[0] as KindObject).status;

const CREATED = makeDraft({
  ...{ image: 'plant/part-0:1.0', registry: { to: 'registries', ref: 23 }, source: { to: 'secrets', ref: 'secret-3' } },
});
const EDITED = makeDraft({
  ...CREATED,
  ...{ text: RUNTIMES[1], role: 'agent-admin', source: { to: 'secrets', ref: 'secret-4' }, data: { a: 'edited' } },
});

const serviceNamed = (stores: Stores, name: string) => stores.services.get(NAMESPACE, name) as Service;
const platformOf = (stores: Stores, node: EdgeNode) =>
  stores.secrets.get(NAMESPACE, platformSecretName(nodeUuid(node)));
const certificatesReady = ({ status }: EdgeNode) =>
  status?.conditions?.find(({ type }) => type === 'CertificatesReady')?.status;

/** What happens to an object of a kind over REST. */
function actsOf(key: Key): Acts {
  const { path, spec, change = spec, key: by } = FORMS[key];
  const { created, changed, deleted } = RULES[key];
  const { links, rest } = EVERY_KIND[key];
  // The Secret of a certificate has its name.
  const own = key === 'certificates' ? `${NAME}-tls` : NAME;
  const name = rest.crud?.scope ? `line-3/${own}` : own;
  const at = (fleet: InMemoryController) => `${path}/${by ? made(fleet, key)?.[by] : name}`;
  return {
    create: () => ['POST', path, created, { name: own, ...spec(CREATED, name) }],
    edit: (fleet) => ['PATCH', at(fleet), changed, change(EDITED, name)],
    delete: (fleet) => ['DELETE', at(fleet), deleted],
    ...(links && {
      link: ({ spare }) => ['POST', `${path}/${NAME}/link`, 200, { fogUuids: [nodeUuid(spare)] }],
      unlink: ({ spare }) => ['DELETE', `${path}/${NAME}/link`, 200, { fogUuids: [nodeUuid(spare)] }],
    }),
  };
}

/** By kind; applications come first, and so their deletion last. */
const ACTS_OF: Readonly<Record<string, Acts>> = {
  applications: {
    create: ({ spare }) => ['POST', '/application', 201, applicationBody(NAME, spare)],
    edit: ({ spare }) => ['PUT', `/application/${NAME}`, 204, applicationBody(NAME, spare, 'edited')],
    delete: () => ['DELETE', `/application/${NAME}`, 204],
  },
  ...Object.fromEntries(
    (Object.keys(EVERY_KIND) as Key[]).filter((key) => key !== 'applications').map((key) => [key, actsOf(key)]),
  ),
};

/** One act on an object of each kind that has it. The application goes last, since its deletion waits for its node. */
const each = (act: Act): Record<string, Step> =>
  Object.fromEntries(
    (act === 'delete' ? Object.entries(ACTS_OF).reverse() : Object.entries(ACTS_OF)).flatMap(([key, acts]) => {
      const { [act]: requestOf } = acts;
      if (!requestOf) return [];
      const step: Step = async (fleet) => {
        const [method, path, status, body] = requestOf(fleet);
        expect([path, await fleet.rest(method, path, body)]).toEqual([path, status]);
      };
      return [[`${act} over REST: ${EVERY_KIND[key as Key].noun}`, step]];
    }),
  );

/** Further edits, which concern only the objects with the numbers 3 and 4, and the node with the number 7. */
const OTHERS: Record<string, Step> = {
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
  'a node that all others name as their router is edited': ({ cluster, node }) =>
    cluster.edit(node(ROUTER), ({ spec }) => {
      spec.description = 'edited';
    }),
  'a node names another one as its router': async ({ rest, node }) => {
    const body = { upstreamRouters: [nodeUuid(node(ROUTER))] };
    expect(await rest('PATCH', `/node/${nodeUuid(node(3))}`, body)).toBe(204);
  },
  'a node becomes an edge router': async ({ cluster, node, stores, settle }) => {
    cluster.edit(node(7), ({ spec }) => {
      Object.assign(spec, { routerMode: 'edge', host: 'gw-7.plant.example' });
    });
    await settle();
    expect(platformOf(stores, node(7))).toBeDefined();
  },
  'the machine of an edge router reports that it has its certificates': async ({ report, node }) => {
    report(node(7));
    await vi.waitFor(() => expect(certificatesReady(node(7))).toBe('True'), 30_000);
  },
  'an edge router gets another host': async ({ cluster, node, stores, settle }) => {
    const before = platformOf(stores, node(7));
    cluster.edit(node(7), ({ spec }) => {
      spec.host = 'gw-70.plant.example';
    });
    await settle();
    expect(platformOf(stores, node(7))?.metadata.resourceVersion).not.toBe(before?.metadata.resourceVersion);
  },
  'an edge router selects a service by a tag': async ({ cluster, node, stores, settle }) => {
    cluster.edit(serviceNamed(stores, 'service-3'), ({ spec }) => {
      spec.tags = ['spot'];
    });
    cluster.edit(node(7), ({ spec }) => {
      spec.tags = [`${SERVICE_TAG}: spot`];
    });
    await settle();
  },
  'a service that one node selects is edited': async ({ cluster, node, stores, settle, desired }) => {
    const before = desired(nodeUuid(node(7)))?.digests.systemFiles;
    cluster.edit(serviceNamed(stores, 'service-3'), ({ spec }) => {
      spec.tags = ['spot', 'elsewhere'];
    });
    await settle();
    expect(desired(nodeUuid(node(7)))?.digests.systemFiles).toBe(before);
  },
  'a service that one node selects loses its tag': async ({ cluster, node, stores, settle, desired }) => {
    const before = desired(nodeUuid(node(7)))?.digests.systemFiles;
    cluster.edit(serviceNamed(stores, 'service-3'), ({ spec }) => {
      spec.tags = [];
    });
    await settle();
    expect(desired(nodeUuid(node(7)))?.digests.systemFiles).not.toBe(before);
  },
  'a service leads to the machine of a node': async ({ rest, node, desired, settle }) => {
    const before = desired(nodeUuid(node(7)))?.digests.systemFiles;
    const body = {
      type: 'agent',
      resource: nodeUuid(node(7)),
      targetPort: 22,
      servicePort: 22,
      clusterType: 'ClusterIP',
    };
    expect(await rest('POST', '/services', { name: 'ssh', ...body })).toBe(201);
    await settle();
    expect(desired(nodeUuid(node(7)))?.digests.systemFiles).not.toBe(before);
    expect(await rest('DELETE', '/services/ssh')).toBe(204);
  },
  'an edge router becomes an interior one': ({ cluster, node }) =>
    cluster.edit(node(7), ({ spec }) => {
      spec.routerMode = 'interior';
    }),
  'a router becomes a node without one': async ({ cluster, node, stores, settle }) => {
    cluster.edit(node(7), ({ spec }) => {
      spec.routerMode = 'none';
    });
    await settle();
    expect(platformOf(stores, node(7))).toBeUndefined();
  },
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
};

const STEPS: Record<string, Step> = {
  ...each('create'),
  ...each('link'),
  ...each('edit'),
  ...OTHERS,
  ...each('unlink'),
  ...each('delete'),
  'the node of the deleted application reports that nothing runs': ({ report, spare }) => report(spare),
  'a microservice moves to another node': async ({ rest, node, spare, microservice, settle, desired }) => {
    expect(await rest('PATCH', `/microservices/${microservice(5)}`, { nodeUuid: nodeUuid(spare) })).toBe(204);
    await settle();
    expect(desired(nodeUuid(node(5)))?.microservices).toHaveLength(1);
  },
  'the former node of a microservice reports that it stopped': ({ report, node }) => report(node(5)),
  'a microservice moves back': async ({ rest, node, microservice }) => {
    expect(await rest('PATCH', `/microservices/${microservice(5)}`, { nodeUuid: nodeUuid(node(5)) })).toBe(204);
  },
};

test('every kind is created, edited and deleted, and linked and unlinked where it can be linked', () => {
  const acts = Object.entries(ACTS_OF).map(([key, acts]) => [key, ACTS.filter((act) => acts[act])]);
  const expected = Object.values(EVERY_KIND).map(({ key, links }) => [
    key,
    ACTS.filter((act) => links || !act.endsWith('link')),
  ]);
  expect(Object.fromEntries(acts)).toEqual(Object.fromEntries(expected));
});

test('an object in use says who uses it, and an edit of a user does not write it again', async () => {
  await using fleet = await startInMemoryController(3);
  const usedBy = () => ({
    item: fleet.stores.catalogItems.get(NAMESPACE, 'item-1')?.metadata.annotations?.[ANNOTATIONS.usedBy],
    registry: fleet.stores.registries.get(NAMESPACE, 'team-1')?.metadata.annotations?.[ANNOTATIONS.usedBy],
    secret: fleet.stores.secrets.get(NAMESPACE, 'secret-1')?.metadata.annotations?.[ANNOTATIONS.usedBy],
    builtIn: fleet.stores.registries.get(NAMESPACE, 'remote')?.metadata.annotations?.[ANNOTATIONS.usedBy],
  });
  const before = usedBy();
  expect(before.item).toMatch(/^catalog item 21 \(item-1\) is used by line-1\//);
  expect(before.registry).toMatch(/^registry 21 \(team-1\) is used by .*line-1\//);
  expect(before.secret).toMatch(/^secret secret-1 is used by line-1\//);
  expect(before.builtIn).toBeUndefined();
  fleet.cluster.writes.clear();
  fleet.cluster.edit(fleet.stores.applications.get(NAMESPACE, 'line-1') as Application, ({ spec }) => {
    for (const entry of spec.microservices ?? []) entry.config = { edited: true };
  });
  await fleet.settle();
  const written = [...fleet.cluster.writes.keys()].filter((what) =>
    /registr|catalog|secret|configmap|mount|model|knowledge|runtime|account/i.test(what),
  );
  expect(written).toEqual([]);
  expect(usedBy()).toEqual(before);
});

describe('the cost of an edit does not grow with the objects that it does not concern', () => {
  const work = new Map<string, Work[]>();

  beforeAll(async () => {
    // Objects are not frozen, as in production.
    vi.stubEnv('NODE_ENV', 'production');
    for (const size of [FEW, MANY]) {
      await using fleet = await startInMemoryController(size, {
        env: { SKERRY_BUDGET_COUNT: '100000', ROUTERS_ENABLED: 'true' },
      });
      const scarce = Object.values(EVERY_KIND).filter((kind) => storeOf(fleet.stores, kind).size < size);
      expect(
        scarce.map(({ key }) => key),
        `kinds with fewer objects than ${size}`,
      ).toEqual([]);
      using counter = await startCallCounter();
      for (const [step, act] of Object.entries(STEPS)) {
        work.set(step, [...(work.get(step) ?? []), await measure(fleet, counter, () => act(fleet))]);
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

/**
 * What was done so much more often that it must have to do with the number of the others. How many changes one run of a reconciler takes
 * together depends on the time, so that some work is done up to twice.
 */
const more = (many: ReadonlyMap<string, number>, few: ReadonlyMap<string, number>) =>
  [...many]
    .filter(([what, count]) => count > 2 * (few.get(what) ?? 0) + SLACK)
    .slice(0, SHOWN)
    .map(([what, count]) => `${what}: ${few.get(what) ?? 0} among ${FEW}, ${count} among ${MANY}`);

async function measure(fleet: InMemoryController, counter: CallCounter, act: () => unknown): Promise<Work> {
  await fleet.settle();
  fleet.cluster.writes.clear();
  fleet.objectsRead.clear();
  const calls = await counter.during(async () => {
    await act();
    await fleet.settle();
  });
  return { calls, objectsRead: new Map(fleet.objectsRead), writes: new Map(fleet.cluster.writes) };
}
