import { describe, expect, test } from 'vitest';
import type { EdgeNodeStatus } from '../../../api/v3/index.ts';
import { type ArtifactStatus, type ArtifactView, artifactFingerprint } from '../../../wire/artifacts.ts';
import { makeNode, makeObservation } from '../_make.ts';
import { artifactsShown, isReady, observedArtifacts } from './artifacts.ts';

const view = (uuid: string, more: Partial<ArtifactView> = {}): ArtifactView => ({
  uuid,
  name: `name-${uuid}`,
  repo: 'team/tiny',
  revision: '',
  registryId: 7,
  files: [],
  ...more,
});
const item = (uuid: string, more: Partial<ArtifactStatus> = {}): ArtifactStatus => ({
  uuid,
  name: `name-${uuid}`,
  source: 'managed',
  state: 'Ready',
  ...more,
});
const observe = (
  modelStatus: ArtifactStatus[] | undefined,
  wanted: readonly string[] | undefined = ['a', 'b'],
  status: Partial<EdgeNodeStatus> = {},
) =>
  observedArtifacts({
    node: makeNode({ status }),
    observation: makeObservation({ report: { modelStatus } }),
    desired: wanted && { models: wanted.map((uuid) => view(uuid)), knowledge: [] },
  }).models;

describe('the artifacts in the status of a node', () => {
  test('are those that it is to have, sorted, without measurements', () => {
    const reported = [
      item('b', { state: 'Pulling', percentage: 40, totalBytes: 99, revisionFloating: true }),
      item('a', { digest: 'sha256:0', resolvedRevision: '0f', pulledFor: 'f' }),
      item('c'),
    ];
    expect(observe(reported)).toEqual([
      { uuid: 'a', name: 'name-a', state: 'Ready', digest: 'sha256:0', resolvedRevision: '0f', pulledFor: 'f' },
      { uuid: 'b', name: 'name-b', state: 'Pulling' },
    ]);
  });

  test('are without those that the machine has by itself, and without uuids that no status can have', () => {
    const reported = [item('a', { source: 'local' }), item('\ud800'), { ...item('b'), uuid: undefined }, item('b')];
    expect(observe(reported, ['a', 'b', '\ud800'])).toEqual([{ uuid: 'b', name: 'name-b', state: 'Ready' }]);
  });

  test('are told apart by uuid, and their errors are short', () => {
    const reported = [item('a'), item('a', { state: 'Failed', lastError: 'x'.repeat(1_000) })];
    expect(observe(reported)).toHaveLength(1);
    expect(observe(reported)?.[0]?.lastError).toHaveLength(256);
  });

  test('stay as they were until the first report to a new leader', () => {
    const models = [{ uuid: 'a', name: 'name-a', state: 'Ready' }];
    expect(observe(undefined, ['a'], { models })).toEqual(models);
    expect(observe(undefined, undefined, { models })).toEqual(models);
  });

  test('are absent for a node that never had any, and empty for one that has none any more', () => {
    expect(observe([])).toBeUndefined();
    expect(observe([], [], { models: [{ uuid: 'a', name: 'name-a', state: 'Ready' }] })).toEqual([]);
  });
});

describe('content', () => {
  const stored = (pulledFor?: string) => ({ uuid: 'a', name: 'a', state: 'Ready', ...(pulledFor && { pulledFor }) });
  test('is ready when it was pulled for the present view', () =>
    expect(isReady(stored(artifactFingerprint(view('a'))), view('a'))).toBe(true));
  test('is not ready after an edit of what it is pulled from', () =>
    expect(isReady(stored(artifactFingerprint(view('a'))), view('a', { revision: 'v2' }))).toBe(false));
  test('is ready when a third-party agent says so', () => expect(isReady(stored(), view('a'))).toBe(true));
  test('is not ready while it is pulled', () =>
    expect(isReady({ ...stored(), state: 'Pulling' }, view('a'))).toBe(false));
});

describe('a node read', () => {
  test('has the last report as JSON text, with progress', () => {
    const modelStatus = [item('a', { state: 'Pulling', percentage: 40 })];
    const report = { modelStatus, activeModels: 1, modelLastUpdate: 1_700_000_000_000 };
    expect(artifactsShown(makeNode(), report)).toMatchObject({
      modelStatus: JSON.stringify(modelStatus),
      activeModels: 1,
      modelLastUpdate: 1_700_000_000_000,
      knowledgeStatus: '[]',
      activeKnowledge: 0,
      knowledgeLastUpdate: 0,
    });
  });

  test('has what the status keeps while no report is known', () => {
    const node = makeNode({ status: { knowledge: [{ uuid: 'a', name: 'a', state: 'Ready' }] } });
    const shown = artifactsShown(node, {});
    expect(JSON.parse(shown.knowledgeStatus as string)).toEqual([
      { uuid: 'a', name: 'a', state: 'Ready', source: 'managed' },
    ]);
    expect(shown.activeKnowledge).toBe(1);
  });

  test('has milliseconds also for agents that send seconds', () =>
    expect(artifactsShown(makeNode(), { modelLastUpdate: 1_700_000_000 }).modelLastUpdate).toBe(1_700_000_000_000));
});
