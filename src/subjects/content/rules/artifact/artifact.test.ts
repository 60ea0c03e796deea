import { describe, expect, test } from 'vitest';
import { makeFind, makeInputs, makeLookups } from '../../../../../testing/inputs.ts';
import { BOUNDS } from '../../../../api/bounds.ts';
import { type Application, ARTIFACT_KINDS, type Artifact, type ArtifactKind } from '../../../../api/v3/index.ts';
import { desiredState } from '../../../../desired/rules/desired.ts';
import { makeRegistry } from '../../../catalog/_make.ts';
import { makeNode, NODE_UUID } from '../../../nodes/_make.ts';
import { makeApplication, makeEntry } from '../../../workloads/_make.ts';
import { verdicts } from '../../../workloads/rules/verdicts/verdict.ts';
import { makeKnowledge, makeModel } from '../../_make.ts';
import { artifactRead, artifactVerdict, normalFormat } from './artifact.ts';
import { artifactsOn } from './on-node.ts';

const hub = makeRegistry('hub', { id: 7, type: 'hub' });
const registry = makeRegistry('team', { id: 9 });
const find = makeFind({ registries: [hub, registry, makeRegistry('young')] });
type Spec = Omit<Partial<Artifact['spec']>, 'format'>;
const makeOf = { models: makeModel, knowledge: makeKnowledge };

describe('a verdict', () => {
  const REFUSED: Record<string, [ArtifactKind, Spec, [string, number, string, RegExp]]> = {
    'a registry that does not exist': [
      'models',
      { registryId: 8 },
      ['RegistryNotFound', 404, 'REGISTRY_NOT_FOUND', /registryId: no registry 8/],
    ],
    'an empty registry name': [
      'models',
      { registryId: '' },
      ['RegistryNotFound', 404, 'REGISTRY_NOT_FOUND', /registryId/],
    ],
    'a registry without an id': [
      'models',
      { registryId: 'young' },
      ['RegistryNotReady', 409, 'REGISTRY_NOT_READY', /"young"/],
    ],
    'the cache of the node': [
      'models',
      { registryId: 'local' },
      ['RegistryWrongType', 400, 'INVALID_REGISTRY_TYPE', /cache/],
    ],
    'a model of a hub without files': [
      'models',
      { registryId: 7 },
      ['FilesRequired', 400, 'MODEL_HF_FILES_REQUIRED', /files/],
    ],
    'a model of a registry with files': [
      'models',
      { registryId: 9, files: ['a'] },
      ['FilesForbidden', 400, 'MODEL_OCI_FILES_FORBIDDEN', /files: must be absent/],
    ],
    'knowledge of a registry with files': [
      'knowledge',
      { registryId: 9, files: ['a'] },
      ['FilesForbidden', 400, 'KNOWLEDGE_OCI_FILES_FORBIDDEN', /files: must be absent/],
    ],
  };
  test.each(Object.entries(REFUSED))('refuses %s', (_, [kind, spec, [reason, status, code, message]]) => {
    const verdict = artifactVerdict(kind, makeOf[kind]('tiny', spec), find);
    expect(verdict).toMatchObject({ reason, status, code });
    expect(verdict?.message).toMatch(message);
  });

  test.each<[string, ArtifactKind, Spec]>([
    ['a model of a hub with files', 'models', { registryId: 7, files: ['*.gguf'] }],
    ['a model of a registry', 'models', { registryId: 'team' }],
    ['a model by the other spelling of its registry', 'models', { registryId: undefined, registry: '9' }],
    ['knowledge of a hub without files', 'knowledge', { registryId: 'hub' }],
    ['the public registry before its object exists', 'knowledge', { registryId: 1 }],
  ])('admits %s', (_, kind, spec) => expect(artifactVerdict(kind, makeOf[kind]('tiny', spec), find)).toBeUndefined());
});

test.each<[ArtifactKind, string | undefined, string | undefined]>([
  ['models', 'gguf', 'gguf'],
  ['models', undefined, undefined],
  ['knowledge', 'PDF', 'pdf'],
  ['knowledge', 'scrolls', 'unknown'],
  ['knowledge', '', undefined],
  ['knowledge', undefined, undefined],
])('the format of %s %j is stored as %j', (kind, given, stored) => expect(normalFormat(kind, given)).toBe(stored));

test('a read has the id of a registry that is named by its name, and no absent revision or files', () => {
  expect(artifactRead('models', makeModel('tiny', { registryId: 'hub' }), find)).toEqual({
    name: 'tiny',
    repo: 'team/tiny',
    revision: '',
    registryId: 7,
    files: [],
  });
});

describe.each(ARTIFACT_KINDS)('the %s of a node', (kind) => {
  const make = makeOf[kind];
  const binding = (names: readonly string[], more: Parameters<typeof makeApplication>[0] = {}) =>
    makeApplication({
      entries: Array.from({ length: Math.ceil(names.length / BOUNDS.catalogItems) }, (_, i) => {
        const items = names.slice(i * BOUNDS.catalogItems, (i + 1) * BOUNDS.catalogItems).map((name) => ({ name }));
        return makeEntry({ name: i === 0 ? 'reader' : `reader-${i}`, [kind]: { bindPath: '/a', items } });
      }),
      ...more,
    });
  const namesOn = (applications: readonly Application[], artifacts: readonly Artifact[], node = makeNode()) =>
    artifactsOn(
      kind,
      node,
      makeLookups({ nodes: [node], applications, [kind]: artifacts, registries: [hub, registry] }),
    ).flatMap(({ fits, view }) => (fits ? [view.name] : []));
  const namesFor = (bound: readonly string[], artifacts: readonly Artifact[]) => namesOn([binding(bound)], artifacts);

  test('are those that entries bind and those that are linked to it by name or uuid', () => {
    const artifacts = [
      make('bound'),
      make('by-name', { nodes: ['gw-1'] }),
      make('by-uuid', { nodes: ['gw-2', NODE_UUID] }),
      make('elsewhere', { nodes: ['gw-2'] }),
      make('unused'),
    ];
    expect(namesFor(['bound', 'missing'], artifacts).sort()).toEqual(['bound', 'by-name', 'by-uuid']);
  });

  test('are without those that cannot be pulled', () => {
    expect(namesFor(['lost'], [make('lost', { registryId: 'nowhere' })])).toEqual([]);
  });

  test('are as many as it can report, and those that entries bind come first', () => {
    const linked = Array.from({ length: BOUNDS.artifacts + 1 }, (_, i) => make(`a${i}`, { nodes: ['gw-1'] }));
    const names = namesFor(['z'], [...linked, make('z')]);
    expect(names).toHaveLength(BOUNDS.artifacts);
    expect(names).toContain('z');
  });

  describe('that are more than it can report are given places:', () => {
    const many = Array.from({ length: BOUNDS.artifacts }, (_, i) => `a${String(i).padStart(3, '0')}`);
    const artifacts = [...many, 'zz'].map((name) => make(name));
    const [older, younger] = ['2025-01-01T00:00:00Z', '2026-01-01T00:00:00Z'];
    const crowd = (createdAt: string) => binding(many, { name: 'crowd', uid: 'uid-crowd', createdAt });
    const own = (more: Parameters<typeof makeApplication>[0] = {}) => binding(['zz'], { name: 'own', ...more });

    test('an older application comes first, whatever the names are', () => {
      expect(namesOn([crowd(younger), own({ createdAt: older })], artifacts)).toContain('zz');
      expect(namesOn([crowd(older), own({ createdAt: younger })], artifacts)).not.toContain('zz');
    });

    test('what the node reports stays, however old an application is that asks for more later', () => {
      const node = makeNode({ status: { [kind]: [{ uuid: 'uid-zz', name: 'zz', state: 'Ready' }] } });
      expect(namesOn([crowd(older), own({ createdAt: younger })], artifacts, node)).toContain('zz');
    });

    test('those of the system come before all others', () => {
      const status = { [kind]: many.map((name) => ({ uuid: `uid-${name}`, name, state: 'Ready' })) };
      const system = own({ createdAt: younger, spec: { isSystem: true } });
      expect(namesOn([crowd(older), system], artifacts, makeNode({ status }))).toContain('zz');
    });

    test('an entry whose artifact does not fit is refused with a reason', () => {
      const application = own({ createdAt: younger });
      const lookups = makeLookups({
        applications: [crowd(older), application],
        [kind]: artifacts,
        registries: [hub, registry],
      });
      expect(verdicts(application, lookups).get('reader')).toMatchObject({
        reason: kind === 'models' ? 'NodeModelsFull' : 'NodeKnowledgeFull',
        field: `${kind}.items`,
        message: expect.stringContaining(`the node "gw-1" has its ${BOUNDS.artifacts} ${kind}`),
      });
      expect(verdicts(crowd(older), lookups).size).toBe(0);
      const inputs = makeInputs({
        applications: [crowd(older), application],
        [kind]: artifacts,
        registries: [hub, registry],
      });
      expect(desiredState(inputs).leftOut[kind]).toEqual(['zz']);
    });
  });

  test('are sent with the id of their registry, which comes with them', () => {
    const spec = { registryId: 'hub', revision: 'main', files: ['*.bin'], nodes: ['gw-1'] };
    const inputs = makeLookups({ [kind]: [make('tiny', spec)], registries: [hub] });
    expect(artifactsOn(kind, makeNode(), inputs)).toEqual([
      {
        fits: true,
        registry: hub,
        view: { uuid: 'uid-tiny', name: 'tiny', repo: 'team/tiny', revision: 'main', registryId: 7, files: ['*.bin'] },
      },
    ]);
  });
});
