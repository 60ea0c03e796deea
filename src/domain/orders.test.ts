import { describe, expect, it, test } from 'vitest';
import { ANNOTATIONS, API_VERSION } from '../api/names.ts';
import type { Application } from '../api/v3/index.ts';
import { makeNode } from './edge-node/_util.ts';
import { giveOrder, isDue, orderOf, orderRebuild, platformGeneration, rebuildCount, rebuildCounts } from './orders.ts';

const nodeWith = (annotation: string | undefined, done?: number) =>
  makeNode({
    metadata: { annotations: annotation === undefined ? undefined : { [ANNOTATIONS.reboot]: annotation } },
    ...(done !== undefined && { status: { orders: { reboot: done } } }),
  });

describe('orders of a node', () => {
  test.each([
    ['none was given', undefined, { count: 0 }],
    ['a counter', '3', { count: 3 }],
    [
      'an object with a counter',
      '{"count": 2, "command": "upgrade", "semver": "1.2.3"}',
      { count: 2, command: 'upgrade', semver: '1.2.3' },
    ],
    ['an unknown command is left out', '{"count": 2, "command": "burn"}', { count: 2 }],
    ['no JSON', 'yes', { count: 0 }],
    ['a negative counter', '-1', { count: 0 }],
    ['half an order', '1.5', { count: 0 }],
    ['null', 'null', { count: 0 }],
    ['an object without a counter', '{"command": "upgrade"}', { count: 0 }],
  ])('%s', (_, annotation, want) => {
    expect(orderOf(nodeWith(annotation), 'reboot')).toEqual(want);
  });

  test.each([
    ['never given', undefined, undefined, false],
    ['given, and nothing heard', '1', undefined, true],
    ['given, and carried out', '1', 1, false],
    ['given again since', '2', 1, true],
    ['cannot be read', 'x', 0, false],
  ])('due: %s', (_, annotation, done, want) => {
    expect(isDue(nodeWith(annotation, done), 'reboot')).toBe(want);
  });

  it.each([
    ['counts up', '3', undefined, '4'],
    ['begins with one', undefined, undefined, '1'],
    ['begins anew over what cannot be read', 'x', undefined, '1'],
    ['is above what the node did in a former life of the object', undefined, 7, '8'],
  ])('one more order %s', (_, annotation, done, want) => {
    expect(giveOrder(nodeWith(annotation, done), 'reboot')).toEqual({ [ANNOTATIONS.reboot]: want });
  });

  it('an order that was given is due and reads back', () => {
    const details = { command: 'rollback', semver: '1.0.0' } as const;
    const node = makeNode({ metadata: { annotations: giveOrder(makeNode(), 'version', details) } });
    expect(orderOf(node, 'version')).toEqual({ count: 1, ...details });
    expect(isDue(node, 'version')).toBe(true);
    expect(isDue(node, 'prune')).toBe(false);
  });

  it('edits of the spec and orders to reconcile raise the generation of the platform', () => {
    const annotations = { [ANNOTATIONS.reconcile]: '2' };
    expect(platformGeneration(makeNode({ metadata: { generation: 3, annotations } }))).toBe(5);
  });
});

describe('rebuilds', () => {
  const applicationWith = (rebuild?: string): Application => ({
    apiVersion: API_VERSION,
    kind: 'Application',
    metadata: { name: 'plant', annotations: rebuild === undefined ? undefined : { [ANNOTATIONS.rebuild]: rebuild } },
    spec: { isActivated: true },
  });
  test.each([
    ['none was ordered', undefined, {}],
    ['counted by entry', '{"reader": 2}', { reader: 2 }],
    ['only counters count', '{"reader": 2, "writer": "3", "x": -1, "y": 0.5}', { reader: 2 }],
    ['no JSON', 'x', {}],
    ['no object', '[1]', {}],
  ])('%s', (_, annotation, want) => {
    expect(rebuildCounts(applicationWith(annotation))).toEqual(want);
  });

  it('one more of some entries leaves the others, those that are gone too', () => {
    const written = orderRebuild(applicationWith('{"reader": 2, "gone": 5}'), ['reader', 'writer']);
    expect(rebuildCounts(applicationWith(written[ANNOTATIONS.rebuild]))).toEqual({ reader: 3, writer: 1, gone: 5 });
  });

  it.each(['constructor', 'toString', '__proto__'])('an entry named %s is an entry like any other', (name) => {
    expect(rebuildCount(applicationWith('{}'), name)).toBe(0);
    const written = orderRebuild(applicationWith('{}'), [name]);
    expect(rebuildCount(applicationWith(written[ANNOTATIONS.rebuild]), name)).toBe(1);
  });
});
