import { describe, expect, it } from 'vitest';
import type { Application, EdgeNode } from '../../../../api/v3/index.ts';
import { DomainError } from '../../../../rules/errors.ts';
import { entryUuid } from '../../../../rules/names.ts';
import { makeNode } from '../../../nodes/_make.ts';
import { makeApplication, makeEntry, observedReader } from '../../_make.ts';
import { type ApplicationUpload, readApplicationBody, readApplicationUpload } from '../upload/application.ts';
import { applicationRead, microserviceReadOf, microserviceReads, type ReadContext, replaceState } from './read.ts';

const contextOf = (...nodes: EdgeNode[]): ReadContext => ({
  nodeByName: (name) => nodes.find((node) => node.metadata.name === name),
  nodeByUuid: (uuid) => nodes.find((node) => node.metadata.uid === uuid),
  liveness: () => 'live',
  live: () => undefined,
  nodesReporting: (name) =>
    nodes.filter((node) => node.status?.microservices?.some(({ application }) => application === name)),
  registryId: () => undefined,
  catalogItem: () => undefined,
  applicationsOn: () => [],
});

describe('applicationRead', () => {
  it('has every field of the specification', () => {
    const read = applicationRead(makeApplication({ spec: { id: 4 } }), contextOf(makeNode()));
    expect(read).toMatchObject({
      id: 4,
      name: 'plant-a',
      description: '',
      isActivated: true,
      isSystem: false,
      busConfig: { busAccess: false, busRule: null },
      microservices: [{ name: 'reader', application: 'plant-a' }],
    });
  });
});

describe('microserviceReads', () => {
  const application = makeApplication();
  const uuid = entryUuid(application, { name: 'reader' });
  const named = (reads: Record<string, unknown>[]) => reads.map((read) => `${read.name} ${read.delete}`);
  const on = (node: Parameters<typeof makeNode>[0], ...microservices: Parameters<typeof observedReader>[0][]) =>
    makeNode({ ...node, status: { microservices: microservices.map(observedReader) } });

  it('have the state that the node reports', () => {
    const [read] = microserviceReads(application, contextOf(on({}, { uuid, state: 'PULLING' })));
    expect(read?.status).toMatchObject({ status: 'PULLING' });
  });

  it('show a removed microservice until its node no longer reports it', () => {
    const node = on({}, { uuid, name: 'reader' }, { uuid: 'gone', name: 'old' });
    expect(named(microserviceReads(application, contextOf(node)))).toEqual(['reader false', 'old true']);
    const after = on({}, { uuid, name: 'reader' }, { uuid: 'gone', name: 'old', state: 'STOPPED' });
    expect(named(microserviceReads(application, contextOf(after)))).toEqual(['reader false']);
  });

  it('are the same one by one, of present and of removed microservices', () => {
    const context = contextOf(on({}, { uuid, name: 'reader' }, { uuid: 'gone', name: 'old' }));
    const reads = microserviceReads(application, context);
    expect(reads).toHaveLength(2);
    for (const read of reads) expect(microserviceReadOf(application, String(read.uuid), context)).toEqual(read);
    expect(microserviceReadOf(application, 'other', context)).toBeUndefined();
  });

  it('do not show an entry that was added again as removed', () => {
    const revived = makeApplication({ entries: [makeEntry(), makeEntry({ name: 'old' })] });
    const node = on({}, { uuid: entryUuid(revived, { name: 'old' }), name: 'old' });
    expect(named(microserviceReads(revived, contextOf(node)))).toEqual(['reader false', 'old false']);
  });

  it('do not show a moved microservice twice', () => {
    const from = on({ name: 'gw-0', uuid: '99999999-9999-4999-8999-999999999999' }, { uuid });
    expect(named(microserviceReads(application, contextOf(makeNode(), from)))).toEqual(['reader false']);
  });

  it('do not show removed microservices of another application', () => {
    const node = on({}, { uuid: 'x', application: 'plant-b', name: 'theirs' });
    expect(named(microserviceReads(application, contextOf(node)))).toEqual(['reader false']);
  });
});

describe('replaceState', () => {
  const uuid = '33333333-3333-4333-8333-333333333333';
  const old = makeApplication({
    spec: { id: 4, uuid, description: 'old', isActivated: false, busConfig: { busAccess: true } },
    entries: [
      makeEntry({ name: 'kept', uuid: '44444444-4444-4444-8444-444444444444', isActivated: false, schedule: 9 }),
      makeEntry({ name: 'gone' }),
    ],
  });
  const images = [{ containerImage: 'new:1', archId: 1 }];
  const body = (value: object) => readApplicationBody(value, { path: 'plant-a' });
  const names = (spec: Application['spec']) => spec.microservices?.map(({ name }) => name);

  it('a body without microservices keeps them', () => {
    expect(replaceState(old, body({ description: 'new' })).spec).toEqual({ ...old.spec, description: 'new' });
  });

  it('an empty list removes all microservices', () =>
    expect(replaceState(old, body({ microservices: [] })).spec.microservices).toEqual([]));

  it('the microservices of the body replace the set', () => {
    const { spec } = replaceState(
      old,
      body({
        microservices: [
          { name: 'kept', images },
          { name: 'new', images },
        ],
      }),
    );
    expect(names(spec)).toEqual(['kept', 'new']);
  });

  it('an entry kept by name keeps uuid and activation, and nothing else', () => {
    const { spec } = replaceState(old, body({ microservices: [{ name: 'kept', images }] }));
    expect(spec.microservices?.[0]).toEqual({
      name: 'kept',
      uuid: '44444444-4444-4444-8444-444444444444',
      isActivated: false,
      images: { amd64: 'new:1' },
    });
  });

  it('activation in the body overrides the stored one', () => {
    const { spec } = replaceState(
      old,
      body({ isActivated: true, microservices: [{ name: 'kept', images, isActivated: true }] }),
    );
    expect(spec).toMatchObject({ isActivated: true, microservices: [{ isActivated: true }] });
  });

  it('a YAML file has the same effect in its own form', () => {
    const document = {
      kind: 'Application',
      metadata: { name: 'plant-a' },
      spec: { microservices: [{ name: 'kept', images: { amd64: 'new:1' } }] },
    };
    const fromFile = replaceState(old, readApplicationUpload(document));
    expect(fromFile).toEqual(replaceState(old, body({ microservices: [{ name: 'kept', images }] })));
  });

  it('a kept entry without activation is activated', () => {
    const silent = structuredClone(old);
    for (const one of silent.spec.microservices ?? []) delete (one as { isActivated?: boolean }).isActivated;
    const { spec } = replaceState(silent, body({ microservices: [{ name: 'kept', images }] }));
    expect(spec.microservices?.[0]?.isActivated ?? true).toBe(true);
  });

  it('a new entry is activated', () => {
    const { spec } = replaceState(old, body({ microservices: [{ name: 'new', images }] }));
    expect(spec.microservices?.[0]?.isActivated ?? true).toBe(true);
  });

  it('keeps the uuid and the number of the application', () => {
    expect(replaceState(old, body({ microservices: [] })).spec).toMatchObject({ uuid, id: 4 });
  });

  it('returns the names of the entries whose rebuild the body requests', () => {
    expect(replaceState(old, body({ microservices: [{ name: 'kept', images, rebuild: true }] })).rebuild).toEqual([
      'kept',
    ]);
  });

  it('refuses another uuid of the application or of an entry', () => {
    const other = '55555555-5555-4555-8555-555555555555';
    const upload = (value: object): ApplicationUpload =>
      readApplicationUpload({ kind: 'Application', metadata: { name: 'plant-a' }, spec: value });
    expect(() => replaceState(old, upload({ uuid: other }))).toThrow(DomainError);
    expect(() => replaceState(old, upload({ microservices: [{ name: 'kept', uuid: other }] }))).toThrow(/immutable/);
    expect(() => replaceState(old, upload({ uuid, microservices: [] }))).not.toThrow();
  });

  it('is idempotent', () => {
    const upload = body({
      microservices: [
        { name: 'kept', images },
        { name: 'new', images },
      ],
    });
    const once = replaceState(old, upload).spec;
    expect(replaceState({ ...old, spec: once }, upload).spec).toEqual(once);
  });
});
