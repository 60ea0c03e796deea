import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { ROOT } from '../paths.ts';

/** The systemd unit and the maintainer scripts of the package, without installing it: hack/package/machine.engine.test.ts does that. */
const UNIT = join(ROOT, 'packaging/skerry-agent.service');
const UNITS = ['skerry-agent.service', 'skerry-containerd.service'] as const;
const hasSystemd = spawnSync('systemd-analyze', ['--version']).status === 0;

test.runIf(hasSystemd)('systemd finds nothing wrong in the units of the agent', () => {
  const folder = temporaryFolder();
  for (const name of UNITS) {
    // The programs are where the packages put them; here they are another one that is executable.
    const text = readFileSync(join(ROOT, 'packaging', name), 'utf8').replace(
      /=(\/opt\/skerry-agent\/node|\/usr\/bin\/skerry-agent|containerd) /g,
      '=/bin/true ',
    );
    writeFileSync(join(folder, name), text.replace(/^Documentation=.*$/m, ''));
  }
  const { status, stderr } = spawnSync('systemd-analyze', ['verify', ...UNITS.map((name) => join(folder, name))], {
    encoding: 'utf8',
  });
  expect({ status, about: stderr.split('\n').filter((line) => line.includes('skerry-')) }).toEqual({
    status: 0,
    about: [],
  });
});

test.runIf(hasSystemd)('the unit is exposed no more than an agent of engines has to be', () => {
  // 0 is nothing, 10 all; a unit without any protection has 9.6. The engine's socket alone is worth more than all of it.
  const args = ['security', '--offline=true', '--threshold=50', '--no-pager', UNIT];
  const { status, stdout, stderr } = spawnSync('systemd-analyze', args, { encoding: 'utf8' });
  expect(status, `${stdout.split('\n').slice(-3).join('\n')}${stderr}`).toBe(0);
});

/** Runs a maintainer script on a machine whose programs note their arguments. */
const maintain = (script: string, ...args: string[]) => maintainWith({}, script, ...args);

/** The same on a machine that has these settings, and that has run the agent's own engine. */
function maintainWith(
  { settings, ownEngine }: { settings?: string | undefined; ownEngine?: true },
  script: string,
  ...args: string[]
) {
  const root = temporaryFolder();
  for (const path of [
    'opt/skerry-agent/releases',
    'etc/skerry-agent',
    'run/systemd/system',
    'bin',
    'usr/share/skerry-agent',
    'usr/bin',
    'engine',
    ...(ownEngine ? ['run/skerry-containerd'] : []),
  ])
    mkdirSync(join(root, path), { recursive: true });
  for (const path of ['volumes/kept', 'artifacts']) mkdirSync(join(root, 'data', path), { recursive: true });
  writeFileSync(join(root, 'data/agent.db'), '');
  writeFileSync(join(root, 'usr/share/skerry-agent/config.yaml'), '# the default');
  if (settings !== undefined) writeFileSync(join(root, 'etc/skerry-agent/config.yaml'), settings);
  const noted = join(root, 'noted');
  writeFileSync(noted, '');
  for (const name of ['bin/systemctl', 'bin/deb-systemd-helper', 'bin/deb-systemd-invoke', 'usr/bin/skerry-agent'])
    writeFileSync(join(root, name), `#!/bin/sh\necho ${basename(name)} "$@" >> ${noted}\n`, { mode: 0o755 });
  const text = readFileSync(join(ROOT, 'packaging/debian', script), 'utf8')
    .replaceAll('/var/lib/skerry-agent', `${root}/data`)
    .replaceAll('/var/lib/skerry-containerd', `${root}/engine`)
    .replaceAll(/(?<![\w/])\/(opt|etc|run|usr)\//g, `${root}/$1/`);
  const env = { PATH: `${join(root, 'bin')}:/usr/bin:/bin` };
  execFileSync('sh', ['-c', text, script, ...args], { env, stdio: 'pipe' });
  return { root, noted: readFileSync(noted, 'utf8').trim().split('\n').filter(Boolean) };
}

test('an installation and an upgrade enable the unit and start the agent again, and an upgrade stops nothing before', () => {
  expect(maintain('postinst', 'configure', '0.1.0').noted).toEqual([
    'deb-systemd-helper unmask skerry-agent.service',
    'deb-systemd-helper --quiet was-enabled skerry-agent.service',
    'deb-systemd-helper enable skerry-agent.service',
    'systemctl --system daemon-reload',
    'deb-systemd-invoke restart skerry-agent.service',
  ]);
  expect(maintain('prerm', 'upgrade', '0.2.0').noted).toEqual([]);
  const { root, noted } = maintain('postrm', 'upgrade', '0.2.0');
  expect([noted, readdirSync(join(root, 'opt')), readdirSync(join(root, 'data')).length]).toEqual([
    [],
    ['skerry-agent'],
    3,
  ]);
});

test('an installation brings settings to a machine without any, and leaves those that are there', () => {
  const settingsOf = (settings: string | undefined, ...args: string[]) => {
    const folder = join(maintainWith({ settings }, 'postinst', ...args).root, 'etc/skerry-agent');
    return readdirSync(folder).map((name) => readFileSync(join(folder, name), 'utf8'));
  };
  expect(settingsOf(undefined, 'configure')).toEqual(['# the default']);
  expect(settingsOf('# mine', 'configure')).toEqual(['# mine']);
  expect(settingsOf('# mine', 'configure', '0.1.0')).toEqual(['# mine']);
  // What an administrator took away before a failed upgrade stays away.
  expect(settingsOf(undefined, 'abort-upgrade', '0.2.0')).toEqual([]);
});

test('a removal stops the agent and takes its releases; a purge takes all but what containers have written', () => {
  expect(maintain('prerm', 'remove').noted).toEqual(['deb-systemd-invoke stop skerry-agent.service']);
  const removed = maintain('postrm', 'remove').root;
  expect([
    readdirSync(join(removed, 'opt')),
    readdirSync(join(removed, 'etc')),
    readdirSync(join(removed, 'data')).length,
  ]).toEqual([[], ['skerry-agent'], 3]);
  const purged = maintain('postrm', 'purge').root;
  expect([readdirSync(join(purged, 'etc')), readdirSync(join(purged, 'data'))]).toEqual([[], ['volumes']]);
  expect(existsSync(join(purged, 'engine'))).toBe(false);
});

test("a removal ends the agent's own engine with its containers, behind the agent, and an upgrade does not", () => {
  expect(maintainWith({ ownEngine: true }, 'prerm', 'remove').noted).toEqual([
    'deb-systemd-invoke stop skerry-agent.service',
    'deb-systemd-invoke stop skerry-containerd.service',
    'skerry-agent runtime remove --yes --quiet',
  ]);
  expect(maintainWith({ ownEngine: true }, 'prerm', 'upgrade', '0.2.0').noted).toEqual([]);
});
