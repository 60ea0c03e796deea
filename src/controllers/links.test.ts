import { afterAll, describe, expect, test } from 'vitest';
import { NAMESPACE, startInMemoryController } from '../../testing/in-memory-controller.ts';
import { API_VERSION } from '../api/names.ts';
import type { RuntimeClass } from '../api/v3/index.ts';
import { createLookups } from '../datastore/lookups.ts';
import { createStores, storeOf } from '../datastore/stores.ts';
import type { Kind } from '../kinds/definition.ts';
import type { KindObject } from '../kinds/object.ts';
import type { Store } from '../kube/mod.ts';
import { makeRuntimeClass } from '../subjects/catalog/_make.ts';
import { KINDS, type KindKey } from '../subjects/kinds.ts';
import { makeNode } from '../subjects/nodes/_make.ts';
import { createLinks } from './links.ts';

/** Links that kubectl writes, with all reconcilers over an API server in memory. */
const fleet = await startInMemoryController(1);
afterAll(() => fleet[Symbol.asyncDispose]());

const LINKED = { models: 'model-0', knowledge: 'knowledge-0', runtimeClasses: 'runtime-0', volumeMounts: 'files-0' };
type Linkable = keyof typeof LINKED & KindKey;

const object = (key: Linkable) =>
  (storeOf(fleet.stores, KINDS[key] as unknown as Kind) as Store<KindObject>).get(NAMESPACE, LINKED[key]) as KindObject;
const ready = (key: Linkable) => {
  const found = object(key).status?.conditions?.find(({ type }) => type === 'Ready');
  return [found?.status, found?.reason, found?.message];
};
const link = async (key: Linkable, ...nodes: string[]) => {
  fleet.cluster.edit(object(key), ({ spec }) => {
    spec.nodes = nodes;
  });
  await fleet.settle();
};
const make = async (name: string) => {
  const metadata = { name, namespace: NAMESPACE };
  const node = { apiVersion: API_VERSION, kind: 'EdgeNode', metadata, spec: { archId: 1 } };
  await fleet.cluster.client.create(fleet.stores.nodes.resource, node as never);
  await fleet.settle();
};
const remove = async (name: string) => {
  const node = fleet.stores.nodes.get(NAMESPACE, name);
  fleet.stores.nodes.remove(node as never);
  await fleet.settle();
};
const lacking = (...names: string[]) => [
  'False',
  'NodeNotFound',
  `linked to nodes that do not exist: ${names.join('; ')}`,
];

test('every kind that can be linked has a row here', () => {
  const linkable = Object.values(KINDS).flatMap(({ key, links }: { key: string; links?: object }) =>
    links ? [key] : [],
  );
  expect(Object.keys(LINKED).sort()).toEqual(linkable.sort());
});

describe.each(Object.keys(LINKED) as Linkable[])('an object of the kind %s', (key) => {
  test('that is linked to a node which does not exist says so, and the other node still gets it', async () => {
    expect(ready(key)).toMatchObject(['True', 'Usable', expect.anything()]);
    await link(key, 'gateway-0', 'nowhere', 'late');
    expect(ready(key)).toEqual(lacking('late', 'nowhere'));
    expect(fleet.desired(fleet.node(0).spec.uuid as string)?.[key]).toMatchObject([{ name: LINKED[key] }]);
  });

  test('is judged again when a node that it is linked to is created or deleted', async () => {
    await make('late');
    expect(ready(key)[2]).toContain('do not exist: nowhere');
    await remove('late');
    expect(ready(key)).toEqual(lacking('late', 'nowhere'));
    await link(key, 'gateway-0');
    expect(ready(key)).toMatchObject(['True', 'Usable', expect.anything()]);
  });
});

describe('a runtime class', () => {
  test('that is linked to nodes without its runtime says so', async () => {
    fleet.cluster.edit(object('runtimeClasses') as RuntimeClass, ({ spec }) => {
      spec.handler = 'kata';
    });
    await link('runtimeClasses', 'gateway-1', 'gateway-0', 'nowhere');
    expect(ready('runtimeClasses')).toEqual([
      'False',
      'NodeNotFound',
      'linked to nodes that do not exist: nowhere; linked to nodes without its runtime: gateway-0; gateway-1',
    ]);
    await link('runtimeClasses', 'gateway-0');
    expect(ready('runtimeClasses').slice(0, 2)).toEqual(['False', 'RuntimeNotAvailable']);
  });

  test('is judged again when a node that it is linked to reports other runtimes, and no other class is', () => {
    const stores = createStores({ namespace: NAMESPACE });
    const node = (availableRuntimes: string[], ipAddress = '10.0.0.1') =>
      makeNode({ status: { availableRuntimes, ipAddress } });
    const names = ['linked', 'elsewhere'] as const;
    stores.nodes.swap([node(['runc'])], '1');
    stores.runtimeClasses.swap(
      names.map((name) => {
        const { metadata, ...rest } = makeRuntimeClass(name, 'kata');
        const nodes = [name === 'linked' ? 'gw-1' : 'gw-2'];
        return { ...rest, metadata: { ...metadata, namespace: NAMESPACE }, spec: { ...rest.spec, nodes } };
      }),
      '1',
    );
    const { watches } = createLinks({ stores, lookups: createLookups(stores) }, KINDS.runtimeClasses);
    const keys: string[] = [];
    for (const watch of watches) watch.start((key) => keys.push(key));
    stores.nodes.swap([node(['runc'], '10.0.0.2')], '2');
    expect(keys).toEqual([]);
    stores.nodes.swap([node(['runc', 'kata'])], '3');
    expect(keys).toEqual([`${NAMESPACE}/linked`]);
  });
});
