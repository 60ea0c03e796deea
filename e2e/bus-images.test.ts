import { readFileSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';
import type { Logger } from 'pino';
import { expect, inject, test } from 'vitest';
import { callEngine } from '../hack/engine-api.ts';
import { buildImage, buildIndex, pushImage } from '../hack/image.ts';
import { freePort } from '../hack/ports.ts';
import { programFiles } from '../hack/shell-image.ts';
import { buildTool } from '../hack/tool.ts';
import { API_VERSION } from '../src/api/names.ts';
import { createApp } from '../src/app.ts';
import { silentLog } from '../src/lib/log.ts';
import { atEnd } from '../testing/at-end.ts';
import { testConfig } from '../testing/test-config.ts';
import { connectAs } from './_bus.ts';
import { type ControllerProcess, createStack, until } from './_stack.ts';

const UID = 10_000;

/** An image with `nats-server` in its path that does what `_fetching-bus.ts` says, with what images of v3 have: curl, a user, its folders. */
async function fetchingImage(localApiPort: number) {
  const { outputFiles } = await build({
    entryPoints: [join(import.meta.dirname, '_fetching-bus.ts')],
    ...{ bundle: true, platform: 'node', format: 'cjs', target: 'node24', write: false },
    banner: { js: '#!/bin/node' },
  });
  const server = await buildTool('nats', 'github.com/nats-io/nats-server/v2');
  const own = { uid: UID, gid: UID };
  const files = [
    ...programFiles({ node: realpathSync(process.execPath), sh: '/bin/sh', curl: '/usr/bin/curl' }),
    { path: '/bin/nats-server', content: outputFiles[0]?.contents ?? '', mode: 0o755 },
    { path: '/usr/libexec/nats-server', content: readFileSync(server), mode: 0o755 },
    { path: '/etc/nsswitch.conf', content: 'hosts: files dns\n' },
    ...['/home/runner', '/home/runner/data', '/home/runner/nats', '/home/runner/run'].map((path) => ({ path, ...own })),
    { path: '/tmp', mode: 0o777 },
  ];
  const env = { PATH: '/bin', LOCAL_API_PORT: `${localApiPort}` };
  return buildIndex([buildImage({ user: `${UID}:${UID}`, entrypoint: ['/bin/nats-server'], env, files })]);
}

interface Line {
  status?: number;
  config?: object;
  copied?: number;
  started?: number;
  uid?: number;
}

interface ContainerState {
  State: { Health: { Status: string } };
}

test('an image that starts, feeds and restarts its server itself, not as root, has a server that is ready, lets users in and refuses them', async () => {
  const stack = await createStack();
  const registryUrl = inject('registryUrl');
  const repository = `${stack.namespace}/fetching`;
  const image = `${new URL(registryUrl).host}/${repository}:bus`;
  const config = testConfig(stack.controllerKubeconfig, stack.namespace, {
    ...{ BUS_ENABLED: 'true', BUS_IMAGE_1: image, BUS_IMAGE_2: image },
  });
  const app = await createApp(config, { log: silentLog as unknown as Logger });
  atEnd(() => app[Symbol.asyncDispose]());
  await app.start();
  const controller = { url: `http://127.0.0.1:${app.addresses.rest}` } as ControllerProcess;
  await until('the controller to be ready', async () => (await fetch(`${controller.url}/api/v3/status`)).ok);
  const agent = await stack.startAgent('own-1', controller);
  await pushImage(registryUrl, repository, 'bus', await fetchingImage(agent.port));
  const path = `/apis/${API_VERSION}/namespaces/${stack.namespace}/edgenodes/own-1`;
  const port = await freePort();
  const ports = { busServerPort: port, busMqttPort: await freePort(), busLeafPort: await freePort() };
  const spec = { busMode: 'server', ...ports, jsStorageSize: '64m', jsMemoryStoreSize: '64m' };
  await stack.kube.request('PATCH', path, { spec }, 'application/merge-patch+json');
  const isReady = (what: string) =>
    until(
      what,
      async () => {
        const { conditions = [] } = (await stack.node('own-1'))?.status ?? {};
        const { status, reason, message } = conditions.find(({ type }) => type === 'BusReady') ?? {};
        if (status !== 'True') throw new Error(`${reason}: ${message}`);
        return true;
      },
      { timeoutMs: 120_000 },
    );
  await isReady('the bus server');
  const id = (await stack.containers()).find(({ image: of }) => of.endsWith(`${repository}:bus`))?.id;
  const lines = async (): Promise<Line[]> => {
    const text = String(await callEngine(inject('engineUrl'), 'GET', `/containers/${id}/logs?stdout=true`));
    return [...text.matchAll(/\{.*\}$/gm)].map(([line]) => JSON.parse(line));
  };
  const stateOf = async () =>
    (await callEngine<ContainerState>(inject('engineUrl'), 'GET', `/containers/${id}/json`)).State;
  // All that v3 has for a bus server is in files: its own configuration is empty.
  expect(await lines()).toEqual(
    expect.arrayContaining([{ copied: 0 }, { started: expect.any(Number), uid: UID }, { status: 200, config: {} }]),
  );

  const rest = stack.rest(controller);
  const application = { name: 'plant', busConfig: { busAccess: true }, microservices: [] };
  expect((await rest('POST', '/application', application)).status).toBe(201);
  const users = '/bus/accounts/plant/users';
  await until('a user', async () => (await rest('POST', users, { name: 'laptop' })).status === 201);
  const { body } = await rest('GET', `${users}/laptop/creds`);
  const creds = Buffer.from((body as { credsBase64: string }).credsBase64, 'base64').toString();
  const isLetIn = () =>
    connectAs(creds, `nats://127.0.0.1:${port}`).then(
      async (client) => {
        await client.close();
        return true;
      },
      () => false,
    );
  await until('the user to be let in', isLetIn);
  await isReady('the server to have the token of the account');
  expect((await rest('DELETE', `${users}/laptop`)).status).toBe(204);
  await until('the user to be refused', async () => !(await isLetIn()));
  await isReady('the server to have the revocation');
  expect(await isLetIn()).toBe(false);
  const starts = async () => (await lines()).filter(({ started }) => started !== undefined).length;
  await until('the server to have been started again for its changed files', async () => (await starts()) > 1);
  await isReady('the server after its start');
  expect(await isLetIn()).toBe(false);
  await until('the health check', async () => (await stateOf()).Health.Status === 'healthy', { timeoutMs: 90_000 });
  expect((await stack.containers()).filter(({ image: of }) => of.endsWith(`${repository}:bus`))).toMatchObject([
    { id },
  ]);
}, 240_000);
