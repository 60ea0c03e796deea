import { afterAll, describe, expect, test } from 'vitest';
import { TestHub } from '../agent/src/content/artifacts/_hub.ts';
import { freePort } from '../hack/ports.ts';
import { createStack, get, until, untilReady } from './_stack.ts';

/** What containers get besides their image, through controller and agent: secrets, config maps, models, templates. */

const stack = await createStack();
const controller = await stack.startController();
await stack.startAgent('gw-1', controller);
const rest = stack.rest(controller);
const hub = await TestHub.start();
afterAll(async () => {
  await hub[Symbol.asyncDispose]();
}, 60_000);

async function call(method: string, path: string, body: unknown, status: number) {
  const reply = await rest(method, path, body);
  expect(reply.status, JSON.stringify(reply.body)).toBe(status);
  return reply.body;
}

/** An application of one microservice over REST; resolves with its uuid when it runs. */
async function run(name: string, port: number, more: object): Promise<string> {
  const images = [{ containerImage: await stack.image(name), archId: 1 }];
  const ports = [{ internal: 8080, external: port }];
  await call(
    'POST',
    '/application',
    { name, microservices: [{ name: 'web', agentName: 'gw-1', images, ports, ...more }] },
    201,
  );
  return (await untilReady(stack, name, 120_000)).status?.microservices?.[0]?.uuid ?? '';
}

const file = (port: number, path: string) => get(`http://127.0.0.1:${port}/file?path=${path}`);
const env = async (port: number) => JSON.parse((await get(`http://127.0.0.1:${port}/env`)) ?? '{}');
const containerOf = async (uuid: string) =>
  (await stack.containers()).find(({ name, state }) => state === 'running' && name.includes(uuid))?.id;

describe('a change of a secret', () => {
  test('reaches the directory of a running container, and replaces a container that has one key of it or an env of it', async () => {
    await call('POST', '/secrets', { name: 'db', type: 'Opaque', data: { pass: 'one', 'conf/site': 'a' } }, 201);
    await call('POST', '/volumeMounts', { name: 'db-mount', secretName: 'db' }, 200);
    const mapping = (hostDestination: string, containerDestination: string) => ({
      volumeMappings: [{ type: 'volumeMount', hostDestination, containerDestination, accessMode: 'ro' }],
    });
    const [folder, key, variable] = [await freePort(), await freePort(), await freePort()];
    const uuids = {
      folder: await run('folder', folder, mapping('db-mount', '/etc/db')),
      key: await run('one-key', key, mapping('db-mount/pass', '/etc/pass')),
      variable: await run('variable', variable, { env: [{ key: 'PASS', valueFromSecret: 'db/pass' }] }),
    };
    expect(await file(folder, '/etc/db/pass')).toBe('one');
    expect(await file(folder, '/etc/db/conf/site')).toBe('a');
    expect(await file(key, '/etc/pass')).toBe('one');
    expect(await env(variable)).toMatchObject({ PASS: 'one' });
    const before = await Promise.all(Object.values(uuids).map(containerOf));

    await call('PATCH', '/secrets/db', { data: { pass: 'two', 'conf/site': 'b' } }, 200);
    await until('the file in the running container', async () => (await file(folder, '/etc/db/pass')) === 'two');
    expect(await file(folder, '/etc/db/conf/site')).toBe('b');
    await until('the container with one key', async () => (await file(key, '/etc/pass')) === 'two');
    await until('the container with the variable', async () => (await env(variable)).PASS === 'two');
    for (const name of ['folder', 'one-key', 'variable']) await untilReady(stack, name);
    const after = await Promise.all(Object.values(uuids).map(containerOf));
    expect(after.map((id, index) => id === before[index])).toEqual([true, false, false]);

    const refused = await call('DELETE', '/secrets/db', undefined, 409);
    expect(refused.message).toMatch(/folder\/web|one-key\/web|variable\/web/);
    for (const name of ['folder', 'one-key', 'variable']) await call('DELETE', `/application/${name}`, undefined, 204);
  });
});

describe('a model', () => {
  test('arrives, is bound, and gets a new revision in the running container', async () => {
    hub.commit('models/team/tiny', { 'version.txt': 'one' }, 'main');
    const { id: registryId } = await call('POST', '/registries', { url: hub.url, type: 'hub', insecure: true }, 201);
    const model = { name: 'tiny', repo: 'team/tiny', registryId, files: ['*.txt'], revision: 'main' };
    await call('POST', '/models', model, 200);
    const port = await freePort();
    const models = { bindPath: '/models', items: [{ name: 'tiny' }] };
    const uuid = await run('with-model', port, { models });
    expect(await file(port, '/models/tiny/version.txt')).toBe('one');
    await until('the count of nodes', async () => {
      const node = (await rest('GET', `/node/${(await stack.node('gw-1'))?.status?.uuid}`)).body;
      return JSON.parse(node.modelStatus)[0]?.state === 'Ready';
    });
    const before = await containerOf(uuid);

    hub.commit('models/team/tiny', { 'version.txt': 'two' }, 'v2');
    await call('PATCH', '/models/tiny', { revision: 'v2' }, 200);
    await until('the new revision', async () => (await file(port, '/models/tiny/version.txt')) === 'two');
    expect(await containerOf(uuid)).toBe(before);
    expect((await rest('DELETE', '/models/tiny')).status).toBe(409);
    await call('DELETE', '/application/with-model', undefined, 204);
    await call('DELETE', '/models/tiny', undefined, 202);
  });
});

describe('a template', () => {
  test('makes three applications that run with different variables', async () => {
    const image = await stack.image('line');
    await call(
      'POST',
      '/applicationTemplate',
      {
        name: 'line',
        variables: [{ key: 'port' }, { key: 'level', defaultValue: 'warn' }],
        application: {
          microservices: [
            {
              name: 'web',
              agentName: 'gw-1',
              images: [{ containerImage: image, archId: 1 }],
              ports: [{ internal: 8080, external: '{{ port }}' }],
              env: [{ key: 'LEVEL', value: '{{ level }}' }],
            },
          ],
        },
      },
      201,
    );
    const ports = [await freePort(), await freePort(), await freePort()];
    const levels = ['info', 'debug', undefined];
    for (const [index, port] of ports.entries()) {
      const level = levels[index];
      const variables = [{ key: 'port', value: port }, ...(level ? [{ key: 'level', value: level }] : [])];
      await call('POST', '/application', { name: `line-${index}`, template: { name: 'line', variables } }, 201);
    }
    for (const index of ports.keys()) await untilReady(stack, `line-${index}`);
    expect(await Promise.all(ports.map(async (port) => (await env(port)).LEVEL))).toEqual(['info', 'debug', 'warn']);

    const over = await freePort();
    await stack.apply({
      apiVersion: 'skerry.dev/v3',
      kind: 'Application',
      metadata: { name: 'line-kubectl' },
      spec: { template: { name: 'line', variables: { port: over, level: 'trace' } } },
    });
    await untilReady(stack, 'line-kubectl');
    expect((await env(over)).LEVEL).toBe('trace');
    for (const index of ports.keys()) await call('DELETE', `/application/line-${index}`, undefined, 204);
    await stack.remove('applications', 'line-kubectl');
  });
});
