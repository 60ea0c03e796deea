import { randomUUID } from 'node:crypto';
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, inject, onTestFinished, test } from 'vitest';
import { pushImage } from '../../../hack/image.ts';
import { freePort } from '../../../hack/ports.ts';
import { sampleImage } from '../../../hack/sample.ts';
import type {} from '../../../hack/testing/provided.ts';
import { Home } from '../_home.ts';
import { until } from '../engines/_contract.ts';
import { firstEngine } from '../engines/_outside.ts';
import { FakeController, type View } from '../link/_fake-controller.ts';

/** The policy file of a machine, read by the agent as a process, with a real engine. */

const engineUrl = firstEngine().url;
const home = new Home({ engineUrl });
const at = (path: string) => join(home.folder, path);

let controller: FakeController;
let image: string;

beforeAll(async () => {
  ({ reference: image } = await pushImage(inject('registryUrl'), 'policy/sample', '1', await sampleImage()));
  controller = await new FakeController().listen();
  for (const path of ['srv/data', 'run']) mkdirSync(at(path), { recursive: true });
  writeFileSync(
    at('policy.yaml'),
    // The registry of the test lies on the machine itself, which without the host's network has to be named.
    `privileged: false\nhostNetwork: false\nregistries: ["${image.split('/')[0]}"]\nbindPrefixes: [${home.folder}, /run, /var/run, /proc]\n`,
  );
  await home.up();
  expect(await home.cli('provision', controller.joinString)).toMatchObject({ code: 0 });
});

afterAll(async () => {
  await home.remove();
  await controller.close();
});

const bind = (hostDestination: string) => ({
  hostDestination,
  containerDestination: '/mnt/x',
  accessMode: 'rw' as const,
  type: 'bind' as const,
  scope: 'private' as const,
});

function view(name: string, change: Partial<View> = {}): View {
  return { uuid: randomUUID(), name, application: 'shop', imageId: image, registryId: 1, revision: 'r1', ...change };
}

/** Waits until the controller has received a state and a reason. */
const reported = (uuid: string, state: string, reason?: string) =>
  until(`${state} ${reason ?? ''}: ${JSON.stringify(controller.microservice(uuid))}`, () => {
    const status = controller.microservice(uuid);
    return status?.status === state && status.reason === reason && status;
  });

/** Writes another policy and makes the agent read it. */
async function becomes(policy: string | undefined): Promise<void> {
  if (policy === undefined) rmSync(at('policy.yaml'));
  else writeFileSync(at('policy.yaml'), policy);
  home.log = '';
  home.process?.kill('SIGHUP');
  await until('the agent to read it', () => /Read the settings again|not taken/.test(home.log));
}

test('a microservice that the policy refuses never starts and has the reason, and the others run', async () => {
  const socket = engineUrl.replace('unix://', '');
  symlinkSync(socket, at('srv/link'));
  const refused = [
    view('privileged', { isPrivileged: true }),
    view('elsewhere', { volumeMappings: [bind('/etc')] }),
    view('socket', { volumeMappings: [bind(socket)] }),
    view('socket-by-link', { volumeMappings: [bind(at('srv/link'))] }),
    view('socket-by-dots', { volumeMappings: [bind(`${at('srv')}/../..${socket.replace('/', '/../../../../')}`)] }),
    view('socket-by-process', { volumeMappings: [bind(`/proc/1/root${socket}`)] }),
    view('identity', { volumeMappings: [bind(at('data'))] }),
    view('above', { volumeMappings: [bind(home.folder)] }),
  ];
  const fine = view('fine', { volumeMappings: [bind(at('srv/data'))] });
  controller.change({ microservices: [...refused, fine] });
  await reported(fine.uuid, 'RUNNING');
  for (const { uuid, name } of refused) {
    const { errorMessage } = await reported(uuid, 'FAILED', 'PolicyRefused');
    expect(errorMessage, name).toMatch(/may not be bound|the machine/);
  }
  expect((await home.containers()).map(({ uuid }) => uuid)).toEqual([fine.uuid]);
});

test('another policy takes effect at SIGHUP, and a refused container is stopped only with stopRefused', async () => {
  const external = await freePort();
  const web = view('web', {
    volumeMappings: [bind(at('srv/data'))],
    portMappings: [{ internal: 8080, external, protocol: 'tcp' }],
  });
  const commands = ['-address', `127.0.0.1:${await freePort()}`];
  const onHost = view('on-host', { hostNetworkMode: true, commands });
  controller.change({ microservices: [web, onHost] });
  await reported(onHost.uuid, 'FAILED', 'PolicyRefused');
  const { containerId } = await reported(web.uuid, 'RUNNING');

  await becomes('bindPrefixes: [/nowhere]\n');
  expect(await reported(web.uuid, 'RUNNING', 'PolicyRefused')).toMatchObject({ containerId });
  // A microservice that only the former policy refused starts.
  await reported(onHost.uuid, 'RUNNING');
  expect((await fetch(`http://127.0.0.1:${external}/healthz`)).ok).toBe(true);

  // A policy that cannot be read changes nothing, and does not end the agent.
  await becomes('bindPrefixes: nothing\n');
  expect(home.log).toContain('policy.yaml: bindPrefixes');
  await until('the warning', () =>
    /policy: .*bindPrefixes.*the former rules stay/.test(controller.said.warningMessage ?? ''),
  );
  expect(controller.microservice(web.uuid)).toMatchObject({ status: 'RUNNING', reason: 'PolicyRefused' });

  await becomes('bindPrefixes: [/nowhere]\nstopRefused: true\n');
  await reported(web.uuid, 'FAILED', 'PolicyRefused');
  await reported(onHost.uuid, 'RUNNING');

  await becomes(undefined);
  expect(await reported(web.uuid, 'RUNNING')).toMatchObject({ containerId });
});

test('a second agent on the same data directory does not start, and its error names the process of the first', async () => {
  const other = new Home({ engineUrl, disk: home.disk });
  onTestFinished(() => rmSync(other.folder, { recursive: true }));
  other.start();
  await other.gone();
  expect(other.process?.exitCode).toBeGreaterThan(0);
  const words = `another agent (process ${home.process?.pid}) works with ${home.disk}`;
  await until('its error', () => other.log.includes(words));
});

test('an agent with an invalid policy starts, allows only what its valid rules allow, and reports a warning', async () => {
  const plain = view('plain');
  const privileged = view('privileged', { isPrivileged: true });
  controller.change({ microservices: [plain] });
  await reported(plain.uuid, 'RUNNING');
  const host = image.slice(0, image.indexOf('/'));
  writeFileSync(at('policy.yaml'), `registries: ["${host}"]\nbindPrefixes: nothing\n`);
  await home.end('SIGKILL');
  home.start();
  controller.change({ microservices: [plain, privileged] });
  await until('the warning', () => /policy: .*bindPrefixes/.test(controller.said.warningMessage ?? ''), 60_000);
  expect((await reported(privileged.uuid, 'FAILED', 'PolicyRefused')).errorMessage).toContain('privileged');
  await reported(plain.uuid, 'RUNNING');
  await becomes(undefined);
  await until('no warning', () => controller.said.daemonStatus === 'RUNNING');
});

test('the path of a bind is checked again when its container is started again', async () => {
  mkdirSync(at('srv/mine'));
  const web = view('turncoat', { volumeMappings: [bind(at('srv/mine'))] });
  controller.change({ microservices: [web] });
  await reported(web.uuid, 'RUNNING');
  expect(await home.cli('ms', 'stop', 'turncoat')).toMatchObject({ code: 0 });
  rmSync(at('srv/mine'), { recursive: true });
  symlinkSync(at('run'), at('srv/mine'));
  // The command waits for RUNNING, which is never reached.
  const starting = home.cli('ms', 'start', 'turncoat');
  expect((await reported(web.uuid, 'FAILED', 'PolicyRefused')).errorMessage).toContain('srv/mine may not be bound');
  await starting;
});
