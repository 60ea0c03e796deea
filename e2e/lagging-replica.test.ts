import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { API_VERSION } from '../src/api/names.ts';
import type { Application, EdgeNode } from '../src/api/v3/index.ts';
import { formatJoinString } from '../src/wire/node-token.ts';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import { until } from './_stack.ts';
import { createMachine, type Machine } from './history/agents.ts';
import type { EngineRecord } from './history/history.ts';
import { type Lane, startLane } from './history/lane.ts';
import { startLink, type TcpLink } from './history/tcp-link.ts';

/**
 * Agents reach controllers through a Service: any request may arrive at any replica, and a replica that lost the API
 * server without noticing still answers. Its response is older than what the machine already has.
 */
const started = new AsyncDisposableStack();
const record: Omit<EngineRecord, 'at' | 'node'>[] = [];
/** of the agent */
let log: string;
let lane: Lane;
let link: TcpLink;
let machine: Machine;
/** ports of the controllers that the link leads to */
let targets: number[] = [];
const dir = temporaryFolder();

beforeAll(async () => {
  const foundations = {
    dir,
    kubeconfig: inject('kubeconfig'),
    kubectl: '',
    controller: inject('programs').controller,
  };
  lane = started.use(await startLane(foundations, `lagging-${process.pid}`, 2));
  targets = [(lane.replicas[0] as { port: number }).port];
  log = join(dir, 'gw', 'agent.log');
  link = started.use(await startLink(() => targets));
  machine = started.use(
    createMachine({
      name: 'gw',
      dir: join(dir, 'gw'),
      record: (entry) => void record.push(entry),
      onKilledAtStep: () => {},
      colourOf: (image) => image,
    }),
  );
  await apply('EdgeNode', 'gw', { statusFrequency: 5 });
  await machine.start();
  const uuid = await until('an identity', async () => (await get<EdgeNode>('edgenodes', 'gw'))?.status?.uuid);
  const key = await until('a key', async () => {
    const reply = await fetch(`http://127.0.0.1:${targets[0]}/api/v3/node/${uuid}/provisioning-key`, {
      headers: { authorization: `Bearer ${lane.token}` },
    });
    return reply.ok && ((await reply.json()) as { key: string }).key;
  });
  await machine.provision(formatJoinString({ controllerUrl: `http://127.0.0.1:${link.port}`, key }));
}, 240_000);
afterAll(() => started.disposeAsync(), 60_000);

const path = (plural: string, name: string) => `/apis/${API_VERSION}/namespaces/${lane.name}/${plural}/${name}`;
const get = <T>(plural: string, name: string) => lane.kube.get<T>(path(plural, name));
const apply = (kind: string, name: string, spec: object) =>
  lane.kube.apply({ apiVersion: API_VERSION, kind, metadata: { name, namespace: lane.name }, spec });
const application = (name: string, value: string) =>
  apply('Application', name, {
    microservices: [
      {
        name: 'web',
        agent: { name: 'gw' },
        images: { amd64: 'registry.example/web:1', arm64: 'registry.example/web:1' },
        container: { env: [{ key: 'VALUE', value }] },
      },
    ],
  });
const untilReady = (name: string) =>
  until(`${name} to be ready`, async () => {
    const current = await get<Application>('applications', name);
    const ready = current?.status?.conditions?.find(({ type }) => type === 'Ready');
    return ready?.status === 'True' && ready.observedGeneration === current?.metadata.generation;
  });

test('a replica that lags behind does not roll back a machine that has a newer desired state', async () => {
  const [, lagging] = lane.replicas;
  if (!lagging) throw new Error('two controllers are needed');
  await application('changed', 'old');
  await untilReady('changed');

  lagging.proxy.freeze();
  await application('changed', 'new');
  await application('added', 'first');
  await untilReady('changed');
  await untilReady('added');
  const before = record.filter(({ what }) => what !== 'seen').length;

  // From here on every request of the agent arrives at the replica that lags behind.
  targets = [lagging.port];
  link.set('cut');
  link.set('open');
  await until('the agent to be told so', () => Promise.resolve(readFileSync(log, 'utf8').includes('lags behind')), {
    timeoutMs: 120_000,
  });
  expect(record.filter(({ what }) => what !== 'seen').slice(before)).toEqual([]);

  lagging.proxy.thaw();
  lagging.proxy.cutAll();
  await application('changed', 'newest');
  await untilReady('changed');
  expect(record.filter(({ what }) => what !== 'seen').slice(before)).toMatchObject([
    { what: 'create', value: 'newest' },
    { what: 'stop' },
    { what: 'start' },
    { what: 'remove' },
  ]);
}, 300_000);
