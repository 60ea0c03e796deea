import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { expect, onTestFinished, test } from 'vitest';
import { GLOBAL_FLAGS } from '../../agent/src/cli/cli.ts';
import { completionScript } from '../../agent/src/cli/commands/completion.ts';
import { COMMANDS } from '../../agent/src/cli/commands.ts';
import { Program } from '../../agent/src/update/program.ts';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import type { Origin } from '../build.ts';
import { type AgentParts, layOut, makeArchive, makeDebianPackage } from './agent.ts';
import { manualPage } from './command-line.ts';

const origin: Origin = { version: '1.2.3-rc.1', revision: 'abc', created: new Date('2026-01-02T03:04:05Z') };
const FAST = { compression: ['-Zgzip', '-z1'] };

/** A tree whose programs are a few bytes. */
function makeTree(change: Partial<AgentParts> = {}): { folder: string; tree: string } {
  const folder = temporaryFolder();
  const file = (name: string) => {
    writeFileSync(join(folder, name), `content of ${name}`);
    return join(folder, name);
  };
  const tree = join(folder, 'tree');
  const programs = { agent: file('agent'), launcher: file('launcher'), node: file('node') };
  layOut(tree, { ...programs, notice: 'notice', billOfMaterials: '{}', ...change }, origin);
  return { folder, tree };
}

const hasDpkg = spawnSync('dpkg-deb', ['--version']).status === 0;

test('a package has the program directory that updates of the agent continue with', () => {
  const { tree } = makeTree();
  const program = new Program(join(tree, 'opt/skerry-agent'));
  expect(program.current).toBe('1.2.3-rc.1');
  expect(program.versions()).toEqual(['1.2.3-rc.1']);
  expect(program.read('1.2.3-rc.1').nodeFlags).toContain('--max-semi-space-size=1');
  // One Node under two names.
  const node = (path: string) => statSync(join(tree, 'opt/skerry-agent', path)).ino;
  expect(node('node')).toBe(node('releases/1.2.3-rc.1/node'));
});

test('a package whose Node brings libraries along has them beside both names of Node, each file once', async () => {
  const libraries = temporaryFolder();
  for (const name of ['ld.so', 'libnode.so.1']) writeFileSync(join(libraries, name), `content of ${name}`);
  const { folder, tree } = makeTree({ libraries });
  const at = (path: string) => statSync(join(tree, 'opt/skerry-agent', path));
  for (const name of ['ld.so', 'libnode.so.1']) {
    expect(at(`lib/${name}`).ino).toBe(at(`releases/1.2.3-rc.1/lib/${name}`).ino);
    expect(at(`lib/${name}`).mode & 0o777).toBe(0o755);
  }
  await makeArchive(tree, origin, join(folder, 'archive'));
  const names = execFileSync('tar', ['-tzf', join(folder, 'archive')], { encoding: 'utf8' });
  expect(names).toContain('\nopt/skerry-agent/current\n');
  expect(names).toContain('\nopt/skerry-agent/lib/libnode.so.1\n');
});

const listArchive = (path: string) =>
  execFileSync('tar', ['-tf', '-'], { input: gunzipSync(readFileSync(path)), encoding: 'utf8' })
    .trim()
    .split('\n');

test('archives of one commit are equal, whenever and under whatever umask they are made', async () => {
  const digest = async (umask: number) => {
    const before = process.umask(umask);
    try {
      const { folder, tree } = makeTree();
      await makeArchive(tree, origin, join(folder, 'archive'));
      return createHash('sha256')
        .update(readFileSync(join(folder, 'archive')))
        .digest('hex');
    } finally {
      process.umask(before);
    }
  };
  expect(await digest(0o022)).toBe(await digest(0o077));
});

test.runIf(hasDpkg)('a package of Debian is made the same from the same commit, and says what dpkg needs', async () => {
  const { folder, tree } = makeTree({ releaseKey: 'a public key' });
  const make = async (name: string, umask = 0o022) => {
    const before = process.umask(umask);
    onTestFinished(() => void process.umask(before));
    await makeDebianPackage(tree, 'armv7', origin, { ...FAST, to: join(folder, name) });
    return readFileSync(join(folder, name));
  };
  const first = await make('a.deb');
  expect((await make('b.deb', 0o077)).equals(first)).toBe(true);
  const show = (...args: string[]) => execFileSync('dpkg-deb', args, { cwd: folder, encoding: 'utf8' });
  expect(show('--field', 'a.deb')).toMatch(/^Version: 1\.2\.3~rc\.1\nArchitecture: armhf$/m);
  // Its Node brings all libraries along.
  expect(show('--field', 'a.deb', 'Depends').trim()).toBe('');
  expect(show('--info', 'a.deb', 'conffiles')).toBe('/etc/skerry-agent/release.pem\n');
  const listing = show('--contents', 'a.deb');
  for (const line of [
    /^-rwxr-xr-x root\/root .* \.\/usr\/bin\/skerry-agent$/m,
    /^lrwxrwxrwx root\/root .* \.\/opt\/skerry-agent\/current -> releases\/1\.2\.3-rc\.1$/m,
    /^h.* \.\/opt\/skerry-agent\/releases\/1\.2\.3-rc\.1\/node link to \.\/opt\/skerry-agent\/node$/m,
    /^-rw-r--r-- root\/root .* \.\/usr\/lib\/systemd\/system\/skerry-agent\.service$/m,
    /^-rw-r--r-- root\/root .* \.\/usr\/share\/skerry-agent\/config\.yaml$/m,
  ])
    expect(listing).toMatch(line);
  // Settings that people change belong to no package: dpkg would ask about them.
  expect(listing).not.toContain('etc/skerry-agent/config.yaml');
  await makeArchive(tree, origin, join(folder, 'archive'));
  expect(listArchive(join(folder, 'archive'))).toContain('etc/skerry-agent/config.yaml');
});

test('the manual page names every command and escapes what man would read as its own', () => {
  const page = manualPage({ version: '1.2.3', date: origin.created });
  expect(page).toMatch(/^\.TH SKERRY\\-AGENT 1 2026-01-02 /);
  expect(page).toContain('\nms start <microservice>\n');
  expect(page).toContain('.B \\-\\-config');
  expect(page).not.toMatch(/^\.(?!TH|SH|SS|TP|PP|nf|fi|[BI] )/m);
});

test('bash completes commands, words of a command and flags', () => {
  const folder = temporaryFolder();
  mkdirSync(join(folder, 'c'));
  writeFileSync(join(folder, 'c/skerry-agent'), completionScript('bash', { commands: COMMANDS, flags: GLOBAL_FLAGS }));
  const complete = (...words: string[]) => {
    const list = words.map((word) => `'${word}'`).join(' ');
    const script = `source ${folder}/c/skerry-agent; COMP_WORDS=(skerry-agent ${list}); COMP_CWORD=${words.length}
      _skerry_agent; printf '%s\\n' "\${COMPREPLY[@]}"`;
    return execFileSync('bash', ['-c', script], { encoding: 'utf8' }).trim().split('\n');
  };
  expect(complete('pro')).toEqual(['provision']);
  expect(complete('ms', 'st')).toEqual(['start', 'stop']);
  expect(complete('provision', '--conf')).toEqual(['--config']);
});

test('the archive has the settings under a path that an upgrade can leave out', async () => {
  const { folder, tree } = makeTree();
  await makeArchive(tree, origin, join(folder, 'archive'));
  const names = listArchive(join(folder, 'archive'));
  expect(names).toContain('etc/skerry-agent/config.yaml');
  expect(names.filter((name) => !/^(etc|opt|usr)\//.test(name))).toEqual([]);
});
