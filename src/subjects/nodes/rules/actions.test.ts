import { describe, expect, it, test } from 'vitest';
import { ANNOTATIONS, API_VERSION } from '../../../api/names.ts';
import type { Application } from '../../../api/v3/index.ts';
import { makeNode } from '../_make.ts';
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

const nodeWith = (annotation: string | undefined, done?: number) =>
  makeNode({
    annotations: annotation === undefined ? undefined : { [ANNOTATIONS.reboot]: annotation },
    ...(done !== undefined && { status: { actions: { reboot: done } } }),
  });

describe('requestedAction and requestAction', () => {
  test.each([
    ['a node without the annotation has no request', undefined, { count: 0 }],
    ['a number is the count', '3', { count: 3 }],
    [
      'an object has the count and the command',
      '{"count": 2, "command": "upgrade", "semver": "1.2.3"}',
      { count: 2, command: 'upgrade', semver: '1.2.3' },
    ],
    ['an unknown command is left out', '{"count": 2, "command": "burn"}', { count: 2 }],
    ['text that is not JSON is no request', 'yes', { count: 0 }],
    ['a negative count is no request', '-1', { count: 0 }],
    ['a fraction is no request', '1.5', { count: 0 }],
    ['null is no request', 'null', { count: 0 }],
    ['an object without a count is no request', '{"command": "upgrade"}', { count: 0 }],
  ])('%s', (_, annotation, want) => {
    expect(requestedAction(nodeWith(annotation), 'reboot')).toEqual(want);
  });

  test.each([
    ['an action that was never requested is not due', undefined, undefined, false],
    ['a requested action is due until a report names it', '1', undefined, true],
    ['an action that was carried out is not due', '1', 1, false],
    ['an action that was requested again is due', '2', 1, true],
    ['an annotation that cannot be read makes no action due', 'x', 0, false],
    ['an action whose annotation was removed after it was carried out is not due', undefined, 4, false],
    ['a count that is below what was carried out makes no action due', '1', 4, false],
    ['a count that is above what was carried out makes the action due', '5', 4, true],
  ])('%s', (_, annotation, done, want) => {
    expect(isDue(nodeWith(annotation, done), 'reboot')).toBe(want);
  });

  it.each([
    ['increments the count', '3', undefined, '4'],
    ['starts with count 1', undefined, undefined, '1'],
    ['starts with count 1 when the annotation cannot be read', 'x', undefined, '1'],
    ['gets a count above the one that the node carried out before the annotation was removed', undefined, 7, '8'],
  ])('a new request %s', (_, annotation, done, want) => {
    expect(requestAction(nodeWith(annotation, done), 'reboot')).toEqual({ [ANNOTATIONS.reboot]: want });
  });

  it('requestedAction reads what requestAction wrote, and only that action is due', () => {
    const details = { command: 'rollback', semver: '1.0.0' } as const;
    const node = makeNode({ annotations: requestAction(makeNode(), 'version', details) });
    expect(requestedAction(node, 'version')).toEqual({ count: 1, ...details });
    expect(isDue(node, 'version')).toBe(true);
    expect(isDue(node, 'prune')).toBe(false);
  });

  it('the platform generation stays when the annotation of a reconcile request is removed', () => {
    const node = makeNode({ generation: 3, status: { actions: { reconcile: 2 } } });
    expect(platformGeneration(node)).toBe(5);
  });

  it('edits of the spec and reconcile requests raise the platform generation', () => {
    const annotations = { [ANNOTATIONS.reconcile]: '2' };
    expect(platformGeneration(makeNode({ generation: 3, annotations }))).toBe(5);
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
    ['an application without the annotation has no rebuild counts', undefined, {}],
    ['rebuild counts are read by entry name', '{"reader": 2}', { reader: 2 }],
    ['values that are not counts are ignored', '{"reader": 2, "writer": "3", "x": -1, "y": 0.5}', { reader: 2 }],
    ['text that is not JSON has no rebuild counts', 'x', {}],
    ['JSON that is not an object has no rebuild counts', '[1]', {}],
  ])('%s', (_, annotation, want) => {
    expect(annotatedRebuilds(applicationWith(annotation))).toEqual(want);
  });

  it('a rebuild request for some entries keeps the counts of all others, removed entries included', () => {
    const written = requestRebuild(applicationWith('{"reader": 2, "gone": 5}'), ['reader', 'writer']);
    expect(annotatedRebuilds(applicationWith(written[ANNOTATIONS.rebuild]))).toEqual({ reader: 3, writer: 1, gone: 5 });
  });

  it.each(['constructor', 'toString', '__proto__'])('the rebuilds of an entry named %s are counted', (name) => {
    expect(rebuildCountOf(applicationWith('{}'), name)).toBe(0);
    const written = requestRebuild(applicationWith('{}'), [name]);
    expect(rebuildCountOf(applicationWith(written[ANNOTATIONS.rebuild]), name)).toBe(1);
  });
});

describe('rebuildCountOf', () => {
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
    ['a pending rebuild stays requested when the annotation is removed', undefined, 5, 4, 5],
    ['a rebuild that was carried out stays counted when the annotation is removed', undefined, 5, 5, 5],
    ['the reported count applies when the annotation was removed before the status recorded it', undefined, 4, 5, 5],
    ['a lower count in the annotation does not lower the recorded one', '{"web":3}', 5, 5, 5],
    ['an annotation that cannot be read does not change the recorded count', 'web', 5, 5, 5],
    ['a higher count in the annotation applies', '{"web":6}', 5, 5, 6],
    ['a Unix time is a valid count', '{"web":1795312800}', 5, 5, 1795312800],
    ['an entry whose rebuild was never requested has count 0', undefined, undefined, 0, 0],
    ['a reported count out of bounds is ignored', '{"web":1}', 1, Number.MAX_SAFE_INTEGER, 1],
  ])('%s', (_, annotation, known, carriedOut, want) => {
    expect(rebuildCountOf(plant(annotation, known), 'web', carriedOut)).toBe(want);
  });

  it.each([[undefined], ['web'], ['{"web":1}']])(
    'a rebuild request after the annotation %s gets a count above the recorded one',
    (annotation) => {
      const [written] = Object.values(requestRebuild(plant(annotation, 5), ['web']));
      expect(JSON.parse(written as string)).toMatchObject({ web: 6 });
    },
  );

  it('a rebuild request beyond the greatest count is refused with a message', () => {
    expect(() => requestRebuild(plant(`{"web":${2 ** 52}}`), ['web'])).toThrow(
      /skerry.dev\/rebuild: its counter is at its end/,
    );
  });
});

describe('ignoredActions names the requests that are not carried out', () => {
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
  ])('in the rebuild annotation %s', (annotation, want) => {
    expect(ignoredActions(plant(annotation))).toEqual(want.map((text) => expect.stringMatching(text)));
  });

  test.each<[Record<string, string>, RegExp[]]>([
    [{}, []],
    [{ reboot: '3', prune: '1' }, []],
    [{ reboot: 'now' }, [/^skerry.dev\/reboot: "now"; must be a whole number from 0 to \d+$/]],
    [{ reboot: '1' }, [/^skerry.dev\/reboot: "1"; is below 2, which was requested before; 3 requests it again$/]],
    [{ version: '3' }, [/names no command, upgrade or rollback, as in {"count": 1, "command": "upgrade"}$/]],
  ])('in the annotations of a node: %j', (given, want) => {
    const annotations = Object.fromEntries(
      Object.entries(given).map(([action, text]) => [ANNOTATIONS[action as 'reboot'], text]),
    );
    const node = makeNode({ annotations, status: { actions: { reboot: 2 } } });
    expect(ignoredActions(node)).toEqual(want.map((text) => expect.stringMatching(text)));
  });
});
