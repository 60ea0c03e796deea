import { spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import {
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { until } from '../../engines/_contract.ts';
import { hubAndMachine } from './_fixture.ts';
import { bindingEntry, makeArtifact } from './_machine.ts';

/** What a container may do in a directory that it can write to, and what that must not do to the agent or to others. */

const rw = (name: string) => ({ models: { bindPath: '/models', permissions: 'rw' as const, items: [{ name }] } });
const fifo = (path: string) => expect(spawnSync('mkfifo', [path]).status).toBe(0);
const huge = (path: string) => {
  writeFileSync(path, '');
  truncateSync(path, 2 ** 40);
};
/** Puts something in place of what the agent made. */
const instead = (path: string, make: (path: string) => void) => {
  rmSync(path, { recursive: true });
  make(path);
};
const content = (root: string) => join(root, '.content');
const version = (root: string) => join(content(root), readdirSync(content(root))[0] ?? '');

const DEEDS: Record<string, (root: string, outside: string) => void> = {
  'the directory of contents becomes a link to itself': (root) =>
    instead(content(root), (path) => symlinkSync('.content', path)),
  'the directory of contents becomes a link to another directory': (root, outside) =>
    instead(content(root), (path) => symlinkSync(outside, path)),
  'the directory of contents becomes a pipe': (root) => instead(content(root), fifo),
  'the directory of contents becomes a file of a tebibyte': (root) => instead(content(root), huge),
  'the artifact becomes a pipe': (root) => instead(join(root, 'tiny'), fifo),
  'the artifact becomes a link to another directory': (root, outside) =>
    instead(join(root, 'tiny'), (path) => symlinkSync(outside, path)),
  'its content becomes a pipe': (root) => instead(version(root), fifo),
  'its content becomes a link to another directory': (root, outside) =>
    instead(version(root), (path) => symlinkSync(outside, path)),
  'its file becomes a hard link of a file that the container keeps, and changes': (root) => {
    linkSync(join(version(root), 'a.txt'), join(root, 'kept'));
    writeFileSync(join(root, 'kept'), 'changed');
  },
  'its content moves away, and a file of a tebibyte is beside it': (root) => {
    renameSync(version(root), join(root, 'mine'));
    huge(join(root, 'large'));
  },
  'a directory is where the agent prepares its link': (root) =>
    mkdirSync(join(root, '.switch', 'deep'), { recursive: true }),
  'there are many names of artifacts and of contents': (root, outside) => {
    for (let i = 0; i < 1200; i++) {
      symlinkSync(outside, join(root, `name-${i}`));
      mkdirSync(join(content(root), `junk${i}-0123456789abcdef`));
    }
  },
};

test.each(Object.entries(DEEDS))(
  'when %s, the next revision arrives here and elsewhere, and nothing else is touched',
  async (_, deed) => {
    const { hub, machine } = await hubAndMachine();
    hub.commit('models/team/tiny', { 'a.txt': 'one' }, 'v1');
    hub.commit('models/team/tiny', { 'a.txt': 'two' }, 'v2');
    const [uuid, reader] = [randomUUID(), randomUUID()];
    const [root, other] = [join(machine.volumes, 'models', uuid, 'rw'), join(machine.volumes, 'models', reader, 'ro')];
    const shows = (at: string, text: string) =>
      until(`${text} in ${at}`, () => readFileSync(join(at, 'tiny/a.txt'), 'utf8') === text);
    const view = makeArtifact({ revision: 'v1' });
    machine.want('models', view);
    machine.run(bindingEntry(uuid, ['tiny'], rw('tiny')), bindingEntry(reader, ['tiny']));
    await shows(root, 'one');
    await shows(other, 'one');

    const outside = join(machine.folder, 'outside');
    mkdirSync(outside);
    writeFileSync(join(outside, 'a.txt'), 'precious');
    deed(root, outside);
    await machine.stop();
    machine.start();
    machine.want('models', { ...view, revision: 'v2' });
    await shows(root, 'two');
    await shows(other, 'two');
    machine.run();
    await until('both projections to be gone', () => !existsSync(root) && !existsSync(other));
    await until('no trash', () => readdirSync(join(machine.volumes, 'models/.trash')).length === 0);
    expect(readFileSync(join(outside, 'a.txt'), 'utf8')).toBe('precious');
    expect(readdirSync(outside)).toEqual(['a.txt']);
    expect(machine.logged).not.toMatch(/cannot be looked after/);
  },
);

test('a directory that a container made under the name of an artifact stays, and a message names it', async () => {
  const { machine } = await hubAndMachine({ 'a.txt': 'one' });
  const uuid = randomUUID();
  const own = join(machine.volumes, 'models', uuid, 'rw', 'tiny');
  mkdirSync(own, { recursive: true });
  machine.want('models', makeArtifact());
  machine.run(bindingEntry(uuid, ['tiny'], rw('tiny')));
  await until('the failure', () => machine.artifacts.waitOf(uuid)?.failed);
  expect(machine.artifacts.waitOf(uuid)?.message).toBe(
    'model tiny: the container has made a directory named tiny, where the artifact is to be',
  );
  rmSync(own, { recursive: true });
  await until('no wait', () => machine.artifacts.waitOf(uuid) === undefined);
});

test('what fails is tried again at growing intervals of its own, and holds up nothing else', async () => {
  const { hub, machine } = await hubAndMachine({ 'a.txt': 'one' });
  hub.commit('models/team/other', { 'b.txt': 'other' });
  const [uuid, second] = [randomUUID(), randomUUID()];
  const root = join(machine.volumes, 'models', uuid, 'ro');
  machine.want('models', makeArtifact());
  machine.run(bindingEntry(uuid, ['tiny']));
  await until('the projection', () => existsSync(join(root, 'tiny/a.txt')));
  // Nothing can be moved to where it would be removed.
  const trash = join(machine.volumes, 'models/.trash');
  writeFileSync(trash, '');
  machine.run(bindingEntry(second, ['other']));
  const failures = () => machine.logged.match(/"A step of artifacts failed"/g)?.length ?? 0;
  await until('the first failure', () => failures() > 0);
  machine.want('models', makeArtifact({ name: 'other', repo: 'team/other' }));
  await until('the other one', () => existsSync(join(machine.volumes, 'models', second, 'ro/other/b.txt')));
  await until('two more attempts', () => failures() >= 3);
  // Thirty seconds, of which the jitter of the machine makes 600 ms, would have been the pause of everything.
  expect(machine.pauses).not.toContain(600);
  rmSync(trash);
  await until('the projection to be gone', () => !existsSync(root));
});
