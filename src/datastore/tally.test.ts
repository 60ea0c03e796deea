import { expect, test } from 'vitest';
import { createStore, type KubeObject } from '../kube/mod.ts';
import { createTally } from './tally.ts';

interface Box extends KubeObject {
  spec: Readonly<Record<string, number>>;
}
const RESOURCE = { group: 'example.com', version: 'v1', plural: 'boxes', kind: 'Box', namespaced: true } as const;
const store = () => createStore<Box>({ resource: RESOURCE as never });
const box = (name: string, version: number, spec: Box['spec'], uid = name): Box => ({
  ...{ apiVersion: 'example.com/v1', kind: 'Box', spec },
  metadata: { namespace: 'plant', name, uid, resourceVersion: String(version) },
});

test('a tally has the sums of all objects after each creation, change, replacement and deletion', () => {
  const boxes = store();
  boxes.observe(box('a', 1, { apples: 2 }));
  const sums = createTally(boxes, ({ spec }) => Object.entries(spec));
  expect(Object.fromEntries(sums)).toEqual({ apples: 2 });
  boxes.observe(box('b', 2, { apples: 1, pears: 4 }));
  expect(Object.fromEntries(sums)).toEqual({ apples: 3, pears: 4 });
  boxes.observe(box('b', 3, { pears: 1 }));
  expect(Object.fromEntries(sums)).toEqual({ apples: 2, pears: 1 });
  boxes.observe(box('a', 4, { pears: 5 }, 'another'));
  expect(Object.fromEntries(sums)).toEqual({ pears: 6 });
});
