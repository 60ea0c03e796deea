import { readFileSync } from 'node:fs';
import { expect, inject, test } from 'vitest';
import { callEngine } from '../hack/engine-api.ts';
import { freePort } from '../hack/ports.ts';
import { buildTool } from '../hack/tool.ts';
import { connectAs } from './_bus.ts';
import { startFetchingNode } from './_fetching.ts';
import { until } from './_stack.ts';

const UID = 10_000;

/** A node whose image has `nats-server` in its path, which does what `_fetching-bus.ts` says, and what images of v3 have: curl, a user, its folders. */
async function startNode() {
  const server = await buildTool('nats', 'github.com/nats-io/nats-server/v2');
  const own = { uid: UID, gid: UID };
  const folders = ['/home/runner', '/home/runner/data', '/home/runner/nats', '/home/runner/run'];
  return startFetchingNode({
    tag: 'bus',
    settings: (image) => ({ BUS_ENABLED: 'true', BUS_IMAGE_1: image, BUS_IMAGE_2: image }),
    ...{ source: '_fetching-bus.ts', program: '/bin/nats-server' },
    programs: { sh: '/bin/sh', curl: '/usr/bin/curl' },
    more: {
      ...{ user: `${UID}:${UID}`, entrypoint: ['/bin/nats-server'] },
      files: [
        { path: '/usr/libexec/nats-server', content: readFileSync(server), mode: 0o755 },
        ...folders.map((path) => ({ path, ...own })),
        { path: '/tmp', mode: 0o777 },
      ],
    },
  });
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
  const { stack, controller, node, set, containers, lines } = await startNode();
  const port = await freePort();
  const ports = { busServerPort: port, busMqttPort: await freePort(), busLeafPort: await freePort() };
  await set({ busMode: 'server', ...ports, jsStorageSize: '64m', jsMemoryStoreSize: '64m' });
  const isReady = (what: string) =>
    until(
      what,
      async () => {
        const { conditions = [] } = (await stack.node(node))?.status ?? {};
        const { status, reason, message } = conditions.find(({ type }) => type === 'BusReady') ?? {};
        if (status !== 'True') throw new Error(`${reason}: ${message}`);
        return true;
      },
      { timeoutMs: 120_000 },
    );
  await isReady('the bus server');
  const id = (await containers())[0]?.id;
  const said = () => lines<Line>(id);
  const stateOf = async () =>
    (await callEngine<ContainerState>(inject('engineUrl'), 'GET', `/containers/${id}/json`)).State;
  // All that v3 has for a bus server is in files: its own configuration is empty.
  expect(await said()).toEqual(
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
  const starts = async () => (await said()).filter(({ started }) => started !== undefined).length;
  await until('the server to have been started again for its changed files', async () => (await starts()) > 1);
  await isReady('the server after its start');
  expect(await isLetIn()).toBe(false);
  await until('the health check', async () => (await stateOf()).Health.Status === 'healthy', { timeoutMs: 90_000 });
  expect(await containers()).toMatchObject([{ id }]);
}, 240_000);
