import { describe, expect, test } from 'vitest';
import { atEnd } from '../../../testing/at-end.ts';
import { createInMemoryApiServer } from '../../../testing/in-memory-api-server.ts';
import { NAMESPACE, storedApplication, storedNode } from '../../../testing/stored.ts';
import type { Application } from '../../api/v3/index.ts';
import type { KubeClient } from '../../kube/mod.ts';
import { nodeUuid } from '../../rules/identity.ts';
import { RESOURCES } from '../../subjects/kinds.ts';
import { newDebugShell, withDebugShell } from '../../subjects/workloads/rules/debug-shell.ts';
import { fill, keyOf, makeClock, makeKey, makeStores, startReplica } from '../_util.ts';
import type { RecordedEvent } from '../channel/dependencies.ts';

/** Agents of another make that register the controller of their node, at two replicas over one API server. */
const UUID = '0d9e6f2a-3c4b-4d5e-8f60-718293a4b5c6';
const OTHER = '1d9e6f2a-3c4b-4d5e-8f60-718293a4b5c6';
const NAME = 'system-edge-1';
const BODY = {
  uuid: UUID,
  name: 'controller',
  images: [{ containerImage: 'registry.example/controller:1', archId: 1 }],
  registryId: 2,
  hostNetworkMode: true,
  env: [{ key: 'LOG_LEVEL', value: 'info' }],
  schedule: 0,
};

async function start({ isSystem = true, controlPlane = 'remote' as const, applications = [] as Application[] } = {}) {
  const clock = makeClock();
  const stores = makeStores();
  const server = createInMemoryApiServer(stores);
  const node = storedNode('edge-1', { isSystem, archId: 1 });
  const key = makeKey();
  fill(stores, { nodes: [node], applications, secrets: [keyOf(node, key)] });
  /** runs once, between the read and the write of a registration */
  let meanwhile: (() => void) | undefined;
  let writes = 0;
  /** counts also what the API server would not store, since it changes nothing */
  const counted =
    <A extends unknown[], R>(write: (...given: A) => R) =>
    (...given: A): R => {
      writes++;
      return write(...given);
    };
  const client: KubeClient = {
    ...server.client,
    create: counted(server.client.create),
    replace: counted(server.client.replace),
    find: async (...given: Parameters<KubeClient['find']>) => {
      const found = await server.client.find(...given);
      const once = meanwhile;
      meanwhile = undefined;
      once?.();
      return found;
    },
  } as KubeClient;
  const events: RecordedEvent[] = [];
  const open = async () => {
    const audit = { record: (event: RecordedEvent) => void events.push(event), recordsAddresses: false };
    const replica = await startReplica({ clock, client, stores, controlPlane, audit });
    atEnd(() => replica[Symbol.asyncDispose]());
    return replica;
  };
  const replicas = [await open(), await open()] as const;
  await clock.advance(1_000, { timers: 0 });
  return {
    node,
    clock,
    events,
    writes: () => writes,
    register: (body: unknown = BODY, at: 0 | 1 = 0) =>
      replicas[at].as(node, key, 'POST', '/controller/register', { body, thirdParty: true }),
    views: () => replicas[0].as(node, key, 'GET', '/microservices', { thirdParty: true }),
    application: () => stores.applications.get(NAMESPACE, NAME),
    names: () => stores.applications.get(NAMESPACE, NAME)?.spec.microservices?.map(({ name }) => name),
    whileWriting(other: () => void) {
      meanwhile = other;
    },
    put: (application: Application) =>
      void server.client.create(RESOURCES.applications, {
        ...application,
        metadata: { ...application.metadata, namespace: NAMESPACE },
      }),
    edit: (change: (application: Application) => Application) =>
      server.edit(stores.applications.get(NAMESPACE, NAME) as Application, (copy) =>
        Object.assign(copy, change(structuredClone(copy))),
      ),
  };
}

test('a registration is answered with its uuid, and the agent gets the controller of its node', async () => {
  const { register, views, node, application } = await start();
  expect(await register()).toMatchObject({ status: 200, body: { uuid: UUID } });
  const { microservices } = (await views()).body;
  expect(microservices).toMatchObject([
    { uuid: UUID, name: 'controller', isController: true, isSystem: true, schedule: 0, registryId: 2 },
  ]);
  // With its node it ends.
  expect(application()?.metadata.ownerReferences).toMatchObject([{ kind: 'EdgeNode', uid: node.metadata.uid }]);
});

test('the same registration writes nothing, at either replica', async () => {
  const { register, writes } = await start();
  await register();
  const before = writes();
  for (const at of [0, 1] as const) expect((await register({ ...BODY, schedule: 5 }, at)).status).toBe(200);
  expect(writes()).toBe(before);
});

test('another image is another revision of the same microservice', async () => {
  const { register, views } = await start();
  await register();
  const [before] = (await views()).body.microservices;
  await register({ ...BODY, images: [{ containerImage: 'registry.example/controller:2', archId: 1 }] });
  const [after] = (await views()).body.microservices;
  expect(after).toMatchObject({ uuid: UUID, imageId: 'registry.example/controller:2' });
  expect(before.imageId).toBe('registry.example/controller:1');
});

test('two replicas that get registrations at once make one application with one controller', async () => {
  const { register, names } = await start();
  const answers = await Promise.all([register(BODY, 0), register(BODY, 1), register(BODY, 0)]);
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
  expect(names()).toEqual(['controller']);
});

describe('a debug shell that another writer', () => {
  test('creates between the read and the write of a registration stays, and so does the controller', async () => {
    const { register, names, put, whileWriting, node } = await start();
    whileWriting(() => put(newDebugShell({ node, now: 0 })));
    expect((await register()).status).toBe(200);
    expect(names()).toEqual(['debug', 'controller']);
  });

  test('adds to the application meanwhile stays, and so does the changed controller', async () => {
    const { register, names, edit, whileWriting, node, application } = await start();
    await register();
    whileWriting(() => edit((present) => withDebugShell(present, { node, now: 0 })));
    expect((await register({ ...BODY, isPrivileged: true })).status).toBe(200);
    expect(names()).toEqual(['controller', 'debug']);
    expect(application()?.spec.microservices?.[0]?.container?.isPrivileged).toBe(true);
  });
});

describe('a registration is refused', () => {
  test.each<[string, Parameters<typeof start>[0], object | undefined, number, string, RegExp]>([
    [
      'on a node that is none of the system',
      { isSystem: false },
      BODY,
      403,
      'SYSTEM_NODE_REQUIRED',
      /only a node of the system/,
    ],
    [
      'on control plane kubernetes, whatever the node is',
      { controlPlane: 'kubernetes' as never },
      BODY,
      403,
      'SYSTEM_NODE_REQUIRED',
      /only a node of the system/,
    ],
    ['with a body that is no object', {}, [], 400, 'VALIDATION_ERROR', /body/],
    [
      'with an unknown registry',
      {},
      { ...BODY, registryId: 99 },
      404,
      'REGISTRY_NOT_FOUND',
      /^registryId: no registry 99/,
    ],
    [
      'without an image for the node',
      {},
      { ...BODY, images: [{ containerImage: 'a:1', archId: 4 }] },
      400,
      'VALIDATION_ERROR',
      /^images: .*no image for amd64/,
    ],
    ['with a runtime that does not exist', {}, { ...BODY, runtime: 'kata' }, 400, 'VALIDATION_ERROR', /^runtime: /],
    [
      'where users have an application of its name',
      { applications: [storedApplication(NAME, [])] },
      BODY,
      409,
      'DUPLICATE_NAME',
      new RegExp(`"${NAME}" has the name of the system's`),
    ],
    [
      'with the uuid of a microservice of another node',
      {
        applications: [
          storedApplication('shop', [
            { name: 'web', uuid: UUID, agent: { uuid: OTHER }, images: { amd64: 'a:1' } },
          ] as never),
        ],
      },
      BODY,
      400,
      'VALIDATION_ERROR',
      /^uuid: .*belongs to another microservice/,
    ],
  ])('%s', async (_, given, body, status, code, message) => {
    const { register, writes } = await start(given);
    expect(await register(body)).toMatchObject({
      status,
      body: { code, retryable: false, message: expect.stringMatching(message) },
    });
    expect(writes()).toBe(0);
  });

  test('with another uuid than the controller of the node has', async () => {
    const { register, names } = await start();
    await register();
    expect(await register({ ...BODY, uuid: OTHER })).toMatchObject({ status: 409, body: { code: 'DUPLICATE_NAME' } });
    expect(names()).toEqual(['controller']);
  });

  test('for a moment while the application of a debug shell is being deleted', async () => {
    const { register, put, edit, node } = await start();
    put(newDebugShell({ node, now: 0 }));
    edit((present) => ({
      ...present,
      metadata: { ...present.metadata, finalizers: ['x'], deletionTimestamp: '2026-01-01T00:00:00Z' },
    }));
    expect(await register()).toMatchObject({ status: 503, body: { retryable: true } });
  });

  test('beyond five at once and one in half a minute', async () => {
    const { register, clock } = await start();
    for (let i = 0; i < 5; i++) expect((await register()).status).toBe(200);
    const refused = await register();
    expect(refused).toMatchObject({ status: 429, body: { code: 'TOO_MANY_REQUESTS' } });
    await clock.advance(Number(refused.headers['retry-after']) * 1_000, { timers: 0 });
    expect((await register()).status).toBe(200);
  });
});

test('each registration is an event, without any text of the agent', async () => {
  const { register, events, node } = await start();
  await register();
  await register({ ...BODY, registryId: 99 });
  expect(events).toMatchObject([
    { endpointPath: '/agent/controller/register', actorId: nodeUuid(node), status: 'SUCCESS' },
    { endpointPath: '/agent/controller/register', status: 'FAILED', statusMessage: 'REGISTRY_NOT_FOUND' },
  ]);
});
