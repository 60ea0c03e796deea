import { readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { silentLog } from '../../../../src/lib/log.ts';
import { temporaryFolder } from '../../../../testing/temporary-folder.ts';
import { containerDigest } from '../../domain/digest.ts';
import { boundPaths, type SentVolumeMount } from '../../domain/volume-mounts.ts';
import { filesOnDisk, type MountedFiles } from '../../machine/mounted-files.ts';
import { makeView } from '../../supervise/plan/_util.ts';
import { MOUNT, mount, mounted } from './_mount.ts';
import { VolumeMounts } from './volume-mounts.ts';

let folder: string;
let files: MountedFiles;
let mounts: VolumeMounts;

beforeEach(() => {
  folder = temporaryFolder();
  files = filesOnDisk(folder);
  mounts = new VolumeMounts({ files, log: silentLog });
});

const view = (hostDestination: string) => makeView({ volumeMappings: [mounted(hostDestination, '/etc/creds')] });

/** The path that a mapping binds, or the reason why it waits. */
function resolved(hostDestination: string): string {
  const result = mounts.resolve(view(hostDestination));
  return 'view' in result ? (boundPaths(result.view)[0] ?? '') : result.message;
}

function digest(hostDestination: string): string {
  const result = mounts.resolve(view(hostDestination));
  if (!('view' in result)) throw new Error(result.message);
  return containerDigest(result.view);
}

const text = (path: string) => readFileSync(join(folder, path), 'utf8');

describe('a mapping of the whole volume mount', () => {
  test('binds a directory that changes in place: path and container digest stay', () => {
    mounts.apply([mount({ user: 'ann', 'tls/key': '1' })]);
    const [path, before] = [resolved('creds'), digest('creds')];
    expect(path).toBe(`secrets/${MOUNT}`);
    expect([text(`${path}/user`), text(`${path}/tls/key`)]).toEqual(['ann', '1']);
    mounts.apply([mount({ user: 'bob', more: '2' })]);
    expect([resolved('creds'), digest('creds')]).toEqual([path, before]);
    expect([text(`${path}/user`), text(`${path}/more`)]).toEqual(['bob', '2']);
    expect(readdirSync(join(folder, path)).filter((name) => !name.startsWith('..'))).toEqual(['more', 'user']);
  });

  test('binds another directory when the volume mount is another one, or of another type', () => {
    mounts.apply([mount({ a: '1' })]);
    const before = digest('creds');
    mounts.apply([mount({ a: '1' }, { type: 'configMap' })]);
    expect(resolved('creds')).toBe(`configMaps/${MOUNT}`);
    expect(digest('creds')).not.toBe(before);
  });
});

describe('a mapping of one key', () => {
  test('binds a file that never changes: another value is another path and another container digest', () => {
    mounts.apply([mount({ 'a/key': '1', b: '1' })]);
    const [path, before] = [resolved('creds/a/key'), digest('creds/a/key')];
    expect(text(path)).toBe('1');
    mounts.apply([mount({ 'a/key': '1', b: '2' })]);
    expect(digest('creds/a/key')).toBe(before);
    mounts.apply([mount({ 'a/key': '2', b: '2' })]);
    expect(digest('creds/a/key')).not.toBe(before);
    expect([text(path), text(resolved('creds/a/key'))]).toEqual(['1', '2']);
    mounts.apply([mount({ 'a/key': '1', b: '2' })]);
    expect(digest('creds/a/key')).toBe(before);
  });
});

describe('a mapping of a prefix of keys', () => {
  test('binds a directory of its own, without links that leave it, that changes in place', () => {
    mounts.apply([mount({ 'a/b/c': '1', 'a/d': '2', e: '3' })]);
    const [path, before] = [resolved('creds/a/'), digest('creds/a/')];
    expect([text(`${path}/b/c`), text(`${path}/d`)]).toEqual(['1', '2']);
    expect(readdirSync(join(folder, path)).filter((name) => !name.startsWith('..'))).toEqual(['b', 'd']);
    mounts.apply([mount({ 'a/b/c': '9', e: '3' })]);
    expect(text(`${path}/b/c`)).toBe('9');
    expect([resolved('creds/a/'), digest('creds/a/')]).toEqual([path, before]);
  });
});

describe('a microservice waits, and the message names what for', () => {
  const cases: Record<string, [SentVolumeMount[] | undefined, string, string]> = {
    'while the volume mounts are not known': [
      undefined,
      'creds',
      'waits for volume mount "creds", which has not arrived',
    ],
    'while the volume mount has not arrived': [[], 'creds', 'waits for volume mount "creds", which has not arrived'],
    'when it has no such key': [
      [mount({ ab: '1' })],
      'creds/a',
      'waits for volume mount "creds", which has no key "a"',
    ],
    'when its source does not exist and never did': [
      [mount({}, { sourceMissing: true })],
      'creds',
      'waits for volume mount "creds": its Secret or ConfigMap does not exist',
    ],
    'when a key leads out of the mount': [
      [mount({ '../../etc/cron.d/x': '1' })],
      'creds',
      'waits for volume mount "creds": key "../../etc/cron.d/x" has . or .. in it; it has to be a path below the mount',
    ],
    'when it cannot be read': [
      [{ uuid: MOUNT, name: 'creds', problem: 'unreadable' }],
      'creds',
      'waits for volume mount "creds": unreadable',
    ],
  };
  for (const [name, [sent, destination, message]] of Object.entries(cases))
    test(name, () => {
      mounts.apply(sent);
      expect(resolved(destination)).toBe(message);
      expect(files.list('secrets').length).toBe(sent?.[0] && 'data' in sent[0] && message.includes('no key') ? 1 : 0);
    });
});

describe('what is here stays', () => {
  const changes: Record<string, SentVolumeMount[]> = {
    'when the source is missing': [mount({}, { sourceMissing: true })],
    'when a key is hostile': [mount({ user: 'eve', '/etc/x': '1' })],
    'when the volume mount cannot be read': [{ uuid: MOUNT, name: 'creds', problem: 'unreadable' }],
  };
  for (const [name, sent] of Object.entries(changes))
    test(name, () => {
      mounts.apply([mount({ user: 'ann' })]);
      const before = ['creds', 'creds/user'].map(digest);
      mounts.apply(sent);
      expect(['creds', 'creds/user'].map(digest)).toEqual(before);
      expect(text(`secrets/${MOUNT}/user`)).toBe('ann');
      mounts.tidy({ wanted: new Set([resolved('creds'), resolved('creds/user')]), isBound: () => false });
      expect(text(`secrets/${MOUNT}/user`)).toBe('ann');
    });

  test('also after a start of the agent without a controller', () => {
    mounts.apply([mount({ user: 'ann' })]);
    const before = digest('creds/user');
    mounts = new VolumeMounts({ files, log: silentLog });
    mounts.apply([mount({}, { sourceMissing: true })]);
    expect(digest('creds/user')).toBe(before);
  });

  test('when the disk takes no more, and the next attempt takes the new content', () => {
    const full = { value: false };
    const guarded: MountedFiles = {
      ...files,
      write: (path, tree) => {
        if (full.value) throw new Error('ENOSPC: no space left on device, write');
        files.write(path, tree);
      },
    };
    mounts = new VolumeMounts({ files: guarded, log: silentLog });
    mounts.apply([mount({ user: 'ann' })]);
    full.value = true;
    const changed = [mount({ user: 'bob' })];
    mounts.apply(changed);
    expect(text(`${resolved('creds')}/user`)).toBe('ann');
    expect(mounts.problems).toEqual(['volume mount creds: ENOSPC: no space left on device, write']);
    expect(mounts.hasFailed).toBe(true);
    full.value = false;
    mounts.apply(changed);
    expect(text(`${resolved('creds')}/user`)).toBe('bob');
    expect([mounts.problems, mounts.hasFailed]).toEqual([[], false]);
  });
});

test('a version that goes back, as after a restore of the cluster, changes nothing by itself: the content counts', () => {
  mounts.apply([mount({ user: 'ann' }, { version: 7 })]);
  const path = resolved('creds');
  const written = () => readlinkSync(join(folder, path, '..data'));
  const before = written();
  mounts.apply([mount({ user: 'ann' }, { version: 3 })]);
  expect([text(`${path}/user`), written()]).toEqual(['ann', before]);
  mounts.apply([mount({ user: 'bob' }, { version: 2 })]);
  expect(text(`${path}/user`)).toBe('bob');
});

test('a file that was changed on the machine is written again at the next start', () => {
  mounts.apply([mount({ user: 'ann' })]);
  writeFileSync(join(folder, resolved('creds'), 'user'), 'eve');
  mounts = new VolumeMounts({ files, log: silentLog });
  mounts.apply([mount({ user: 'ann' })]);
  expect(text(`${resolved('creds')}/user`)).toBe('ann');
});

describe('what no volume mount and no microservice needs', () => {
  const nothing = { wanted: new Set<string>(), isBound: () => false };
  const parts = () => ['creds', 'creds/a', 'creds/b'].map(resolved);

  beforeEach(() => mounts.apply([mount({ 'a/x': '1', b: '2' })]));

  test('is removed once no container binds it', () => {
    const paths = parts();
    mounts.apply([]);
    expect(mounts.tidy({ wanted: new Set(), isBound: () => true })).toBe(false);
    expect(files.list('secrets')).toEqual([...paths].sort());
    expect(mounts.tidy(nothing)).toBe(true);
    expect(files.list('secrets')).toEqual([]);
  });

  test('is removed as a part, while the whole stays', () => {
    const [root] = parts();
    expect(mounts.tidy(nothing)).toBe(true);
    expect(files.list('secrets')).toEqual([root]);
  });

  test('stays while the volume mounts of the node are not known', () => {
    const paths = parts();
    mounts = new VolumeMounts({ files, log: silentLog });
    mounts.apply(undefined);
    mounts.tidy(nothing);
    expect(files.list('secrets')).toEqual([...paths].sort());
  });
});

test('the list says how much is here of each volume mount, and nothing of what is in it', () => {
  const sent = [
    mount({ user: 'ann', 'tls/key': 'secret' }),
    mount({}, { uuid: 'u2', name: 'later', type: 'configMap', sourceMissing: true }),
    mount({ '../x': '1' }, { uuid: 'u3', name: 'hostile' }),
  ];
  mounts.apply(sent);
  expect(mounts.items).toMatchObject([
    { name: 'creds', type: 'secret', state: 'Ready', keys: 2, size: 9, changedAt: expect.any(Number), lastError: '' },
    {
      name: 'later',
      type: 'configMap',
      state: 'Pending',
      keys: 0,
      lastError: 'its Secret or ConfigMap does not exist',
    },
    { name: 'hostile', state: 'Failed', keys: 0, lastError: expect.stringMatching(/^key "\.\.\/x"/) },
  ]);
  expect(JSON.stringify(mounts.items)).not.toMatch(/ann|user|tls/);
});

test('the status counts what is here, with the time of the last change', () => {
  expect(mounts.status).toEqual({ active: 0, changedAt: undefined });
  mounts.apply([mount({ a: '1' }), mount({}, { uuid: 'other', name: 'other', sourceMissing: true })]);
  expect(mounts.status.active).toBe(1);
  expect(Math.abs((mounts.status.changedAt ?? 0) - Date.now())).toBeLessThan(600_000);
});
