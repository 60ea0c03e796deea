import { describe, expect, it, test } from 'vitest';
import { ANNOTATIONS, API_VERSION } from '../api/names.ts';
import type { Application } from '../api/v3/index.ts';
import {
  annotatedRebuilds,
  ignoredActions,
  isDue,
  platformGeneration,
  rebuildCountOf,
  requestAction,
  requestedAction,
  requestRebuild,
} from './actions.ts';
import { makeNode } from './edge-node/_util.ts';

const nodeWith = (annotation: string | undefined, done?: number) =>
  makeNode({
    metadata: { annotations: annotation === undefined ? undefined : { [ANNOTATIONS.reboot]: annotation } },
    ...(done !== undefined && { status: { actions: { reboot: done } } }),
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
    expect(requestedAction(nodeWith(annotation), 'reboot')).toEqual(want);
  });

  test.each([
    ['never given', undefined, undefined, false],
    ['given, and nothing heard', '1', undefined, true],
    ['given, and carried out', '1', 1, false],
    ['given again since', '2', 1, true],
    ['cannot be read', 'x', 0, false],
    ['dropped after it was carried out', undefined, 4, false],
    ['given anew from one, after it was dropped', '1', 4, false],
    ['above what was carried out, after it was dropped', '5', 4, true],
  ])('due: %s', (_, annotation, done, want) => {
    expect(isDue(nodeWith(annotation, done), 'reboot')).toBe(want);
  });

  it.each([
    ['counts up', '3', undefined, '4'],
    ['begins with one', undefined, undefined, '1'],
    ['begins anew over what cannot be read', 'x', undefined, '1'],
    ['is above what the node did in a former life of the object', undefined, 7, '8'],
  ])('one more order %s', (_, annotation, done, want) => {
    expect(requestAction(nodeWith(annotation, done), 'reboot')).toEqual({ [ANNOTATIONS.reboot]: want });
  });

  it('an order that was given is due and reads back', () => {
    const details = { command: 'rollback', semver: '1.0.0' } as const;
    const node = makeNode({ metadata: { annotations: requestAction(makeNode(), 'version', details) } });
    expect(requestedAction(node, 'version')).toEqual({ count: 1, ...details });
    expect(isDue(node, 'version')).toBe(true);
    expect(isDue(node, 'prune')).toBe(false);
  });

  it('a dropped order to reconcile does not take the generation of the platform back', () => {
    const node = makeNode({ metadata: { generation: 3 }, status: { actions: { reconcile: 2 } } });
    expect(platformGeneration(node)).toBe(5);
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
    expect(annotatedRebuilds(applicationWith(annotation))).toEqual(want);
  });

  it('one more of some entries leaves the others, those that are gone too', () => {
    const written = requestRebuild(applicationWith('{"reader": 2, "gone": 5}'), ['reader', 'writer']);
    expect(annotatedRebuilds(applicationWith(written[ANNOTATIONS.rebuild]))).toEqual({ reader: 3, writer: 1, gone: 5 });
  });

  it.each(['constructor', 'toString', '__proto__'])('an entry named %s is an entry like any other', (name) => {
    expect(rebuildCountOf(applicationWith('{}'), name)).toBe(0);
    const written = requestRebuild(applicationWith('{}'), [name]);
    expect(rebuildCountOf(applicationWith(written[ANNOTATIONS.rebuild]), name)).toBe(1);
  });
});

describe('a request outlives its annotation', () => {
  const entry = (rebuildCount?: number) => ({
    name: 'web',
    state: 'RUNNING',
    ready: true,
    ...(rebuildCount && { rebuildCount }),
  });
  const plant = (annotation: string | undefined, rebuildCount?: number) =>
    ({
      apiVersion: API_VERSION,
      kind: 'Application',
      metadata: { name: 'plant', ...(annotation && { annotations: { [ANNOTATIONS.rebuild]: annotation } }) },
      spec: { isActivated: true },
      status: { observedGeneration: 1, microservices: [entry(rebuildCount)] },
    }) as Application;

  test.each([
    ['dropped, and still to be carried out', undefined, 5, 4, 5],
    ['dropped, and carried out', undefined, 5, 5, 5],
    ['dropped before the status knew of it', undefined, 4, 5, 5],
    ['replaced by an older one', '{"web":3}', 5, 5, 5],
    ['unreadable', 'web', 5, 5, 5],
    ['given above', '{"web":6}', 5, 5, 6],
    ['given as a time', '{"web":1795312800}', 5, 5, 1795312800],
    ['never given', undefined, undefined, 0, 0],
    ['a machine cannot use the counter up', '{"web":1}', 1, Number.MAX_SAFE_INTEGER, 1],
  ])('%s', (_, annotation, known, carriedOut, want) => {
    expect(rebuildCountOf(plant(annotation, known), 'web', carriedOut)).toBe(want);
  });

  it.each([[undefined], ['web'], ['{"web":1}']])('one more after %s is above all before', (annotation) => {
    const [written] = Object.values(requestRebuild(plant(annotation, 5), ['web']));
    expect(JSON.parse(written as string)).toMatchObject({ web: 6 });
  });

  it('a counter at its end is refused with words, not wrapped or lost', () => {
    expect(() => requestRebuild(plant(`{"web":${2 ** 52}}`), ['web'])).toThrow(
      /skerry.dev\/rebuild: its counter is at its end/,
    );
  });
});

describe('orders that are not carried out are named', () => {
  const plant = (annotation?: string) =>
    ({
      kind: 'Application',
      metadata: { name: 'plant', annotations: annotation === undefined ? {} : { [ANNOTATIONS.rebuild]: annotation } },
      spec: { isActivated: true },
      status: { microservices: [{ name: 'web', state: 'RUNNING', ready: true, rebuildCount: 5 }] },
    }) as unknown as Application;
  test.each<[string | undefined, RegExp[]]>([
    [undefined, []],
    ['{"web":6}', []],
    ['{"web":5}', []],
    ['web', [/^skerry.dev\/rebuild: "web"; must be a JSON object of whole numbers, such as {"web": 1}$/]],
    ['["web"]', [/must be a JSON object/]],
    ['{"web":"6","other":1}', [/^skerry.dev\/rebuild: "web": "\\"6\\""; must be a whole number from 0 to \d+$/]],
    ['{"web":1}', [/^skerry.dev\/rebuild: "web": "1"; is below 5, which was requested before; 6 requests it again$/]],
    [`{"web":${Number.MAX_SAFE_INTEGER}}`, [/must be a whole number/]],
  ])('rebuild: %s', (annotation, want) => {
    expect(ignoredActions(plant(annotation))).toEqual(want.map((text) => expect.stringMatching(text)));
  });

  test.each<[Record<string, string>, RegExp[]]>([
    [{}, []],
    [{ reboot: '3', prune: '1' }, []],
    [{ reboot: 'now' }, [/^skerry.dev\/reboot: "now"; must be a whole number from 0 to \d+$/]],
    [{ reboot: '1' }, [/^skerry.dev\/reboot: "1"; is below 2, which was requested before; 3 requests it again$/]],
    [{ version: '3' }, [/names no command, upgrade or rollback, as in {"count": 1, "command": "upgrade"}$/]],
  ])('of a node: %j', (given, want) => {
    const annotations = Object.fromEntries(
      Object.entries(given).map(([order, text]) => [ANNOTATIONS[order as 'reboot'], text]),
    );
    const node = makeNode({ metadata: { annotations }, status: { actions: { reboot: 2 } } });
    expect(ignoredActions(node)).toEqual(want.map((text) => expect.stringMatching(text)));
  });
});
