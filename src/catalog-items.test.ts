import { afterAll, describe, expect, test } from 'vitest';
import { NAMESPACE, startInMemoryController } from '../testing/in-memory-controller.ts';
import { LABELS } from './api/names.ts';
import type { Application, CatalogItem, Registry } from './api/v3/index.ts';

/** Catalog items with all reconcilers; the first microservice of each application has the item of its number. */
const fleet = await startInMemoryController(3, { systemImages: { debug: { 2: 'mirror.example/debug:1' } } });
afterAll(() => fleet[Symbol.asyncDispose]());

const item = (name: string) => fleet.stores.catalogItems.get(NAMESPACE, name) as CatalogItem;
const readyOf = ({ status }: Application | CatalogItem) =>
  status?.conditions?.find(({ type }) => type === 'Ready')?.reason;
const application = (i: number) => fleet.stores.applications.get(NAMESPACE, `line-${i}`) as Application;

describe('the catalog items of the system', () => {
  test('exist from the start with the numbers that are reserved for them', () => {
    expect(['router', 'bus', 'debug'].map((name) => [item(name).status?.id, readyOf(item(name))])).toEqual([
      [1, 'Usable'],
      [2, 'Usable'],
      [3, 'Usable'],
    ]);
  });

  test('have the images of the release again after an edit or a deletion', async () => {
    const { images } = item('bus').spec;
    fleet.cluster.edit(item('bus'), ({ spec }) => {
      spec.images = [{ archId: 1, containerImage: 'old:1' }];
      spec.configExample = 'old';
    });
    await fleet.settle();
    expect(item('bus').spec.images).toEqual(images);
    expect(item('bus').spec).not.toHaveProperty('configExample');
    await fleet.cluster.client.delete(fleet.stores.catalogItems.resource, { namespace: NAMESPACE, name: 'debug' });
    await fleet.settle();
    expect([item('debug').status?.id, readyOf(item('debug'))]).toEqual([3, 'Usable']);
  });

  test('have the images that the installation names', () => {
    expect(item('debug').spec.images[1]).toEqual({ archId: 2, containerImage: 'mirror.example/debug:1' });
    expect(item('debug').spec.images[0]?.containerImage).toMatch(/busybox/);
  });

  test('keep their numbers when another item asks for one', async () => {
    const spec = { ...item('item-0').spec, id: 2, name: undefined };
    await fleet.cluster.client.create(fleet.stores.catalogItems.resource, {
      apiVersion: 'skerry.dev/v3',
      kind: 'CatalogItem',
      metadata: { name: 'greedy', namespace: NAMESPACE },
      spec,
    });
    await fleet.settle();
    expect(readyOf(item('greedy'))).toBe('IdTaken');
    expect(item('greedy').status?.id).toBeGreaterThanOrEqual(10);
  });
});

describe('a catalog item that a microservice uses', () => {
  test('is labelled as in use, like its registry, until the last user goes', async () => {
    const labels = () => [item('item-2').metadata.labels?.[LABELS.inUse], registry(2).metadata.labels?.[LABELS.inUse]];
    expect(labels()).toEqual(['true', 'true']);
    fleet.cluster.edit(application(2), ({ spec }) => {
      spec.microservices = [];
    });
    await fleet.settle();
    expect(labels()).toEqual([undefined, 'true']);
  });

  test('with another image updates the microservice, and it is ready when its node runs that image', async () => {
    expect(readyOf(application(0))).toBe('AllRunning');
    fleet.cluster.edit(item('item-0'), ({ spec }) => {
      spec.images = [{ archId: 1, containerImage: 'plant/part-0:2.0' }];
    });
    await fleet.settle();
    expect(readyOf(application(0))).toBe('Updating');
    expect(readyOf(application(1))).toBe('AllRunning');
    fleet.report(fleet.node(0));
    await fleet.settle();
    expect(readyOf(application(0))).toBe('AllRunning');
  });

  test('of a registry that becomes a model hub stops the microservice from updating, and the application says so', async () => {
    fleet.cluster.edit(registry(1), ({ spec }) => {
      spec.type = 'hub';
    });
    await fleet.settle();
    expect(readyOf(item('item-1'))).toBe('RegistryWrongType');
    expect(readyOf(application(1))).toBe('RegistryWrongType');
  });
});

const registry = (i: number) => fleet.stores.registries.get(NAMESPACE, `team-${i}`) as Registry;
