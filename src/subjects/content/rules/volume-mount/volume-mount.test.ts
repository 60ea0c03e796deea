import { describe, expect, test } from 'vitest';
import { makeInputs, makeLookups } from '../../../../../testing/inputs.ts';
import { BOUNDS } from '../../../../api/bounds.ts';
import { desiredState } from '../../../../desired/rules/desired.ts';
import { nodeStatus } from '../../../../desired/rules/node-status.ts';
import { nodeUuid } from '../../../../rules/identity.ts';
import type { NodeInputs } from '../../../../rules/inputs.ts';
import { makeNode } from '../../../nodes/_make.ts';
import { makeApplication, makeEntry } from '../../../workloads/_make.ts';
import { makeVolumeMount } from '../../_make.ts';
import { mountsOn, sentMounts } from './on-node.ts';
import { countedVersion, mountVersion } from './volume-mount.ts';

const node = makeNode();
const secret = (data: Record<string, string>, name = 'db') => ({ name, data });
const base64 = (text: string) => Buffer.from(text).toString('base64');
const using = (hostDestination: string, name = 'plant-a') =>
  makeApplication({
    name,
    entries: [
      makeEntry({
        container: {
          volumes: [{ hostDestination, containerDestination: '/m', accessMode: 'ro', type: 'volumeMount' }],
        },
      }),
    ],
  });

describe('the version of a volume mount', () => {
  const mount = makeVolumeMount('m', { secretName: 'db' });
  /** The mount after the controller has counted. */
  const counted = (spec: typeof mount.spec, status: typeof mount.status, source = secret({ a: '1' })) => {
    const before = { ...mount, spec, ...(status && { status }) };
    return { ...before, status: { observedGeneration: 1, ...countedVersion(before, source) } };
  };
  const first = counted(mount.spec, undefined);

  test('begins at 1 and grows with its content, once for each change', () => {
    expect(first.status.version).toBe(1);
    expect(mountVersion(first, secret({ a: '1' }))).toBe(1);
    expect(mountVersion(first, secret({ a: '2' }))).toBe(2);
    const second = counted(mount.spec, first.status, secret({ a: '2' }));
    expect(second.status.version).toBe(2);
    expect(counted(mount.spec, second.status, secret({ a: '2' })).status).toEqual(second.status);
    expect(counted(mount.spec, second.status, secret({ a: '1' })).status.version).toBe(3);
  });

  test('grows when the mount has another source', () => {
    expect(counted({ configMapName: 'db' }, first.status).status.version).toBe(2);
    expect(counted({ secretName: 'other' }, first.status, secret({ a: '1' }, 'other')).status.version).toBe(2);
  });

  test('stays while the source does not exist, and when it comes back as it was', () => {
    expect(countedVersion(first, undefined)).toEqual({ version: 1, content: first.status.content });
    expect(mountVersion(first, undefined)).toBe(1);
  });

  test('does not depend on links', () => {
    expect(counted({ secretName: 'db', nodes: ['gw-1'] }, first.status).status.version).toBe(1);
  });
});

describe('the volume mounts of a node', () => {
  const sent = (inputs: Partial<NodeInputs> & Parameters<typeof makeInputs>[0]) =>
    desiredState(makeInputs({ node, ...inputs }));

  test('are those that are linked to it and those that its entries use, with their content in base64', () => {
    const { volumeMounts } = sent({
      applications: [using('used/a')],
      volumeMounts: [
        makeVolumeMount('used', { secretName: 'db' }),
        makeVolumeMount('by-uuid', { configMapName: 'site', nodes: [nodeUuid(node)] }),
        makeVolumeMount('by-name', { secretName: 'gone', nodes: [node.metadata.name] }),
        makeVolumeMount('elsewhere', { secretName: 'db', nodes: ['other'] }),
      ],
      secrets: [secret({ a: 'b', 'conf/c': 'd' })],
      configMaps: [secret({ x: 'y' }, 'site')],
    });
    expect(volumeMounts).toEqual([
      { uuid: 'uid-by-name', name: 'by-name', version: 1, type: 'secret', data: {}, sourceMissing: true },
      {
        uuid: 'uid-by-uuid',
        name: 'by-uuid',
        version: 1,
        type: 'configMap',
        data: { x: base64('y') },
        sourceMissing: false,
      },
      {
        uuid: 'uid-used',
        name: 'used',
        version: 1,
        type: 'secret',
        data: { a: base64('b'), 'conf/c': base64('d') },
        sourceMissing: false,
      },
    ]);
  });

  test('are not those of entries on an older node with the same name', () => {
    const older = makeNode({ uuid: '99999999-9999-4999-8999-999999999999' });
    const inputs = makeInputs({
      node,
      applications: [using('used')],
      volumeMounts: [makeVolumeMount('used', { secretName: 'db' })],
      secrets: [secret({ a: 'b' })],
    });
    expect(desiredState(inputs).volumeMounts).toHaveLength(1);
    expect(desiredState({ ...inputs, nodeByName: () => older }).volumeMounts).toEqual([]);
  });

  test('have a digest that changes with each of them, and none without any', () => {
    const digest = (mounts: ReturnType<typeof makeVolumeMount>[], data: Record<string, string>) =>
      sent({ volumeMounts: mounts, secrets: [secret(data)] }).digests.volumeMounts;
    const linked = makeVolumeMount('m', { secretName: 'db', nodes: [node.metadata.name] });
    expect(digest([], { a: 'b' })).toBeUndefined();
    expect(digest([makeVolumeMount('m', { secretName: 'db' })], { a: 'b' })).toBeUndefined();
    const before = digest([linked], { a: 'b' });
    expect(before).toBeDefined();
    expect(digest([linked], { a: 'b' })).toBe(before);
    expect(digest([linked], { a: 'c' })).not.toBe(before);
    expect(digest([linked, makeVolumeMount('n', linked.spec)], { a: 'b' })).not.toBe(before);
  });

  test('change the revision of a microservice that mounts one key, and not of one that mounts a directory', () => {
    const revision = (mapping: string, data: Record<string, string>) => {
      const { microservices } = sent({
        applications: [using(mapping)],
        volumeMounts: [makeVolumeMount('m', { secretName: 'db' })],
        secrets: [secret(data)],
      });
      const [view] = microservices;
      if (!view || 'hold' in view) throw new Error(view?.message);
      return view.revision;
    };
    const before = { 'conf/a': '1', 'conf/b': '1' };
    expect(revision('m/conf/a', { ...before, 'conf/a': '2' })).not.toBe(revision('m/conf/a', before));
    expect(revision('m/conf/a', { ...before, 'conf/b': '2' })).toBe(revision('m/conf/a', before));
    for (const directory of ['m', 'm/conf'])
      expect(revision(directory, { ...before, 'conf/a': '2' })).toBe(revision(directory, before));
  });

  describe('that are more than fits are given places:', () => {
    const half = 'x'.repeat((BOUNDS.volumeMountBytes * 3) / 4 / 2);
    const size = BOUNDS.volumeMountBytes / 2 + 3;
    const created = (one: ReturnType<typeof using>, creationTimestamp: string, isSystem = false) => ({
      ...one,
      metadata: { ...one.metadata, uid: one.metadata.name, creationTimestamp },
      spec: { ...one.spec, isSystem },
    });
    const older = created(using('of-older', 'older'), '2020-01-01T00:00:00Z');
    const younger = (isSystem = false) => created(using('of-younger', 'younger'), '2026-01-01T00:00:00Z', isSystem);
    const things = (applications: ReturnType<typeof using>[], of = node) => ({
      nodes: [of],
      applications,
      volumeMounts: [
        makeVolumeMount('of-older', { secretName: 'big' }),
        makeVolumeMount('of-younger', { secretName: 'big' }),
      ],
      secrets: [secret({ big: half }, 'big')],
    });
    const fitting = (applications: ReturnType<typeof using>[], of = node) =>
      mountsOn(of, makeLookups(things(applications, of))).flatMap(({ mount, fits }) =>
        fits ? [mount.metadata.name] : [],
      );
    const has = (known: number) => makeNode({ status: { volumeMounts: [{ uuid: 'uid-of-younger', size: known }] } });

    test('what the node was sent stays, however old an application is that asks for more later', () => {
      expect(fitting([older, younger()])).toEqual(['of-older']);
      expect(fitting([older, younger()], has(size))).toEqual(['of-younger']);
    });

    test('what the system uses comes before all others', () => {
      expect(fitting([older, younger(true)])).toEqual(['of-younger']);
    });

    test('content that has grown comes before what is new, and after what the node was sent as large as it is', () => {
      expect(fitting([older, younger()], has(size - 1))).toEqual(['of-younger']);
      const volumeMounts = [
        { uuid: 'uid-of-older', size: size - 1 },
        { uuid: 'uid-of-younger', size },
      ];
      expect(fitting([older, younger()], makeNode({ status: { volumeMounts } }))).toEqual(['of-younger']);
    });

    test('what is new does not get the room of content that has grown until it does not fit', () => {
      const lookups = makeLookups({
        ...things([older, younger()], has(size)),
        secrets: [secret({ big: half }, 'big'), secret({ big: half + half + half }, 'grown')],
        volumeMounts: [
          makeVolumeMount('of-older', { secretName: 'big' }),
          makeVolumeMount('of-younger', { secretName: 'grown' }),
        ],
      });
      expect(mountsOn(has(size), lookups).map(({ fits }) => fits)).toEqual([false, false]);
    });

    test('the status records what the node is sent, and the same places follow from it', () => {
      const first = desiredState(makeInputs({ ...things([younger()]), node })).volumeMounts;
      const recorded = sentMounts(undefined, first);
      expect(recorded).toEqual([{ uuid: 'uid-of-younger', size }]);
      const status = { volumeMounts: recorded };
      const later = desiredState(makeInputs({ ...things([older, younger()]), node: makeNode({ status }) }));
      expect(later.leftOut.volumeMounts).toEqual(['of-older']);
      expect(sentMounts(recorded, later.volumeMounts)).toEqual(recorded);
    });

    test('the status of the node names what does not fit', () => {
      const desired = desiredState(makeInputs({ ...things([older, younger()]), node: has(size) }));
      const status = nodeStatus({ node: has(size), desired, now: 0, listeningSince: 0 });
      expect(status.conditions).toContainEqual(
        expect.objectContaining({
          type: 'ContentLeftOut',
          reason: 'VolumeMountsTooLarge',
          message: 'volume mounts that do not fit: of-older',
        }),
      );
      expect(status.volumeMounts).toEqual([{ uuid: 'uid-of-younger', size }]);
    });
  });

  test('fill a node up to a bound: what applications use comes first, older ones before younger ones', () => {
    const big = 'x'.repeat((BOUNDS.volumeMountBytes * 3) / 4 / 2);
    const lookups = makeLookups({
      nodes: [node],
      applications: [
        { ...using('b', 'young'), metadata: { ...using('b').metadata, creationTimestamp: '2026-05-01T00:00:00Z' } },
        { ...using('a', 'old'), metadata: { ...using('a').metadata, creationTimestamp: '2026-04-01T00:00:00Z' } },
      ],
      volumeMounts: [
        makeVolumeMount('linked', { secretName: 'small', nodes: [node.metadata.name] }),
        makeVolumeMount('a', { secretName: 'big' }),
        makeVolumeMount('b', { secretName: 'big' }),
      ],
      secrets: [secret({ big }, 'big'), secret({ small: 'x' }, 'small')],
    });
    const fit = mountsOn(node, lookups).map(({ mount, fits }) => [mount.metadata.name, fits]);
    expect(fit).toEqual([
      ['a', true],
      ['b', false],
      ['linked', true],
    ]);
  });
});
