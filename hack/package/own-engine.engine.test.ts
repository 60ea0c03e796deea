import { copyFileSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { AGENT_VERSION } from '../../agent/src/domain/names.ts';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { bundle } from '../build.ts';
import { debianRoot } from '../debian.ts';
import { saveImage } from '../image.ts';
import { Machine } from '../machine.ts';
import { ROOT } from '../paths.ts';
import { sampleImage } from '../sample.ts';
import { waitFor } from '../wait.ts';
import { layOut, makeDebianPackage } from './agent.ts';

/**
 * The agent's own engine on a fresh Debian with systemd, without docker, podman and network: it needs root, mmdebstrap and minutes, and so runs with
 * `make nightly` only.
 */
const VERSIONS = ['0.1.0', '0.2.0'] as const;
const IMAGE = 'example.com/shop/web:1';
const MANIFEST = `apiVersion: agent.skerry.dev/v1
kind: Microservice
metadata: { name: web }
spec:
  image: ${IMAGE}
  container:
    ports: [{ internal: 8080, external: 8081 }]
    volumes: [{ type: volume, hostDestination: data, containerDestination: /data, accessMode: rw }]
`;
const dir = temporaryFolder();
let base: string;
let machine: Machine;

beforeAll(async () => {
  if (!process.env.SKERRY_NIGHTLY) return;
  base = await debianRoot((text) => process.stderr.write(`${text}\n`));
  const [agent, launcher] = [await bundle('skerry-agent', dir), await bundle('skerry-agent-launcher', dir)];
  for (const version of VERSIONS) {
    const program = join(dir, version);
    writeFileSync(program, readFileSync(agent.path, 'utf8').replaceAll(`"${AGENT_VERSION}"`, `"${version}"`));
    const node = join(ROOT, 'node_modules/node/bin/node');
    const origin = { version, revision: 'test', created: new Date(0) };
    layOut(
      join(dir, 'tree'),
      { agent: program, launcher: launcher.path, node, notice: '', billOfMaterials: '{}' },
      origin,
    );
    const to = join(dir, `${version}.deb`);
    await makeDebianPackage(join(dir, 'tree'), 'amd64', origin, { to, compression: ['-Zgzip', '-z1'] });
  }
}, 900_000);

/** Starts a machine without a network that has engines and the packages of the agent. */
async function newMachine(...engines: Parameters<Machine['installEngine']>[0][]): Promise<void> {
  machine = await Machine.create({ base, controllers: true });
  onTestFinished(() => machine[Symbol.asyncDispose]());
  for (const version of VERSIONS) copyFileSync(join(dir, `${version}.deb`), join(machine.root, `${version}.deb`));
  machine.write('root/web.tar', saveImage(await sampleImage(), IMAGE));
  machine.write('root/web.yaml', MANIFEST);
  for (const engine of engines) expect(await machine.installEngine(engine)).toMatchObject({ code: 0 });
  await machine.boot();
}

const said = async (...command: string[]) => {
  const result = await machine.say(...command);
  expect(result, `${command.join(' ')}: ${result.out.slice(-2000)}`).toMatchObject({ code: 0 });
  return result.out;
};
const until = (what: string, holds: () => Promise<boolean>) => waitFor(holds, { what, timeoutMs: 120_000 });
const runs = async () => /web +RUNNING/.test((await machine.say('skerry-agent', 'ms', 'ls')).out);
const answers = async () => (await machine.say('curl', '-sf', '-m', '2', 'http://127.0.0.1:8081')).code === 0;
/** The id and start of the first process of the container. */
const program = async () => (await machine.sh('p=$(pgrep -o -x sample); echo $p $(stat -c %Y /proc/$p)')).out;
/** What an engine leaves on a machine, in words of its own. */
const traces = async () =>
  (
    await machine.sh(
      [
        'cut -d " " -f 5 /proc/self/mountinfo | grep "skerry-containerd/"',
        'ls -d /sys/class/net/skerry0 /var/lib/cni /run/containerd /sys/fs/cgroup/skerry0.slice',
        'iptables-save | grep -E "CNI|skerry0|10\\.187\\."',
        'ps -eo args | grep -E "^[^ ]*(containerd|sample|pause)"',
        'systemctl list-units --plain --no-legend "skerry*" "cri-*"',
        'find /var/lib/cni',
        'true',
      ].join('; '),
    )
  ).out
    .split('\n')
    .filter((line) => line !== '' && !line.includes('No such file'));

test.runIf(process.env.SKERRY_NIGHTLY)(
  'a machine without an engine and without a network runs containers on the engine of the agent, which outlive agent and engine, and a removal leaves nothing',
  async () => {
    await newMachine('embedded');
    const before = await machine.files();
    const clean = await traces();
    await said('dpkg', '-i', '/0.1.0.deb');
    await machine.untilActive();
    await until('the agent to have its engine', async () =>
      /Engine: +embedded 1\.6/.test((await machine.say('skerry-agent', 'status')).out),
    );
    await said('skerry-agent', 'image', 'load', '-f', '/root/web.tar');
    await said('skerry-agent', 'deploy', '-f', '/root/web.yaml');
    await until('the microservice to run', runs);
    await until('it to answer', answers);

    const first = await program();
    await said('systemctl', 'restart', 'skerry-agent');
    await said('systemctl', 'restart', 'skerry-containerd');
    await said('systemctl', 'kill', '--kill-whom=main', '--signal=SIGKILL', 'skerry-containerd');
    await said('dpkg', '-i', '/0.2.0.deb');
    await machine.untilActive();
    await until('the microservice to run', runs);
    expect(await program()).toBe(first);
    expect(await answers()).toBe(true);

    // Another engine beside it changes nothing, until the settings name it.
    await machine.sh('mkdir -p /run/podman && python3 -c 0; touch /run/docker.sock /var/run/docker.sock');
    await said('systemctl', 'restart', 'skerry-agent');
    await until('the microservice to run', runs);
    expect(await program()).toBe(first);
    expect(await said('skerry-agent', 'config', 'containerEngine=docker')).toMatch(/[Rr]estart/);
    await said('skerry-agent', 'config', 'containerEngine=embedded');
    await machine.sh('rm -rf /run/podman /run/docker.sock');

    await machine.powerOff();
    await machine.boot();
    await machine.untilActive();
    await until('the microservice to be back', async () => (await runs()) && (await answers()));

    await said('dpkg', '--remove', 'skerry-agent');
    expect(await traces()).toEqual(clean);
    expect(readdirSync(join(machine.root, 'var/lib/skerry-containerd'))).not.toEqual([]);
    await said('dpkg', '-i', '/0.1.0.deb');
    await until('the microservice to be back', async () => (await runs()) && (await answers()));

    await said('dpkg', '--purge', 'skerry-agent');
    expect(await traces()).toEqual(clean);
    // It is a file system of its own here.
    expect(readdirSync(join(machine.root, 'var/lib/skerry-containerd'))).toEqual([]);
    const ours = (await machine.files()).filter(
      (path) => !before.includes(path) && !path.startsWith('./var/lib/skerry-agent/volumes'),
    );
    expect(ours.filter((path) => path !== './var/lib/skerry-agent')).toEqual([]);
  },
  900_000,
);

test.runIf(process.env.SKERRY_NIGHTLY)(
  'a machine goes from docker to the engine of the agent, cold, with its volumes; docker, its containerd and what others run there stay as they are',
  async () => {
    await newMachine('docker', 'embedded');
    const engineIs = (pattern: RegExp) =>
      until(`the engine ${pattern}`, async () => pattern.test((await machine.say('skerry-agent', 'status')).out));
    /** What others have: a container of docker, one in the default namespace of docker's containerd, and the processes of both. */
    const others = async () =>
      (
        await machine.sh(
          [
            "docker inspect --format '{{.State.Pid}} {{.State.StartedAt}} {{.RestartCount}}' foreign",
            'ctr --namespace default tasks list',
            'ctr --namespace default images list --quiet',
            'systemctl show --property MainPID docker containerd',
            'docker network ls --quiet --filter name=bridge',
          ].join('; '),
        )
      ).out;
    await said('docker', 'load', '-i', '/root/web.tar');
    await said('docker', 'run', '--detach', '--name', 'foreign', IMAGE);
    await said('ctr', '--namespace', 'default', 'images', 'import', '--snapshotter', 'native', '/root/web.tar');
    await said('ctr', '--namespace', 'default', 'run', '--snapshotter', 'native', '--detach', IMAGE, 'foreign');
    const before = await others();
    expect(before).toMatch(/foreign +\d+ +RUNNING/);

    await said('dpkg', '-i', '/0.1.0.deb');
    await machine.untilActive();
    await engineIs(/Engine: +docker/);
    await said('skerry-agent', 'image', 'load', '-f', '/root/web.tar');
    await said('skerry-agent', 'deploy', '-f', '/root/web.yaml');
    await until('it to answer', answers);
    const [claim] = JSON.parse(await said('skerry-agent', 'volume', 'ls', '-o', 'json')).volumes;
    machine.write(join(claim.hostPath, 'file'), 'of docker');
    const first = await program();

    const changed = await said('skerry-agent', 'config', 'containerEngine=embedded', '-o', 'json');
    expect(JSON.parse(changed)).toMatchObject({ pendingRestart: true });
    await engineIs(/Engine: +docker/);
    expect(await program()).toBe(first);

    await said('systemctl', 'restart', 'skerry-agent');
    await machine.untilActive();
    await engineIs(/Engine: +embedded/);
    await until('docker to have none of the agent', async () => {
      const { out } = await machine.say('docker', 'ps', '--all', '--format', '{{.Names}}');
      return out === 'foreign';
    });
    await said('skerry-agent', 'image', 'load', '-f', '/root/web.tar');
    await until('the microservice to run', runs);
    await until('it to answer', answers);
    expect(await said('cat', join(claim.hostPath, 'file'))).toBe('of docker');
    expect(await others()).toBe(before);

    await said('skerry-agent', 'prune', 'all');
    await said('skerry-agent', 'ms', 'rm', 'web');
    await said('dpkg', '--purge', 'skerry-agent');
    expect(await others()).toBe(before);
  },
  900_000,
);
