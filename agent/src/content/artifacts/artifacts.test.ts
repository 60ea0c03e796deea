import { randomUUID } from 'node:crypto';
import {
  closeSync,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { MicroserviceView } from '../../../../src/wire/agent.ts';
import { until } from '../../engines/_contract.ts';
import { hubAndMachine } from './_fixture.ts';
import { bindingEntry, makeArtifact, mountingContainer } from './_machine.ts';

async function fixture(files?: Record<string, string>) {
  const { hub, machine } = await hubAndMachine(files);
  const uuid = randomUUID();
  const mounted = (mode = 'ro', kind = 'models') => join(machine.volumes, kind, uuid, mode);
  /** what a container sees in its mounted directory */
  const seen = (mode = 'ro', kind = 'models') => machine.files('volumes', kind, uuid, mode);
  const shows = (files: Record<string, string>, mode = 'ro', kind = 'models') =>
    until(`a projection of ${JSON.stringify(files)}`, () => JSON.stringify(seen(mode, kind)) === JSON.stringify(files));
  /** The microservice binds the model, and shows these files of it. */
  const projected = async (
    files: Record<string, string>,
    change: Partial<MicroserviceView> = {},
    view = makeArtifact(),
  ) => {
    machine.want('models', view);
    machine.run(bindingEntry(uuid, ['tiny'], change));
    await shows(files, change.models?.permissions);
  };
  return { hub, machine, uuid, mounted, seen, shows, projected };
}

const rw = { models: { bindPath: '/models', permissions: 'rw' as const, items: [{ name: 'tiny' }] } };
const TINY_AND_OTHER = [{ name: 'tiny' }, { name: 'other' }];

describe('a microservice with catalogs', () => {
  test('waits with a message while an artifact is pulled, and not when it is projected', async () => {
    const { hub, machine, uuid, shows } = await fixture({ 'a.txt': 'one' });
    let answer = false;
    hub.fault = (path) => (path.includes('/revision/') && !answer ? { hang: true } : undefined);
    machine.run(bindingEntry(uuid, ['tiny']));
    expect(machine.artifacts.waitOf(uuid)).toEqual({ failed: true, message: 'model tiny is not linked to this node' });
    machine.want('models', makeArtifact());
    await until('the request', () => hub.count('/revision/') > 0);
    expect(machine.artifacts.waitOf(uuid)).toEqual({ failed: false, message: 'model tiny is being pulled (0 %)' });
    answer = true;
    await machine.stop();
    machine.start();
    await shows({ 'tiny/a.txt': 'one' });
    await until('no wait', () => machine.artifacts.waitOf(uuid) === undefined);
  });

  test('waits for a list that has not arrived, and does not fail', async () => {
    const { machine, uuid } = await fixture();
    machine.change({ desired: {} });
    machine.run(bindingEntry(uuid, ['tiny']));
    expect(machine.artifacts.waitOf(uuid)).toMatchObject({ failed: false, message: /its list has not arrived/ });
  });

  test('fails with the reason of the artifact, and no longer once that is pulled', async () => {
    const { hub, machine, uuid, shows } = await fixture();
    machine.run(bindingEntry(uuid, ['tiny']));
    machine.want('models', makeArtifact());
    await machine.reaches('models', 'tiny', 'Failed');
    expect(machine.artifacts.waitOf(uuid)).toEqual({
      failed: true,
      message: 'model tiny: the repository team/tiny at main does not exist',
    });
    hub.commit('models/team/tiny', { 'a.txt': 'one' });
    await shows({ 'tiny/a.txt': 'one' });
  });

  test('has both kinds in directories of their own, also under one name', async () => {
    const { hub, machine, uuid, shows } = await fixture({ 'a.txt': 'model' });
    hub.commit('datasets/team/tiny', { 'a.txt': 'knowledge' });
    machine.want('models', makeArtifact());
    machine.want('knowledge', makeArtifact());
    const knowledge = { bindPath: '/knowledge', permissions: 'ro' as const, items: [{ name: 'tiny' }] };
    machine.run(bindingEntry(uuid, ['tiny'], { knowledge }));
    await shows({ 'tiny/a.txt': 'model' });
    await shows({ 'tiny/a.txt': 'knowledge' }, 'ro', 'knowledge');
  });

  test('gets items that are added, and loses those that are removed, in the directory that it mounts', async () => {
    const { hub, machine, uuid, mounted, shows } = await fixture({ 'a.txt': 'tiny' });
    hub.commit('models/team/other', { 'b.txt': 'other' });
    machine.want('models', makeArtifact(), makeArtifact({ name: 'other', repo: 'team/other' }));
    machine.run(bindingEntry(uuid, ['tiny']));
    await shows({ 'tiny/a.txt': 'tiny' });
    const { ino } = statSync(mounted());
    machine.run(bindingEntry(uuid, ['tiny', 'other']));
    await shows({ 'other/b.txt': 'other', 'tiny/a.txt': 'tiny' });
    machine.run(bindingEntry(uuid, ['other']));
    await shows({ 'other/b.txt': 'other' });
    expect(statSync(mounted()).ino).toBe(ino);
    await until('the content to be gone', () => readdirSync(join(mounted(), '.content')).length === 1);
  });

  test('sees a new revision under the same path, whole, and the old one until then', async () => {
    const { hub, machine, mounted, shows, projected } = await fixture();
    hub.commit('models/team/tiny', { 'a.txt': 'one', 'b.txt': 'one' }, 'v1');
    hub.commit('models/team/tiny', { 'a.txt': 'two', 'b.txt': 'two' }, 'v2');
    const view = makeArtifact({ revision: 'v1' });
    await projected({ 'tiny/a.txt': 'one', 'tiny/b.txt': 'one' }, {}, view);
    const seen = new Set<string>();
    const watch = setInterval(() => {
      // One look at the link is one revision, whatever is read through it.
      const version = readFileSync(join(mounted(), 'tiny', 'a.txt'), 'utf8');
      seen.add(version);
    }, 1);
    machine.want('models', { ...view, revision: 'v2' });
    await shows({ 'tiny/a.txt': 'two', 'tiny/b.txt': 'two' });
    clearInterval(watch);
    expect([...seen].every((version) => version === 'one' || version === 'two')).toBe(true);
    expect(lstatSync(join(mounted(), 'tiny')).isSymbolicLink()).toBe(true);
  });

  test('keeps the old revision while the new one cannot be had', async () => {
    const { machine, uuid, seen, projected } = await fixture({ 'a.txt': 'one' });
    const view = makeArtifact();
    await projected({ 'tiny/a.txt': 'one' }, {}, view);
    machine.want('models', { ...view, revision: 'nowhere' });
    const status = await machine.reaches('models', 'tiny', 'Failed');
    expect(status.lastError).toMatch(/nowhere does not exist/);
    expect(seen()).toEqual({ 'tiny/a.txt': 'one' });
    expect(machine.artifacts.waitOf(uuid)).toBeUndefined();
  });
});

describe('the content of artifacts', () => {
  test('lies on the disk once for the store and all read-only projections', async () => {
    const { machine, uuid, mounted, shows } = await fixture({ 'a.txt': 'one' });
    machine.want('models', makeArtifact());
    const second = randomUUID();
    machine.run(bindingEntry(uuid, ['tiny']), bindingEntry(second, ['tiny']));
    await shows({ 'tiny/a.txt': 'one' });
    await until('the second', () => existsSync(join(machine.volumes, 'models', second, 'ro/tiny/a.txt')));
    const blob = statSync(join(machine.folder, 'artifacts/blobs', machine.blobs[0] ?? ''));
    expect(statSync(join(mounted(), 'tiny/a.txt')).ino).toBe(blob.ino);
    expect(blob.nlink).toBe(3);
    expect(blob.mode & 0o222).toBe(0);
  });

  test('is not changed by what a microservice writes into its own copy', async () => {
    const { machine, uuid, mounted, shows } = await fixture({ 'a.txt': 'one' });
    machine.want('models', makeArtifact());
    const reader = randomUUID();
    machine.run(bindingEntry(uuid, ['tiny'], rw), bindingEntry(reader, ['tiny']));
    await shows({ 'tiny/a.txt': 'one' }, 'rw');
    writeFileSync(join(mounted('rw'), 'tiny/a.txt'), 'mine');
    await until('the reader', () => existsSync(join(machine.volumes, 'models', reader, 'ro/tiny/a.txt')));
    expect(machine.files('volumes/models', reader, 'ro')).toEqual({ 'tiny/a.txt': 'one' });
    expect(statSync(join(mounted('rw'), 'tiny/a.txt')).mode & 0o777).toBe(0o666);
  });

  test('goes to the user of a microservice where its copy may be written', async () => {
    const { machine, uuid, mounted, shows } = await fixture({ 'sub/a.txt': 'one' });
    machine.want('models', makeArtifact());
    machine.run(bindingEntry(uuid, ['tiny'], { ...rw, runAsUser: '1234:5678' }));
    await shows({ 'tiny/sub/a.txt': 'one' }, 'rw');
    for (const path of ['tiny/sub/a.txt', 'tiny/sub', 'tiny/'])
      expect(statSync(join(mounted('rw'), path))).toMatchObject({ uid: 1234, gid: 5678 });
  });

  test('a copy that may be written counts against the disk', async () => {
    const { machine, uuid } = await fixture({ 'a.txt': 'x'.repeat(5000) });
    await machine.pulls();
    machine.room = { total: 1024 ** 3, available: 60 * 1024 ** 2 };
    machine.run(bindingEntry(uuid, ['tiny'], rw));
    await until('the refusal', () => machine.artifacts.waitOf(uuid)?.failed);
    expect(machine.artifacts.waitOf(uuid)?.message).toMatch(/^model tiny: it needs 5 KiB, and the disk has 0 KiB left/);
  });

  test('links that a container put into its own copy lead the agent nowhere', async () => {
    const { hub, machine, mounted, shows, projected } = await fixture();
    const outside = join(machine.folder, 'outside');
    mkdirSync(outside);
    writeFileSync(join(outside, 'precious'), 'precious');
    hub.commit('models/team/tiny', { 'a.txt': 'one' }, 'v1');
    hub.commit('models/team/tiny', { 'a.txt': 'two' }, 'v2');
    const view = makeArtifact({ revision: 'v1' });
    await projected({ 'tiny/a.txt': 'one' }, rw, view);
    rmSync(join(mounted('rw'), '.content'), { recursive: true });
    symlinkSync(outside, join(mounted('rw'), '.content'));
    machine.want('models', { ...view, revision: 'v2' });
    await shows({ 'tiny/a.txt': 'two' }, 'rw');
    machine.run();
    await until('the projection to be gone', () => !existsSync(mounted('rw')));
    expect(readdirSync(outside)).toEqual(['precious']);
  });
});

test('former contents of a writable copy go while its container runs, and a file that it has open stays readable', async () => {
  const { hub, machine, uuid, mounted, shows } = await fixture();
  const revisions = ['v1', 'v2', 'v3', 'v4'];
  for (const revision of revisions) hub.commit('models/team/tiny', { 'sub/a.txt': revision }, revision);
  machine.change({ containers: [mountingContainer(uuid, mounted('rw'))] });
  machine.run(bindingEntry(uuid, ['tiny'], rw));
  const view = makeArtifact();
  let open: number | undefined;
  for (const revision of revisions) {
    machine.want('models', { ...view, revision });
    await shows({ 'tiny/sub/a.txt': revision }, 'rw');
    open ??= openSync(join(mounted('rw'), 'tiny/sub/a.txt'), 'r');
  }
  await until('no trash', () => readdirSync(join(machine.volumes, 'models/.trash')).length === 0);
  expect(readdirSync(join(mounted('rw'), '.content'))).toHaveLength(2);
  expect(readFileSync(open ?? -1, 'utf8')).toBe('v1');
  closeSync(open ?? -1);
});

describe('what a container makes in its writable copy', () => {
  test('under a name of its own stays there, and goes with the projection', async () => {
    const { hub, machine, uuid, mounted, shows, projected } = await fixture();
    hub.commit('models/team/tiny', { 'a.txt': 'one' }, 'v1');
    hub.commit('models/team/tiny', { 'a.txt': 'two' }, 'v2');
    const view = makeArtifact({ revision: 'v1' });
    await projected({ 'tiny/a.txt': 'one' }, rw, view);
    const own = ['cache', '.hidden-0123456789abcdef', 'tiny-0123', '-0123456789abcdef'];
    for (const name of own) mkdirSync(join(mounted('rw'), '.content', name));
    machine.want('models', { ...view, revision: 'v2' });
    await shows({ 'tiny/a.txt': 'two' }, 'rw');
    await machine.artifacts.prune();
    const contents = readdirSync(join(mounted('rw'), '.content'));
    expect(contents).toEqual(expect.arrayContaining(own));
    expect(contents).toHaveLength(own.length + 1);
    machine.run(bindingEntry(uuid, ['later'], { models: { ...rw.models, items: [{ name: 'later' }] } }));
    await until('the artifact to be gone', () => !existsSync(join(mounted('rw'), 'tiny')));
    machine.run();
    await until('the projection to be gone', () => !existsSync(mounted('rw')));
  });

  test('under the name of a content does not keep the agent busy', async () => {
    const { hub, machine, uuid, mounted, shows } = await fixture({ 'a.txt': 'one' });
    hub.commit('models/team/other', { 'b.txt': 'other' });
    machine.want('models', makeArtifact(), makeArtifact({ name: 'other', repo: 'team/other' }));
    machine.run(bindingEntry(uuid, ['tiny'], rw));
    await shows({ 'tiny/a.txt': 'one' }, 'rw');
    const junk = join(mounted('rw'), '.content', 'junk-0123456789abcdef');
    let made = 0;
    let isOver = false;
    const make = () => {
      if (isOver) return;
      if (!existsSync(junk)) {
        mkdirSync(junk);
        made++;
      }
      setImmediate(make);
    };
    make();
    machine.run(bindingEntry(uuid, ['tiny', 'other'], { models: { ...rw.models, items: TINY_AND_OTHER } }));
    await until('ten removals', () => made > 10).finally(() => {
      isOver = true;
    });
    // A second between two of them, of which the jitter of the machine makes 20 ms.
    expect(machine.pauses.filter((ms) => ms === 20).length).toBeGreaterThan(8);
  });
});

describe('what is no longer needed', () => {
  test('a projection goes when neither a microservice nor a container needs it', async () => {
    const { machine, uuid, mounted, projected } = await fixture({ 'a.txt': 'one' });
    await projected({ 'tiny/a.txt': 'one' });
    machine.change({ containers: [mountingContainer(uuid, mounted())] });
    machine.run();
    await machine.artifacts.prune();
    expect(existsSync(mounted())).toBe(true);
    machine.change({ containers: [] });
    await until('the projection to be gone', () => !existsSync(mounted()));
    await until('no trash', () => readdirSync(join(machine.volumes, 'models/.trash')).length === 0);
  });

  test('nothing goes while the engine or the desired state is not known', async () => {
    const { machine, mounted, projected } = await fixture({ 'a.txt': 'one' });
    await projected({ 'tiny/a.txt': 'one' });
    machine.change({ containers: undefined, entries: [] });
    await machine.artifacts.prune();
    machine.change({ containers: [], entries: undefined });
    await machine.artifacts.prune();
    expect(existsSync(join(mounted(), 'tiny/a.txt'))).toBe(true);
  });

  test('an artifact that no list names stays until a prune, and one that is linked again is not pulled again', async () => {
    const { hub, machine } = await fixture({ 'a.txt': 'one' });
    const view = makeArtifact();
    await machine.pulls(view);
    machine.want('models');
    await machine.pulls(view);
    expect(hub.count('/resolve/')).toBe(1);
    expect(await machine.artifacts.prune()).toMatchObject({ names: [], bytes: 0 });
    machine.want('models');
    expect(await machine.artifacts.prune()).toEqual({ names: ['tiny'], bytes: 'one'.length, blobs: 1, downloads: 0 });
    expect(machine.blobs).toEqual([]);
  });

  test('a prune keeps what the controller forgot when its datastore was restored', async () => {
    const { machine } = await fixture({ 'a.txt': 'one' });
    await machine.pulls();
    machine.change({ retains: true, desired: { models: [], knowledge: [] } });
    expect(await machine.artifacts.prune()).toMatchObject({ names: [], bytes: 0 });
    expect(machine.blobs).toHaveLength(1);
  });

  test('a pull that lacks room removes what nothing uses, and then goes on', async () => {
    const { hub, machine } = await fixture();
    hub.commit('models/team/old', { 'a.bin': 'o'.repeat(5000) });
    hub.commit('models/team/tiny', { 'a.bin': 't'.repeat(5000) });
    await machine.pulls(makeArtifact({ name: 'old', repo: 'team/old' }));
    const full = { total: 1024 ** 3, available: 60 * 1024 ** 2 };
    const free = { total: 1024 ** 3, available: 1024 ** 3 };
    Object.defineProperty(machine, 'room', { get: () => (machine.blobs.length > 0 ? full : free) });
    await machine.pulls();
    expect(machine.blobs).toHaveLength(1);
  });

  test('contents of a former revision leave the store when the new one is complete', async () => {
    const { hub, machine } = await fixture();
    // The list has the SHA-256 of large files only.
    hub.large = 4;
    hub.commit('models/team/tiny', { 'a.txt': 'one', 'same.txt': 'same' }, 'v1');
    hub.commit('models/team/tiny', { 'a.txt': 'two', 'same.txt': 'same' }, 'v2');
    const view = makeArtifact({ revision: 'v1' });
    await machine.pulls(view);
    machine.want('models', { ...view, revision: 'v2' });
    await until('the second revision', () => hub.count('/revision/v2') > 0);
    await machine.reaches('models', 'tiny', 'Ready');
    await until('two contents', () => machine.blobs.length === 2);
    expect(hub.count('/stored/models/team/tiny')).toBe(1);
  });
});

test('everything is there again after a restart, without a request', async () => {
  const { hub, machine, uuid, seen, projected } = await fixture({ 'a.txt': 'one' });
  await projected({ 'tiny/a.txt': 'one' });
  await machine.stop();
  const before = hub.requests.length;
  machine.start();
  await machine.reaches('models', 'tiny', 'Ready');
  await until('no wait', () => machine.artifacts.waitOf(uuid) === undefined);
  expect(seen()).toEqual({ 'tiny/a.txt': 'one' });
  expect(hub.requests).toHaveLength(before);
});

test('an artifact whose content was lost is pulled again', async () => {
  const { machine } = await fixture({ 'a.txt': 'one', 'b.txt': 'two' });
  await machine.pulls();
  await machine.stop();
  rmSync(join(machine.folder, 'artifacts/blobs', machine.blobs[0] ?? ''));
  machine.start();
  await machine.reaches('models', 'tiny', 'Ready');
  expect(machine.blobs).toHaveLength(2);
});
