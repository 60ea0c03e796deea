import { appendFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { AGENT_VERSION } from '../../agent/src/domain/names.ts';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { bundle } from '../build.ts';
import { Machine } from '../machine.ts';
import { ROOT } from '../paths.ts';
import { waitFor } from '../wait.ts';
import { layOut, makeDebianPackage } from './agent.ts';

/**
 * The package of the agent on a Debian with systemd as init: this machine's own root under a layer that takes all writes. It needs
 * root and an overlay, and so runs with `make nightly` only.
 */
const VERSIONS = ['0.1.0', '0.2.0'] as const;
const CONFIG = 'etc/skerry-agent/config.yaml';
const dir = temporaryFolder();
let machine: Machine;

beforeAll(async () => {
  if (!process.env.SKERRY_NIGHTLY) return;
  machine = await Machine.create();
  const [agent, launcher] = [await bundle('skerry-agent', dir), await bundle('skerry-agent-launcher', dir)];
  for (const version of VERSIONS) {
    const tree = join(dir, 'tree');
    const program = join(dir, version);
    writeFileSync(program, readFileSync(agent.path, 'utf8').replaceAll(`"${AGENT_VERSION}"`, `"${version}"`));
    const node = join(ROOT, 'node_modules/node/bin/node');
    const origin = { version, revision: 'test', created: new Date(0) };
    layOut(tree, { agent: program, launcher: launcher.path, node, notice: '', billOfMaterials: '{}' }, origin);
    appendFileSync(join(tree, CONFIG), `# of ${version}\n`);
    const to = join(machine.root, `${version}.deb`);
    await makeDebianPackage(tree, 'amd64', origin, { to, compression: ['-Zgzip', '-z1'] });
  }
  await machine.boot();
}, 300_000);
afterAll(async () => {
  await machine?.[Symbol.asyncDispose]();
});

const version = async () => (await machine.say('skerry-agent', 'version')).out;
const unit = () => machine.unit();
const identity = () => JSON.parse(readFileSync(join(machine.root, 'var/lib/skerry-agent/identity.json'), 'utf8'));
const untilActive = () => machine.untilActive();

test.runIf(process.env.SKERRY_NIGHTLY)(
  'on a Debian with systemd the package is installed, upgraded, downgraded, removed and purged',
  async () => {
    await machine.say('dpkg', '-i', '/0.1.0.deb');
    await untilActive();
    expect(await version()).toBe('skerry-agent 0.1.0');
    expect((await unit()).StatusText).toBe('Running');
    const { instance } = identity();

    // A daemon that hangs is started again; the real limit is two minutes.
    const settings = join(machine.root, 'etc/systemd/system/skerry-agent.service.d');
    mkdirSync(settings);
    writeFileSync(join(settings, 'hurry.conf'), '[Service]\nWatchdogSec=3\nTimeoutAbortSec=1\nRestartSec=0\n');
    await machine.say('systemctl', 'daemon-reload');
    await machine.say('systemctl', 'restart', 'skerry-agent');
    await untilActive();
    const { MainPID } = await unit();
    await new Promise((resolve) => setTimeout(resolve, 5_000));
    expect(await unit()).toMatchObject({ MainPID, NRestarts: '0' });
    await machine.say('systemctl', 'kill', '--kill-whom=main', '--signal=SIGSTOP', 'skerry-agent');
    await waitFor(async () => (await unit()).NRestarts === '1', { what: 'the watchdog to start the agent again' });
    rmSync(settings, { recursive: true });
    await machine.say('systemctl', 'daemon-reload');
    await untilActive();

    writeFileSync(join(machine.root, 'etc/skerry-agent/policy.yaml'), 'privileged: false\n');
    // Settings that were changed here and in the package: nobody is asked which to keep.
    appendFileSync(join(machine.root, CONFIG), '# mine\n');
    await machine.say('dpkg', '-i', '/0.2.0.deb');
    await untilActive();
    expect(await version()).toBe('skerry-agent 0.2.0');
    await machine.say('dpkg', '-i', '/0.1.0.deb');
    await untilActive();
    expect(await version()).toBe('skerry-agent 0.1.0');
    expect(identity().instance).toBe(instance);

    expect(readFileSync(join(machine.root, CONFIG), 'utf8')).toMatch(/# of 0\.1\.0\n# mine\n$/);

    await machine.powerOff();
    await machine.boot();
    await untilActive();
    expect(identity().instance).toBe(instance);

    mkdirSync(join(machine.root, 'var/lib/skerry-agent/volumes/kept'), { recursive: true });
    await machine.say('dpkg', '--remove', 'skerry-agent');
    expect((await unit()).ActiveState).toBe('inactive');
    expect(readdirSync(join(machine.root, 'opt'))).not.toContain('skerry-agent');
    expect(readdirSync(join(machine.root, 'etc/skerry-agent')).sort()).toEqual(['config.yaml', 'policy.yaml']);
    expect(identity().instance).toBe(instance);

    await machine.say('dpkg', '--purge', 'skerry-agent');
    expect(readdirSync(join(machine.root, 'etc'))).not.toContain('skerry-agent');
    // What containers have written is never removed.
    expect(readdirSync(join(machine.root, 'var/lib/skerry-agent'))).toEqual(['volumes']);
    expect((await machine.say('dpkg', '--list', 'skerry-agent')).out).toContain('no packages found');
  },
  300_000,
);
