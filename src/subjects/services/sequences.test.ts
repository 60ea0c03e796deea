import fc from 'fast-check';
import { expect, test } from 'vitest';
import { fuzzing } from '../../../hack/testing/fuzz.ts';
import { NAMESPACE } from '../../../testing/in-memory-controller.ts';
import { AGENT_BRIDGE_HOST } from '../../api/names.ts';
import type { Application, EdgeNode } from '../../api/v3/index.ts';
import { configProblems } from '../../router-schema/check.ts';
import { nodeUuid } from '../../rules/identity.ts';
import { entryUuid } from '../../rules/names.ts';
import { ROUTER_FILES, ROUTER_SETS, type RouterPair } from '../../wire/router.ts';
import { servicesInMemory } from './_fleet.ts';

/**
 * Random steps on services, microservices and nodes at a controller in memory. After each step every router has the ends of services that the
 * rules say, which are written here once more, without look-ups. A failure prints the shortest steps that were found, and its seed.
 */
const { about, budget, timeout } = fuzzing({ runs: 2, nightlySeconds: 600 });

/** The last node is an interior router to which the first one connects, and so the bridge of some services. */
const NODES = 4;
const BRIDGE = NODES - 1;
const on = servicesInMemory(NODES, { ROUTER_HUB: 'true' });

const SERVICES = ['s0', 's1', 's2', 's3'] as const;
const MICROSERVICES = ['web', 'cam'] as const;
const TAGS = ['north', 'south', 'all', 'team:press', 'k=v'] as const;
type Mode = 'none' | 'edge' | 'interior';

const anyOf = <T>(...of: readonly T[]) => fc.constantFrom(...of);
const tags = fc.subarray([...TAGS]);
const aNode = fc.nat({ max: NODES - 1 });
const backend = fc.oneof(
  fc.record({ type: fc.constant('microservice' as const), name: anyOf(...MICROSERVICES) }),
  fc.record({ type: fc.constant('agent' as const), node: aNode }),
  fc.record({ type: anyOf('cluster' as const, 'external' as const), host: anyOf('db.plant.svc', '192.0.2.9') }),
);
type ModelBackend = typeof backend extends fc.Arbitrary<infer T> ? T : never;
const port = fc.integer({ min: 1, max: 9_999 });
const aService = anyOf(...SERVICES);
const operation = fc.oneof(
  fc.record({
    ...{ do: fc.constant('create' as const), service: aService, backend, tags, port },
    ...{ isBridged: fc.boolean(), isByKubectl: fc.boolean() },
  }),
  fc.record({ do: fc.constant('edit' as const), service: aService, tags, port }),
  fc.record({ do: fc.constant('lead' as const), service: aService, backend }),
  fc.record({ do: fc.constant('delete' as const), service: aService }),
  fc.record({ do: fc.constant('select' as const), node: aNode, tags }),
  fc.record({ do: fc.constant('mode' as const), node: aNode, mode: anyOf<Mode>('none', 'edge', 'interior') }),
  fc.record({ do: fc.constant('place' as const), name: anyOf(...MICROSERVICES), node: aNode }),
  fc.record({ do: fc.constant('network' as const), name: anyOf(...MICROSERVICES), isOnHost: fc.boolean() }),
  fc.record({ do: fc.constant('remove' as const), name: anyOf(...MICROSERVICES) }),
);
type Operation = typeof operation extends fc.Arbitrary<infer T> ? T : never;
const steps = fc.array(fc.record({ operation, changesLeader: fc.nat({ max: 9 }).map((n) => n === 0) }), {
  minLength: 8,
  maxLength: 20,
});

interface ModelService {
  backend: ModelBackend;
  tags: readonly string[];
  port: number;
  isBridged: boolean;
}
interface ModelNode {
  mode: Mode;
  tags: readonly string[];
}
interface ModelMicroservice {
  node: number;
  isOnHost: boolean;
}

const node = (i: number) => on.fleet.stores.nodes.get(NAMESPACE, `gateway-${i}`) as EdgeNode;
const shop = () => on.fleet.stores.applications.get(NAMESPACE, 'shop') as Application;
const uuidOf = (name: string) =>
  entryUuid(shop(), { name, ...shop().spec.microservices?.find((one) => one.name === name) });

/** The ends of our services in the text of a configuration. */
function endsIn(text: string): object[] {
  const pairs = JSON.parse(text) as RouterPair[];
  expect(configProblems(pairs)).toEqual([]);
  const ends = pairs.filter(([, { address }]) => SERVICES.some((name) => name === address));
  return ends.map(([entity, attributes]) => ({ entity, ...attributes })).sort(byName);
}
const byName = (a: object, b: object) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1);

function textOf(i: number): string | undefined {
  const sets = on.fleet.desired(nodeUuid(node(i)))?.systemFiles ?? [];
  const content = sets.find(({ name }) => name === ROUTER_SETS.config)?.files[ROUTER_FILES.config];
  return content && Buffer.from(content, 'base64').toString();
}

class Story {
  readonly #services = new Map<string, ModelService>();
  readonly #microservices = new Map<string, ModelMicroservice>();
  readonly #nodes: ModelNode[] = Array.from({ length: NODES }, () => ({ mode: 'edge', tags: [] }));
  /** the port of each service, as long as it exists */
  readonly #ports = new Map<string, number>();

  async begin(): Promise<void> {
    await on.fleet.reset();
    for (let i = 0; i < NODES; i++) {
      const mode = i === BRIDGE ? 'interior' : 'edge';
      this.#nodes[i] = { mode, tags: [] };
      const upstreamRouters = i === 0 ? [`gateway-${BRIDGE}`] : [];
      await this.#editNode(i, { routerMode: mode, host: `gw-${i}.example`, tags: [], upstreamRouters });
    }
    for (const [node, name] of MICROSERVICES.entries()) this.#microservices.set(name, { node, isOnHost: false });
    await this.#send('POST', '/application', 201, this.#application());
    for (const [i, token] of ['north', 'south', 'all'].entries())
      await this.#perform({ do: 'select', node: i, tags: [token] as never });
    const backends = [
      { type: 'microservice', name: 'web' },
      { type: 'agent', node: 1 },
      { type: 'external', host: '192.0.2.9' },
    ] as const;
    for (const [i, backend] of backends.entries())
      await this.#performOnService({
        ...{ do: 'create', service: SERVICES[i] as 's0', backend, port: 80, isBridged: i === 0, isByKubectl: false },
        tags: [i === 1 ? 'south' : 'north'],
      });
    await this.#settled();
  }

  async take({ operation, changesLeader }: { operation: Operation; changesLeader: boolean }): Promise<void> {
    await Promise.all([this.#perform(operation), changesLeader && on.fleet.nextTerm()]);
    await this.#settled();
    this.#check();
  }

  /** Machines run what they are to run. */
  async #settled(): Promise<void> {
    await on.fleet.settle();
    for (let i = 0; i < NODES; i++) on.fleet.report(node(i));
    await on.fleet.settle();
  }

  #application(): object {
    const microservices = [...this.#microservices].map(([name, { node, isOnHost }]) => ({
      ...{ name, agentName: `gateway-${node}`, images: [{ containerImage: 'a:1', archId: 1 }] },
      hostNetworkMode: isOnHost,
    }));
    return { name: 'shop', microservices };
  }

  async #send(method: string, path: string, expected: number, body?: object): Promise<void> {
    const answer = await on.fleet.request(method, path, { token: 'admin', ...(body && { body }) });
    expect(answer.status, `${method} ${path} ${JSON.stringify(body)}: ${JSON.stringify(answer.body)}`).toBe(expected);
  }

  async #editNode(i: number, spec: Partial<EdgeNode['spec']>): Promise<void> {
    on.fleet.cluster.edit(node(i), (copy) => Object.assign(copy.spec, spec));
  }

  /** The node whose router reaches a backend; undefined: it is the hub. */
  #nodeOf(of: ModelBackend): number | undefined {
    if (of.type === 'agent') return of.node;
    return of.type === 'microservice' ? this.#microservices.get(of.name)?.node : undefined;
  }

  /** Whether a service can lead there now. */
  #isReachable(of: ModelBackend): boolean {
    if (of.type === 'cluster' || of.type === 'external') return true;
    const at = this.#nodeOf(of);
    return at !== undefined && this.#nodes[at]?.mode !== 'none';
  }

  #resourceOf(of: ModelBackend, isByName: boolean): string {
    if (of.type === 'agent') return isByName ? `gateway-${of.node}` : nodeUuid(node(of.node));
    if (of.type === 'microservice') return isByName ? `shop/${of.name}` : uuidOf(of.name);
    return of.host;
  }

  /** Whether the rules let it be edited as it is now. */
  #isRight({ backend, isBridged }: ModelService): boolean {
    return this.#isReachable(backend) && (!isBridged || this.#nodeOf(backend) === 0);
  }

  async #perform(one: Operation): Promise<void> {
    if ('service' in one) return this.#performOnService(one);
    switch (one.do) {
      case 'select':
        this.#nodes[one.node] = { mode: this.#nodes[one.node]?.mode ?? 'none', tags: one.tags };
        return this.#editNode(one.node, { tags: one.tags.map((tag) => `skerry.dev/service: ${tag}`) });
      case 'mode':
        // The bridge stays an interior router.
        if (one.node === BRIDGE) return;
        this.#nodes[one.node] = { tags: this.#nodes[one.node]?.tags ?? [], mode: one.mode };
        return this.#editNode(one.node, { routerMode: one.mode });
      case 'place': {
        const { isOnHost = false } = this.#microservices.get(one.name) ?? {};
        this.#microservices.set(one.name, { node: one.node, isOnHost });
        break;
      }
      case 'network': {
        const present = this.#microservices.get(one.name);
        if (!present) return;
        this.#microservices.set(one.name, { ...present, isOnHost: one.isOnHost });
        break;
      }
      case 'remove':
        if (!this.#microservices.delete(one.name)) return;
        for (const [name, { backend }] of this.#services)
          if (backend.type === 'microservice' && backend.name === one.name) this.#forget(name);
    }
    await this.#send('PUT', '/application/shop', 204, this.#application());
  }

  #forget(name: string): void {
    this.#services.delete(name);
    this.#ports.delete(name);
  }

  async #performOnService(one: Extract<Operation, { service: string }>): Promise<void> {
    const { service: name } = one;
    const present = this.#services.get(name);
    const path = `/services/${name}`;
    if (one.do === 'delete') {
      this.#forget(name);
      return this.#send('DELETE', path, present ? 204 : 404);
    }
    if (one.do === 'create') {
      const { backend, tags, port } = one;
      const isBridged = one.isBridged && this.#nodeOf(backend) === 0;
      const made = { backend, tags, port, isBridged };
      if (present || !this.#isRight(made)) return;
      this.#services.set(name, made);
      const spec = {
        ...{ type: backend.type, resource: this.#resourceOf(backend, one.isByKubectl), targetPort: port, tags },
        ...{ servicePort: 80, clusterType: 'ClusterIP' },
        ...(isBridged && { defaultBridge: nodeUuid(node(BRIDGE)) }),
      };
      if (!one.isByKubectl) return this.#send('POST', '/services', 201, { name, ...spec });
      const { resource } = on.fleet.stores.services;
      const metadata = { name, namespace: NAMESPACE };
      await on.fleet.cluster.client.create(resource, {
        ...{ apiVersion: 'skerry.dev/v3', kind: resource.kind, metadata, spec },
      } as never);
      return;
    }
    if (!present) return;
    const changed =
      one.do === 'edit' ? { ...present, tags: one.tags, port: one.port } : { ...present, backend: one.backend };
    if (changed.backend.type !== present.backend.type || !this.#isRight(changed)) return;
    this.#services.set(name, changed);
    const resource = one.do === 'lead' ? { resource: this.#resourceOf(changed.backend, false) } : {};
    await this.#send('PATCH', path, 200, { tags: changed.tags, targetPort: changed.port, ...resource });
  }

  /** The ends that the rules give to a router. */
  #endsOf(at: number | 'hub'): object[] {
    const { mode = 'interior', tags: tokens = [] } = at === 'hub' ? {} : (this.#nodes[at] ?? {});
    const ends: object[] = [];
    for (const [name, { backend, tags, port, isBridged }] of this.#services) {
      const selecting = tags.filter((tag) => !tag.includes(':') && !tag.includes('='));
      const isSelected = tokens.includes('all') || tokens.some((token) => selecting.includes(token));
      if (at === 'hub' || isSelected || (isBridged && at === BRIDGE))
        ends.push({
          entity: 'tcpListener',
          name: `${name}-listener`,
          port: String(this.#ports.get(name)),
          address: name,
        });
      if ((this.#nodeOf(backend) ?? 'hub') !== at) continue;
      const connector = { entity: 'tcpConnector', name: `${name}-connector`, address: name, port: String(port) };
      const local = mode === 'interior' ? '127.0.0.1' : AGENT_BRIDGE_HOST;
      if (backend.type === 'agent') {
        const processId = `${nodeUuid(node(backend.node))}-local-${port}`;
        ends.push({ ...connector, host: local, processId });
      } else if (backend.type === 'microservice') {
        const isOnHost = this.#microservices.get(backend.name)?.isOnHost === true;
        const host = mode === 'interior' || isOnHost ? local : `shop.${backend.name}`;
        ends.push({ ...connector, host, processId: uuidOf(backend.name) });
      } else ends.push({ ...connector, host: backend.host, processId: `${backend.host}-${backend.type}-${port}` });
    }
    return ends;
  }

  #check(): void {
    const sorted = (ends: object[]) => ends.map((end) => JSON.stringify(Object.entries(end).sort())).sort();
    const present = SERVICES.filter((name) => on.service(name));
    expect(present, 'the services that exist').toEqual(SERVICES.filter((name) => this.#services.has(name)));
    for (const name of present) {
      const port = on.service(name)?.status?.bridgePort;
      expect(port, `the port of ${name}`).toBe(this.#ports.get(name) ?? port);
      expect([...this.#ports].filter(([other, its]) => other !== name && its === port)).toEqual([]);
      if (port !== undefined) this.#ports.set(name, port);
    }
    const hub = on.fleet.stores.configMaps.get(NAMESPACE, 'skerry-router')?.data?.[ROUTER_FILES.config];
    expect(sorted(endsIn(hub ?? '[]')), 'the hub').toEqual(sorted(this.#endsOf('hub')));
    for (const [i, { mode }] of this.#nodes.entries()) {
      const text = textOf(i);
      expect(text !== undefined, `gateway-${i} has a router`).toBe(mode !== 'none');
      if (text !== undefined) expect(sorted(endsIn(text)), `gateway-${i}`).toEqual(sorted(this.#endsOf(i)));
    }
  }
}

test(
  `after any steps every router has the ends of services that the rules say (${about})`,
  async () => {
    await fc.assert(
      fc.asyncProperty(steps, async (all) => {
        const story = new Story();
        await story.begin();
        for (const [index, step] of all.entries()) {
          try {
            await story.take(step);
          } catch (error) {
            if (error instanceof Error) error.message = `step ${index} (${step.operation.do}): ${error.message}`;
            throw error;
          }
        }
      }),
      budget,
    );
  },
  timeout,
);
