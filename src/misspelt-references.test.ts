import { describe, expect, test } from 'vitest';
import { NAMESPACE, startInMemoryController } from '../testing/in-memory-controller.ts';
import { manifest } from '../testing/manifest.ts';
import type { Application, EdgeNode, MicroserviceEntry } from './api/v3/index.ts';
import { nodeUuid } from './rules/identity.ts';
import { v3Name } from './rules/names.ts';
import { RESOURCES } from './subjects/kinds.ts';
import type { MicroserviceStatus } from './wire/agent.ts';

/** A node that runs an application of two microservices, and a spare node; an edit is that of a kubectl user, which nothing refuses. */
async function setUp() {
  const fleet = await startInMemoryController(1);
  const { stores, cluster, report, settle } = fleet;
  const a = () => fleet.node(0);
  const application = () => stores.applications.get(NAMESPACE, 'line-0') as Application;
  const [uuid = '', neighbour = ''] = (application().spec.microservices ?? []).map((entry) => entry.uuid ?? '');
  const itemIn = (of: EdgeNode, wanted = uuid) =>
    fleet.desired(nodeUuid(of))?.microservices.find((one) => one.uuid === wanted);
  const revisionIn = (of: EdgeNode, wanted?: string) => {
    const item = itemIn(of, wanted);
    return item && 'revision' in item ? item.revision : undefined;
  };
  const revision = revisionIn(a());
  /** Whether the node was at any time told to have nothing of the microservice. */
  let wasDropped = false;
  const watching = stores.applications.subscribe(() =>
    queueMicrotask(() => {
      wasDropped ||= itemIn(a()) === undefined;
    }),
  );
  return {
    ...fleet,
    a,
    application,
    uuid,
    revision,
    revisionIn,
    neighbour,
    wasDropped: () => wasDropped,
    /** Sets members of the first microservice; undefined removes one. */
    edit: async ({ container, ...members }: Partial<MicroserviceEntry>) => {
      cluster.edit(application(), ({ spec }) => {
        const [entry] = spec.microservices ?? [];
        Object.assign(entry as object, members, container && { container: { ...entry?.container, ...container } });
      });
      await settle();
    },
    /** What a node is told of the microservice: the reason of a hold, run, or nothing. */
    told: (of: EdgeNode, wanted?: string) => {
      const item = itemIn(of, wanted);
      return item && ('hold' in item ? item.reason : 'run');
    },
    /** The node reports that the container is in this state, besides what it is to run. */
    has: async (of: EdgeNode, status: MicroserviceStatus['status']) => {
      report(of, 'RUNNING', [{ id: uuid, status, containerId: `c-${uuid}`, revision: revision ?? '' }]);
      await settle();
    },
    line: () => application().status?.microservices?.find((one) => one.uuid === uuid),
    ready: () => application().status?.conditions?.find(({ type }) => type === 'Ready'),
    create: async (name: string, spec: object = {}) => {
      const metadata = { name, namespace: NAMESPACE };
      await cluster.client.create(RESOURCES.nodes, manifest('EdgeNode', metadata, spec) as never);
      await settle();
      return stores.nodes.get(NAMESPACE, name) as EdgeNode;
    },
    [Symbol.asyncDispose]: async () => {
      watching[Symbol.dispose]();
      await fleet[Symbol.asyncDispose]();
    },
  };
}

const KEPT = 'what ran before keeps running on the node "gateway-0"';
const NODES: Record<string, [NonNullable<MicroserviceEntry['agent']> | undefined, string, string]> = {
  'a name that no node has': [{ name: 'gw-9' }, 'NodeNotFound', 'no node with the name "gw-9"'],
  'a uuid that no node has': [
    { uuid: '99999999-9999-4999-8999-999999999999' },
    'NodeNotFound',
    'no node with the uuid 99999999-9999-4999-8999-999999999999',
  ],
  'no node': [undefined, 'NodeNotSet', 'names no node; give agent.name or agent.uuid'],
};

describe('a microservice that runs and whose edit names', () => {
  test.each(Object.entries(NODES))(
    '%s stays where it runs, and the status says why',
    async (_, [agent, reason, message]) => {
      await using fleet = await setUp();
      const { a, edit, has, told, line, ready, uuid, neighbour, request } = fleet;
      await edit({ agent });
      await has(a(), 'RUNNING');
      expect(told(a())).toBe(agent ? 'MovingFromNode' : 'NodeNotSet');
      expect(told(a(), neighbour)).toBe('run');
      expect(line()).toMatchObject({ node: 'gateway-0', nodeUuid: nodeUuid(a()), state: 'RUNNING', ready: false });
      expect(line()?.formerNodes).toBeUndefined();
      expect(ready()).toMatchObject({ status: 'False', reason });
      expect(ready()?.message).toContain(`part-0: ${message}; ${KEPT}`);
      const { body } = await request('GET', `/microservices/${uuid}`, { token: 'admin' });
      expect(body).toMatchObject({
        status: {
          status: 'RUNNING',
          errorMessage: 'stays on the node "gateway-0" until the node that it names has taken it',
        },
      });
      expect(body.nodeUuid).toBe(agent?.uuid);
      expect(body.agentName).toBe(agent?.name);

      // whoever leads next decides the same
      await fleet.nextTerm();
      expect(line()).toMatchObject({ node: 'gateway-0', state: 'RUNNING' });

      await edit({ agent: { name: v3Name(a()) } });
      expect(fleet.revisionIn(a())).toBe(fleet.revision);
      await has(a(), 'RUNNING');
      expect(ready()).toMatchObject({ status: 'True', reason: 'AllRunning' });
      expect(fleet.wasDropped()).toBe(false);
    },
  );

  test('a node that is created later moves then', async () => {
    await using fleet = await setUp();
    const { a, edit, has, told, ready, create, line } = fleet;
    await edit({ agent: { name: 'gw-9' } });
    await has(a(), 'RUNNING');
    expect(told(a())).toBe('MovingFromNode');
    const created = await create('gw-9', { archId: 1 });
    expect(told(a())).toBeUndefined();
    expect(told(created)).toBe('MovingFromNode');
    expect(ready()).toMatchObject({ status: 'False', reason: 'MovingFromNode' });
    expect(line()).toMatchObject({ node: 'gw-9', formerNodes: [{ node: 'gateway-0', state: 'Stopping' }] });
    await has(a(), 'STOPPED');
    expect(told(created)).toBe('run');
  });

  test('a node without an image for it moves when it has one', async () => {
    await using fleet = await setUp();
    const { a, edit, has, told, ready, create } = fleet;
    const other = await create('gw-9', { archId: 4 });
    await edit({ agent: { name: 'gw-9' } });
    await has(a(), 'RUNNING');
    expect(told(a())).toBe('MovingFromNode');
    expect(told(other)).toBe('ImageMissing');
    expect(ready()?.message).toContain(KEPT);
    await edit({ images: { amd64: 'plant/part:1', arm: 'plant/part:arm' } });
    expect(told(a())).toBeUndefined();
    await has(a(), 'STOPPED');
    expect(told(other)).toBe('run');
  });

  test('a node whose port another one has moves when it is free', async () => {
    await using fleet = await setUp();
    const { a, spare, edit, has, told, ready, rest, stores, cluster, report, settle } = fleet;
    const external = fleet.application().spec.microservices?.[0]?.container?.ports?.[0]?.external ?? 18_080;
    const images = [{ containerImage: 'plant/one:1', archId: 1 }];
    const ports = [{ internal: 80, external }];
    const microservices = [{ name: 'one', nodeUuid: nodeUuid(spare), images, ports }];
    expect(await rest('POST', '/application', { name: 'other', microservices })).toBe(201);
    await settle();
    report(spare);
    await settle();
    await edit({ agent: { name: v3Name(spare) }, container: { ports } });
    await has(a(), 'RUNNING');
    expect(told(a())).toBe('MovingFromNode');
    expect(ready()).toMatchObject({ status: 'False', reason: 'PortTaken' });
    expect(ready()?.message).toContain(`is held by other/one; ${KEPT}`);
    const [other] = stores.applications.byIndex('name', 'other');
    cluster.edit(other as Application, ({ spec }) => Object.assign(spec, { isActivated: false }));
    await settle();
    report(spare);
    await settle();
    expect(told(a())).toBeUndefined();
    await has(a(), 'STOPPED');
    expect(told(spare)).toBe('run');
  });

  test('a missing node beside other fields changes none of them until the node exists', async () => {
    await using fleet = await setUp();
    const { a, edit, has, told, create } = fleet;
    await edit({ agent: { name: 'gw-9' }, images: { amd64: 'plant/part:other' } });
    await has(a(), 'RUNNING');
    expect(told(a())).toBe('MovingFromNode');
    await create('gw-9', { archId: 1 });
    await has(a(), 'STOPPED');
    expect(told(fleet.stores.nodes.get(NAMESPACE, 'gw-9') as EdgeNode)).toBe('run');
  });

  test('a missing node is stopped when that is asked for', async () => {
    await using fleet = await setUp();
    const { a, edit, has, told, ready } = fleet;
    await edit({ agent: { name: 'gw-9' } });
    await has(a(), 'RUNNING');
    await edit({ isActivated: false });
    expect(told(a())).toBeUndefined();
    await has(a(), 'STOPPED');
    expect(ready()).toMatchObject({ status: 'True', reason: 'AllRunning' });
  });

  test('a missing node under a new name of the microservice stays where it runs', async () => {
    await using fleet = await setUp();
    const { a, edit, has, told, ready } = fleet;
    await edit({ name: 'renamed', agent: { name: 'gw-9' } });
    await has(a(), 'RUNNING');
    expect(told(a())).toBe('MovingFromNode');
    expect(ready()?.message).toContain(`renamed: no node with the name "gw-9"; ${KEPT}`);
  });

  test('a missing node does not keep the node where it runs from being deleted', async () => {
    await using fleet = await setUp();
    const { a, edit, has, told, line, stores, settle } = fleet;
    await edit({ agent: { name: 'gw-9' } });
    await has(a(), 'RUNNING');
    const old = a();
    expect(await fleet.rest('DELETE', `/iofog/${nodeUuid(old)}`)).toBe(202);
    await settle();
    expect(told(old)).toBeUndefined();
    stores.nodes.remove({ ...a(), metadata: { ...a().metadata, resourceVersion: '9999999' } });
    await settle();
    expect(line()?.node).toBeUndefined();
    expect(line()?.formerNodes).toMatchObject([{ node: 'gateway-0', state: 'Gone' }]);
  });
});

/** Every reference of a microservice besides its node, and the reason with which the node is told to keep what runs. */
const REFERENCES: Record<string, [Partial<MicroserviceEntry>, string]> = {
  'a catalog item': [{ images: { catalogId: 'no-such' } }, 'CatalogItemNotFound'],
  'a registry': [{ images: { amd64: 'plant/part:1', registry: 'no-such' } }, 'RegistryNotFound'],
  'a Secret': [{ container: { env: [{ key: 'A', valueFromSecret: 'no-such/key' }] } }, 'SecretNotFound'],
  'a ConfigMap': [{ container: { env: [{ key: 'A', valueFromConfigMap: 'no-such/key' }] } }, 'ConfigMapNotFound'],
  'a volume mount': [
    {
      container: {
        volumes: [{ hostDestination: 'no-such', containerDestination: '/m', accessMode: 'ro', type: 'volumeMount' }],
      },
    },
    'VolumeMountNotFound',
  ],
  'a runtime': [{ container: { runtime: 'no-such' } }, 'RuntimeClassNotFound'],
  'the role of a service account': [{ serviceAccount: { roleRef: { name: 'no-such' } } }, 'RoleNotFound'],
  'a model': [{ models: { bindPath: '/models', items: [{ name: 'no-such' }] } }, 'ModelNotFound'],
  knowledge: [{ knowledge: { bindPath: '/knowledge', items: [{ name: 'no-such' }] } }, 'KnowledgeNotFound'],
  'a template of a microservice': [{ template: { name: 'no-such' } }, 'TemplateNotRendered'],
  'a node in an extra host': [hosted('${Agents.no-such}'), 'HostNotFound'],
  'a microservice in an extra host': [hosted('${Apps.no.such.local}'), 'HostNotFound'],
};

function hosted(address: string): Partial<MicroserviceEntry> {
  return { container: { extraHosts: [{ name: 'h', address }] } };
}

describe('an edit that misspells', () => {
  test.each(Object.entries(REFERENCES))(
    '%s keeps the running container, and the status says why',
    async (_, [members, reason]) => {
      await using fleet = await setUp();
      const { a, edit, has, told, ready } = fleet;
      await edit(members);
      await has(a(), 'RUNNING');
      expect(told(a())).toBe(reason);
      expect(ready()?.status).toBe('False');
      expect(ready()?.message).toContain('; what ran before keeps running');
      expect(fleet.wasDropped()).toBe(false);
    },
  );

  test('the template of the application keeps the running containers', async () => {
    await using fleet = await setUp();
    const { a, application, cluster, settle, told, neighbour } = fleet;
    cluster.edit(application(), ({ spec }) => Object.assign(spec, { template: { name: 'no-such' } }));
    await settle();
    expect([told(a()), told(a(), neighbour)]).toEqual(['run', 'run']);
    expect(fleet.revisionIn(a())).toBe(fleet.revision);
    expect(fleet.ready()?.status).toBe('False');
  });
});
