import { describe, expect, test } from 'vitest';
import { freePort } from '../hack/ports.ts';
import { API_VERSION } from '../src/api/names.ts';
import { createStack, get, readyOf, until, untilReady, untilReason } from './_stack.ts';

/** The main job, end to end: an Application is applied, and its containers run on a machine. */

const stack = await createStack();
const controller = await stack.startController();
const agent = await stack.startAgent('gw-1', controller);
const rest = stack.rest(controller);

const application = (name: string, microservices: unknown[], spec: Record<string, unknown> = {}) => ({
  apiVersion: API_VERSION,
  kind: 'Application',
  metadata: { name },
  spec: { ...spec, microservices },
});
const web = (image: string, port: number, more: Record<string, unknown> = {}) => ({
  name: 'web',
  agent: { name: 'gw-1' },
  images: { amd64: image, arm64: image },
  container: { ports: [{ internal: 8080, external: port }], ...(more.container as object) },
  ...Object.fromEntries(Object.entries(more).filter(([key]) => key !== 'container')),
});
/** The running container of the microservice, whatever stopped ones remain. */
const containerOf = async (name: string) => {
  const uuid = (await stack.application(name))?.status?.microservices?.[0]?.uuid;
  return (await stack.containers()).find(
    (one) => uuid !== undefined && one.state === 'running' && one.name.includes(uuid),
  );
};

describe('kubectl apply', () => {
  test('starts the container and the status shows it, and an edit replaces the container', async () => {
    const port = await freePort();
    await stack.apply(application('apply', [web(await stack.image('v1', { GREETING: 'one' }), port)]));
    const ready = await untilReady(stack, 'apply');
    expect(await get(`http://127.0.0.1:${port}/`)).toBe('one\n');
    expect(ready.status).toMatchObject({ ready: '1/1', observedGeneration: ready.metadata.generation });
    expect(ready.status?.microservices).toMatchObject([{ name: 'web', node: 'gw-1', state: 'RUNNING', ready: true }]);

    await stack.apply(application('apply', [web(await stack.image('v2', { GREETING: 'two' }), port)]));
    await until('the new image to answer', async () => (await get(`http://127.0.0.1:${port}/`)) === 'two\n');
    await untilReady(stack, 'apply');
    await stack.remove('applications', 'apply');
  });

  test('leaves the old container running when the image cannot be pulled, and the status has the reason', async () => {
    const port = await freePort();
    const image = await stack.image('stays', { GREETING: 'stays' });
    await stack.apply(application('bad-pull', [web(image, port)]));
    await untilReady(stack, 'bad-pull');
    const before = await containerOf('bad-pull');

    await stack.apply(application('bad-pull', [web(image.replace(':stays', ':no-such-tag'), port)]));
    const failed = await until('the failed pull to be told', async () => {
      const current = await stack.application('bad-pull');
      return readyOf(current)?.status === 'False' &&
        current?.status?.microservices?.[0]?.message?.match(/no-such-tag|pull/i)
        ? current
        : undefined;
    });
    expect(failed.status?.ready).toBe('0/1');
    expect(await get(`http://127.0.0.1:${port}/`)).toBe('stays\n');
    expect((await containerOf('bad-pull'))?.id).toBe(before?.id);
    await stack.remove('applications', 'bad-pull');
  });

  test('leaves the container running when the edit is refused, and the status has the reason', async () => {
    const port = await freePort();
    const image = await stack.image('held', { GREETING: 'held' });
    await stack.apply(application('refused', [web(image, port)]));
    await untilReady(stack, 'refused');
    const before = await containerOf('refused');

    await stack.apply(
      application('refused', [web(image, port, { images: { amd64: image, arm64: image, registry: 'nowhere' } })]),
    );
    await untilReason(stack, 'refused', 'RegistryNotFound');
    expect(await get(`http://127.0.0.1:${port}/`)).toBe('held\n');
    expect((await containerOf('refused'))?.id).toBe(before?.id);
    await stack.remove('applications', 'refused');
  });

  test('moves the ports of three microservices of two Applications in a ring', async () => {
    const ports = [await freePort(), await freePort(), await freePort()];
    const greetings = ['one', 'two', 'three'];
    const images = await Promise.all(
      greetings.map((greeting) => stack.image(`ring-${greeting}`, { GREETING: greeting })),
    );
    const answers = async (given: readonly number[]) => {
      const [first, second, third] = images.map((image, at) => web(image, given[at] as number, { name: `m${at}` }));
      await stack.apply(application('ring', [first, second]));
      await stack.apply(application('ring-other', [third]));
      for (const name of ['ring', 'ring-other']) await untilReady(stack, name);
      return Promise.all(given.map((port) => get(`http://127.0.0.1:${port}/`)));
    };
    const want = greetings.map((greeting) => `${greeting}\n`);
    expect(await answers(ports)).toEqual(want);
    expect(await answers([...ports.slice(1), ports[0] as number])).toEqual(want);
    for (const name of ['ring', 'ring-other']) await stack.remove('applications', name);
  });

  test('stops the containers on deactivation and starts them again on activation, and a deletion removes them', async () => {
    const port = await freePort();
    const entry = web(await stack.image('switch'), port);
    await stack.apply(application('switch', [entry]));
    await untilReady(stack, 'switch');
    const uuid = (await stack.application('switch'))?.status?.microservices?.[0]?.uuid as string;
    const running = async () =>
      (await stack.containers()).some((one) => one.name.includes(uuid) && one.state === 'running');

    await stack.apply(application('switch', [entry], { isActivated: false }));
    await until('the container to be gone', async () => !(await running()));
    await untilReason(stack, 'switch', 'Stopped');
    await stack.apply(application('switch', [entry], { isActivated: true }));
    await until('the container to be back', running);
    await untilReady(stack, 'switch');
    await stack.remove('applications', 'switch');
    await until('the application to be gone', async () => (await stack.application('switch')) === undefined);
    expect(await running()).toBe(false);
  });

  test('sets Ready to False with NodeNotFound when the node of an application does not exist', async () => {
    await stack.apply(application('lost', [{ ...web('x:1', 1025), agent: { name: 'nowhere' } }]));
    const lost = await untilReason(stack, 'lost', 'NodeNotFound');
    expect(readyOf(lost)?.status).toBe('False');
    await stack.remove('applications', 'lost');
  });
});

describe('REST', () => {
  test('creates from flat JSON, reads, stops, starts, rebuilds and deletes', async () => {
    const port = await freePort();
    const image = await stack.image('rest', { GREETING: 'rest' });
    const node = (await stack.node('gw-1'))?.status?.uuid;
    const created = await rest('POST', '/application', {
      name: 'over-rest',
      microservices: [
        {
          name: 'web',
          nodeUuid: node,
          images: [{ containerImage: image, archId: 1 }],
          ports: [{ internal: 8080, external: port }],
          env: [{ key: 'A', value: 'b' }],
          config: '{"rate":5}',
        },
      ],
    });
    expect(created).toMatchObject({ status: 201, body: { name: 'over-rest' } });
    await untilReady(stack, 'over-rest');
    expect(JSON.parse((await get(`http://127.0.0.1:${port}/env`)) ?? '{}')).toMatchObject({ A: 'b' });

    const read = await rest('GET', '/application/over-rest');
    expect(read).toMatchObject({ status: 200, body: { name: 'over-rest', isActivated: true } });
    const { uuid } = read.body.microservices[0];
    const one = await rest('GET', `/microservices/${uuid}`);
    expect(one).toMatchObject({ status: 200, body: { uuid, name: 'web', status: { status: 'RUNNING' } } });
    const before = await containerOf('over-rest');

    expect(await rest('PATCH', `/microservices/${uuid}/rebuild`)).toMatchObject({ status: 204 });
    await until('another container', async () => {
      const now = await containerOf('over-rest');
      return now !== undefined && now.id !== before?.id;
    });
    await untilReady(stack, 'over-rest');
    const rebuilt = await containerOf('over-rest');
    await stack.annotate('applications', 'over-rest', { 'skerry.dev/rebuild': null });
    expect(await rest('PATCH', `/microservices/${uuid}/rebuild`)).toMatchObject({ status: 204 });
    await until('another container, although the annotation was dropped', async () => {
      const now = await containerOf('over-rest');
      return now !== undefined && now.id !== rebuilt?.id;
    });
    expect(await rest('PATCH', `/microservices/${uuid}/stop`)).toMatchObject({ status: 204 });
    await until('it to stop', async () => (await get(`http://127.0.0.1:${port}/`)) === undefined);
    expect(await rest('PATCH', `/microservices/${uuid}/start`)).toMatchObject({ status: 204 });
    await until('it to start', async () => (await get(`http://127.0.0.1:${port}/`)) === 'rest\n');
    expect(await rest('DELETE', '/application/over-rest')).toMatchObject({ status: 204 });
    await until('it to be gone', async () => (await rest('GET', '/application/over-rest')).status === 404);
  });

  test('accepts the YAML form of existing v3 files', async () => {
    const port = await freePort();
    const image = await stack.image('yaml', { GREETING: 'yaml' });
    const file = `apiVersion: iofog.org/v3
kind: Application
metadata: {name: uploaded}
spec:
  microservices:
    - name: reader
      agent: {name: gw-1}
      images: {x86: "${image}", arm64: "${image}", registry: remote}
      container: {ports: [{internal: 8080, external: ${port}}], env: [{key: MODE, value: fast}]}
      config: {rate: 5}
`;
    expect(await rest('POST', '/application/yaml', file)).toMatchObject({ status: 201, body: { name: 'uploaded' } });
    await untilReady(stack, 'uploaded');
    expect(await get(`http://127.0.0.1:${port}/`)).toBe('yaml\n');
    await stack.remove('applications', 'uploaded');
  });

  test('refuses an application for a node that does not exist with 404 and the name of the node', async () => {
    const refused = await rest('POST', '/application', {
      name: 'refused-rest',
      microservices: [{ name: 'web', agentName: 'nowhere', images: [{ containerImage: 'x:1', archId: 1 }] }],
    });
    expect(refused.status).toBe(404);
    expect(refused.body.message).toContain('nowhere');
  });
});

describe('the agent', () => {
  test('restarts no container when it is killed and started again', async () => {
    const port = await freePort();
    await stack.apply(application('steady', [web(await stack.image('steady'), port)]));
    await untilReady(stack, 'steady');
    const before = await containerOf('steady');
    await agent.kill();
    await agent.start();
    await until('a report after the restart', async () => (await agent.cli('ms', 'ls')).stdout.includes('RUNNING'));
    await untilReady(stack, 'steady');
    expect((await containerOf('steady'))?.id).toBe(before?.id);
  });

  test('supervises its containers from the desired state on disk when it starts without a controller', async () => {
    const before = await containerOf('steady');
    const port =
      before && (await stack.application('steady'))?.spec.microservices?.[0]?.container?.ports?.[0]?.external;
    await controller.stop();
    await agent.kill();
    await agent.start();
    await until('the workload to be supervised', async () => (await agent.cli('ms', 'ls')).stdout.includes('RUNNING'));
    expect((await containerOf('steady'))?.id).toBe(before?.id);
    expect(await get(`http://127.0.0.1:${port}/`)).toBeDefined();
  });
});
