import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, describe, expect, test } from 'vitest';
import { makeDraft } from '../testing/example.ts';
import { EXAMPLES } from '../testing/examples.ts';
import { NAMESPACE, startInMemoryController } from '../testing/in-memory-controller.ts';
import { API_VERSION } from './api/names.ts';
import { toStructural } from './api/structural.ts';
import type { Application } from './api/v3/index.ts';
import { createLookups } from './datastore/lookups.ts';
import { storeOf } from './datastore/stores.ts';
import type { Kind } from './kinds/definition.ts';
import type { KindObject } from './kinds/object.ts';
import { KINDS } from './subjects/kinds.ts';
import { findTarget } from './subjects/workloads/rules/session-target.ts';

/**
 * Who has what can be named, for every kind: what is there stays, whatever an older object asks for over kubectl later, and the
 * newcomer says who has it. The whole controller over an API server in memory; nothing is decided by what a process remembers.
 */
const fleet = await startInMemoryController(1);
afterEach(() => fleet.reset());
afterAll(() => fleet[Symbol.asyncDispose]());

const OLDER = '2020-01-01T00:00:00Z';
const YOUNGER = '2025-01-01T00:00:00Z';
const IMAGES = { amd64: 'a:1' };
const ALL = (Object.values(KINDS) as unknown as readonly Kind[]).filter(({ key }) => key in EXAMPLES);

/** The members that an object of a kind needs. */
const specOf = ({ key, rest }: Kind): object =>
  EXAMPLES[key as keyof typeof EXAMPLES].spec(makeDraft(), rest.crud?.scope ? 'line-0/any' : 'any');

/** What kubectl stores: an object without a status, as old as it is said to be. */
function apply(kind: Kind, name: string, spec: object, creationTimestamp: string): void {
  const metadata = { name, namespace: NAMESPACE, uid: randomUUID(), generation: 1, resourceVersion: '1' };
  storeOf(fleet.stores, kind).set({
    apiVersion: API_VERSION,
    kind: kind.resource.kind,
    metadata: { ...metadata, creationTimestamp },
    spec: { ...specOf(kind), ...spec },
  } as KindObject);
}
const read = (kind: Kind, name: string) => storeOf(fleet.stores, kind).get(NAMESPACE, name);
const readyOf = (kind: Kind, name: string) =>
  read(kind, name)?.status?.conditions?.find(({ type }) => type === 'Ready') as
    | { status: string; reason: string; message: string }
    | undefined;

describe.each(ALL.map((kind) => [kind.noun, kind] as const))('of a %s', (_, kind) => {
  const { key, identity, definition } = kind;
  const isNamed = 'name' in (definition.spec as unknown as { shape: object }).shape;

  test.runIf(kind.recordsName)('the v3 name stays with the object whose status recorded it first', async () => {
    apply(kind, 'newcomer', { name: 'former' }, OLDER);
    apply(kind, 'owner', { name: 'the-name' }, YOUNGER);
    await fleet.settle();
    fleet.cluster.edit(read(kind, 'newcomer') as KindObject, ({ spec }) => {
      Object.assign(spec, { name: 'the-name' });
    });
    await fleet.settle();
    expect(readyOf(kind, 'owner')).toMatchObject({ status: 'True' });
    expect(readyOf(kind, 'newcomer')).toMatchObject({ reason: 'NameTaken', message: expect.stringMatching(/ owner$/) });
  });

  test.runIf(isNamed)('of two new objects with one v3 name the older one has it', async () => {
    apply(kind, 'first', { name: 'the-name' }, OLDER);
    apply(kind, 'second', { name: 'the-name' }, YOUNGER);
    await fleet.settle();
    expect(readyOf(kind, 'first')?.reason).not.toBe('NameTaken');
    expect(readyOf(kind, 'second')).toMatchObject({
      status: 'False',
      reason: 'NameTaken',
      message: expect.stringMatching(/the-name.* first/),
    });
    const validations = toStructural(definition.spec)['x-kubernetes-validations'] ?? [];
    if (!kind.recordsName)
      expect(validations).toContainEqual(expect.objectContaining({ message: 'name is immutable' }));
  });

  test.runIf(identity.uuid)('the uuid stays with the object whose status recorded it first', async () => {
    const uuid = randomUUID();
    apply(kind, 'owner', { uuid }, YOUNGER);
    await fleet.settle();
    apply(kind, 'newcomer', { uuid }, OLDER);
    await fleet.settle();
    expect(read(kind, 'owner')?.status?.uuid).toBe(uuid);
    expect(readyOf(kind, 'owner')?.reason).not.toBe('UuidTaken');
    expect(read(kind, 'newcomer')?.status?.uuid).toBeUndefined();
    expect(readyOf(kind, 'newcomer')).toMatchObject({
      status: 'False',
      reason: 'UuidTaken',
      message: expect.stringMatching(/ owner$/),
    });
  });

  test.runIf(identity.id)('the number stays with the object whose status recorded it first', async () => {
    const id = 4_711;
    apply(kind, 'owner', { id }, YOUNGER);
    await fleet.settle();
    apply(kind, 'newcomer', { id }, OLDER);
    await fleet.settle();
    expect(read(kind, 'owner')?.status?.id).toBe(id);
    expect(read(kind, 'newcomer')?.status?.id).not.toBe(id);
    expect(readyOf(kind, 'newcomer')).toMatchObject({
      status: 'False',
      reason: 'IdTaken',
      message: expect.stringContaining(' belongs to owner'),
    });
    const lookups = createLookups(fleet.stores);
    if (key === 'registries' || key === 'catalogItems') expect(lookups.find(key, id)?.metadata.name).toBe('owner');
  });
});

describe('the uuid of a microservice', () => {
  const UUID = '33333333-3333-4333-8333-333333333333';
  const applications = KINDS.applications as unknown as Kind;
  const entry = (name: string) => ({ name, uuid: UUID, agent: { name: 'gateway-1' }, images: IMAGES });
  const owner = () => createLookups(fleet.stores).applicationsWithEntry(UUID);
  const viewOf = () =>
    fleet
      .desired((read(KINDS.nodes as unknown as Kind, 'gateway-1')?.status?.uuid as string) ?? '')
      ?.microservices.filter(({ uuid }) => uuid === UUID);
  const lineOf = (name: string) =>
    (read(applications, name) as unknown as Application).status?.microservices?.find((line) => line.name === 'web');
  /** An edit over kubectl. */
  const edit = (name: string, microservices: object[]) =>
    fleet.cluster.edit(read(applications, name) as KindObject, (copy) => {
      Object.assign(copy.spec, { microservices });
    });

  test('stays with the application that runs it: an older one that names it later gets neither container, session nor record', async () => {
    apply(applications, 'attacker', {}, OLDER);
    await fleet.settle();
    apply(applications, 'victim', { microservices: [entry('web')] }, YOUNGER);
    await fleet.settle();
    edit('attacker', [{ ...entry('web'), images: { amd64: 'evil:1' } }]);
    await fleet.settle();
    const check = () => {
      expect(viewOf()).toMatchObject([{ application: 'victim', imageId: 'a:1' }]);
      expect(lineOf('victim')).toMatchObject({ uuid: UUID });
      expect(lineOf('attacker')).not.toHaveProperty('uuid');
      expect(readyOf(applications, 'victim')?.reason).not.toBe('UuidTaken');
      expect(readyOf(applications, 'attacker')).toMatchObject({
        reason: 'UuidTaken',
        message: expect.stringContaining('belongs to the microservice victim/web'),
      });
    };
    check();
    expect(owner()).toHaveLength(2);
    await fleet.nextTerm();
    check();
    // Each edit is judged by what the status recorded, not by who was reconciled last.
    edit('attacker', [{ ...entry('web'), images: { amd64: 'evil:2' } }]);
    edit('victim', [{ ...entry('web'), images: { amd64: 'a:1' }, config: { edited: true } }]);
    await fleet.settle();
    check();
  });

  test('stays with the application when it renames the entry, and when it stops it', async () => {
    apply(applications, 'attacker', {}, OLDER);
    apply(applications, 'victim', { microservices: [entry('web')] }, YOUNGER);
    await fleet.settle();
    edit('attacker', [entry('web')]);
    edit('victim', [entry('renamed')]);
    await fleet.settle();
    expect(viewOf()).toMatchObject([{ application: 'victim', name: 'renamed' }]);
    edit('victim', [{ ...entry('renamed'), isActivated: false }]);
    await fleet.settle();
    expect(viewOf()).toEqual([]);
  });

  test('goes to the other application once its owner gives it up', async () => {
    apply(applications, 'heir', {}, OLDER);
    apply(applications, 'owner', { microservices: [entry('web')] }, YOUNGER);
    await fleet.settle();
    edit('heir', [entry('web')]);
    await fleet.settle();
    edit('owner', []);
    await fleet.settle();
    expect(viewOf()).toMatchObject([{ application: 'heir' }]);
    expect(lineOf('heir')).toMatchObject({ uuid: UUID });
  });

  test.each([
    ['an older application of users asks for that of the system', 'system', 'users'],
    ['the system asks for that of an older application of users', 'users', 'system'],
  ])('belongs to the system: %s', async (_, there, newcomer) => {
    const isSystem = (name: string) => name === 'system';
    apply(applications, newcomer, { isSystem: isSystem(newcomer) }, newcomer === 'system' ? YOUNGER : OLDER);
    await fleet.settle();
    apply(
      applications,
      there,
      { isSystem: isSystem(there), microservices: [entry('web')] },
      there === 'system' ? YOUNGER : OLDER,
    );
    await fleet.settle();
    edit(newcomer, [entry('web')]);
    await fleet.settle();
    expect(viewOf()).toMatchObject([{ application: 'system' }]);
    expect(readyOf(applications, 'users')).toMatchObject({
      reason: 'UuidTaken',
      message: expect.stringContaining('belongs to the microservice system/web'),
    });
  });

  test('sessions go to its owner', async () => {
    apply(applications, 'attacker', {}, OLDER);
    apply(applications, 'victim', { microservices: [entry('web')] }, YOUNGER);
    await fleet.settle();
    edit('attacker', [{ ...entry('web'), agent: { name: 'nowhere' } }]);
    await fleet.settle();
    const named = { microservice: UUID, isSystem: false };
    const found = findTarget(named, createLookups(fleet.stores));
    expect('refused' in found ? found.refused : '').not.toContain('names no node');
  });
});

describe('of core objects', () => {
  test('the one whose own name stands for the v3 name has it, whatever an older one is annotated with', async () => {
    const set = (name: string, creationTimestamp: string, text: string, annotations: Record<string, string> = {}) =>
      fleet.stores.configMaps.set({
        apiVersion: 'v1',
        kind: 'ConfigMap',
        metadata: {
          name,
          namespace: NAMESPACE,
          uid: randomUUID(),
          resourceVersion: '1',
          creationTimestamp,
          labels: { 'skerry.dev/shareable': 'true' },
          annotations,
        },
        data: { text },
      });
    set('settings', YOUNGER, 'right');
    set('elder', OLDER, 'wrong', { 'skerry.dev/name': 'settings' });
    expect(createLookups(fleet.stores).configMap('settings')?.data).toEqual({ text: 'right' });
  });
});
