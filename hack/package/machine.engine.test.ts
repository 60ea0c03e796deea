import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { AGENT_VERSION } from '../../agent/src/domain/names.ts';
import { bundle } from '../build.ts';
import { ROOT } from '../paths.ts';
import { waitFor } from '../wait.ts';
import { layOut, makeDebianPackage } from './agent.ts';

/**
 * The package of the agent on a Debian with systemd as init: this machine's own root under a layer that takes all writes,
 * in namespaces of its own. It needs root and an overlay, and so runs with `make nightly` only.
 */
const run = promisify(execFile);
const VERSIONS = ['0.1.0', '0.2.0'] as const;
let dir: string;
let machine: Machine;

beforeAll(async () => {
  if (!process.env.SKERRY_NIGHTLY) return;
  dir = mkdtempSync(join(tmpdir(), 'skerry-machine-'));
  machine = new Machine(dir);
  await machine.create();
  const [agent, launcher] = [await bundle('skerry-agent', dir), await bundle('skerry-agent-launcher', dir)];
  for (const version of VERSIONS) {
    const tree = join(dir, 'tree');
    const program = join(dir, version);
    writeFileSync(program, readFileSync(agent.path, 'utf8').replaceAll(`"${AGENT_VERSION}"`, `"${version}"`));
    const node = join(ROOT, 'node_modules/node/bin/node');
    const origin = { version, revision: 'test', created: new Date(0) };
    layOut(tree, { agent: program, launcher: launcher.path, node, notice: '', billOfMaterials: '{}' }, origin);
    const to = join(machine.root, `${version}.deb`);
    await makeDebianPackage(tree, 'amd64', origin, { to, compression: ['-Zgzip', '-z1'] });
  }
  await machine.boot();
}, 300_000);
afterAll(async () => {
  await machine?.[Symbol.asyncDispose]();
  // Never through a mount that is still there.
  if (dir) await run('rm', ['-rf', '--one-file-system', dir]);
});

class Machine implements AsyncDisposable {
  readonly root: string;
  readonly #dir: string;
  #process: ChildProcess | undefined;

  constructor(dir: string) {
    this.#dir = dir;
    this.root = join(dir, 'root');
  }

  async create(): Promise<void> {
    const layer = join(this.#dir, 'layer');
    for (const folder of [this.root, layer]) mkdirSync(folder);
    await run('mount', ['-t', 'tmpfs', 'skerry-machine', layer]);
    for (const folder of ['upper', 'work']) mkdirSync(join(layer, folder));
    const options = `lowerdir=/,upperdir=${layer}/upper,workdir=${layer}/work`;
    await run('mount', ['-t', 'overlay', 'skerry-machine', '-o', options, this.root]);
    // Only what is tested is started, and the packages may start it.
    rmSync(join(this.root, 'etc/systemd/system/multi-user.target.wants'), { recursive: true, force: true });
    rmSync(join(this.root, 'usr/sbin/policy-rc.d'), { force: true });
    const mounts = [
      ...[
        'proc:proc:/proc',
        'sysfs:sysfs:/sys',
        'cgroup2:cgroup2:/sys/fs/cgroup',
        'tmpfs:tmpfs:/run',
        'tmpfs:tmpfs:/tmp',
      ],
    ].map((each) => each.split(':'));
    const lines = mounts.map(([type, name, at]) => `mount -t ${type} ${name} ${at}`);
    const init = [
      '#!/bin/sh',
      'set -e',
      'cd /',
      ...lines,
      'export container=other',
      'exec /lib/systemd/systemd --unit=multi-user.target',
    ];
    writeFileSync(join(this.root, 'skerry-boot'), `${init.join('\n')}\n`, { mode: 0o755 });
  }

  async boot(): Promise<void> {
    const namespaces = ['--mount', '--pid', '--uts', '--ipc', '--net', '--cgroup', '--fork', '--kill-child'];
    this.#process = spawn('unshare', [...namespaces, 'chroot', this.root, '/skerry-boot'], {
      stdio: 'ignore',
      cwd: '/',
    });
    await waitFor(async () => /running|degraded/.test(await this.say('systemctl', 'is-system-running')) || undefined, {
      what: 'systemd to be up',
      timeoutMs: 60_000,
    });
  }

  /** Ends all processes, as a loss of power does; the disk stays. */
  async powerOff(): Promise<void> {
    const child = this.#process;
    if (!child) return;
    const gone = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGKILL');
    await gone;
    this.#process = undefined;
  }

  /** The output of a program on the machine, also of one that fails. */
  async say(...command: string[]): Promise<string> {
    const init = readFileSync(`/proc/${this.#process?.pid}/task/${this.#process?.pid}/children`, 'utf8').trim();
    if (!init) return '';
    const args = ['--target', init, '--all', '--root', '--wd=/', ...command];
    return run('nsenter', args, { cwd: '/' }).then(
      ({ stdout }) => stdout.trim(),
      (error: { stdout: string; stderr: string }) => `${error.stdout}${error.stderr}`.trim(),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.powerOff();
    for (const at of [this.root, join(this.#dir, 'layer')]) await run('umount', ['--lazy', at]).catch(() => {});
  }
}

const version = () => machine.say('skerry-agent', 'version');
const unit = async () =>
  Object.fromEntries(
    (await machine.say('systemctl', 'show', 'skerry-agent', '-p', 'ActiveState,MainPID,NRestarts,StatusText'))
      .split('\n')
      .map((line) => line.split('=', 2)),
  ) as Record<'ActiveState' | 'MainPID' | 'NRestarts' | 'StatusText', string>;
const identity = () => JSON.parse(readFileSync(join(machine.root, 'var/lib/skerry-agent/identity.json'), 'utf8'));
const untilActive = () =>
  waitFor(async () => (await unit()).ActiveState === 'active' || undefined, { what: 'the unit to be active' });

test.runIf(process.env.SKERRY_NIGHTLY)(
  'on a Debian with systemd the package is installed, upgraded, downgraded, removed and purged',
  async () => {
    await machine.say('dpkg', '-i', '/0.1.0.deb');
    await untilActive();
    expect(await version()).toBe('skerry-agent 0.1.0');
    expect((await unit()).StatusText).toBe('Running');
    const { instance } = identity();

    // One that hangs is started again; the real limit is two minutes.
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
    await machine.say('dpkg', '-i', '/0.2.0.deb');
    await untilActive();
    expect(await version()).toBe('skerry-agent 0.2.0');
    await machine.say('dpkg', '-i', '/0.1.0.deb');
    await untilActive();
    expect(await version()).toBe('skerry-agent 0.1.0');
    expect(identity().instance).toBe(instance);

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
    expect(await machine.say('dpkg', '--list', 'skerry-agent')).toContain('no packages found');
  },
  300_000,
);
