import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, inject, test } from 'vitest';
import { kubeFromFile, withToken } from '../../../hack/kube.ts';
import type {} from '../../../hack/testing/provided.ts';
import { startBusServer } from '../../../testing/bus.ts';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import type { Condition } from '../../api/meta.ts';
import { API_VERSION } from '../../api/names.ts';
import type { BusHub } from '../../api/v3/bus-hub.ts';
import { connectBus } from '../../bus-client/connection.ts';
import type { ControllerDependencies } from '../../controllers/dependencies.ts';
import { controllerRoles, hubRoles, namespaceManifests } from '../../manifests/roles.ts';
import { startTestCluster } from '../../rest/_cluster.ts';
import { busPartsOf } from '../bus-accounts/reconcile/parts.ts';
import { createHubDelivery } from './reconcile/delivery.ts';

/** The hub in a cluster: a real API server, and a controller with the rights that the chart gives it. No pod runs here. */
const kube = await kubeFromFile(inject('kubeconfig'));
afterAll(() => kube.close());

const ENV = { BUS_ENABLED: 'true', BUS_HUB_REPLICAS: '3', BUS_HUB_IMAGE: 'mirror.example/nats:2.15' };
const timeout = 30_000;

async function start(env: Record<string, string> = ENV) {
  const cluster = await startTestCluster();
  const { namespace } = cluster;
  const manifests = [...namespaceManifests(namespace), ...controllerRoles(namespace), ...hubRoles(namespace)];
  for (const manifest of manifests) if (manifest.kind !== 'Namespace') await kube.apply(manifest as never);
  const body = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: { expirationSeconds: 3600 } };
  const account = `/api/v1/namespaces/${namespace}/serviceaccounts/skerry-controller/token`;
  const { status } = await kube.request<{ status: { token: string } }>('POST', account, body);
  const kubeconfigFile = join(temporaryFolder(), 'kubeconfig');
  writeFileSync(kubeconfigFile, withToken(readFileSync(inject('kubeconfig'), 'utf8'), status.token));
  const startController = () => cluster.startController(env, { kubeconfigFile });
  const paths = {
    members: `/apis/apps/v1/namespaces/${namespace}/statefulsets/bus`,
    service: `/api/v1/namespaces/${namespace}/services/bus`,
    headless: `/api/v1/namespaces/${namespace}/services/bus-headless`,
    disruptions: `/apis/policy/v1/namespaces/${namespace}/poddisruptionbudgets/bus`,
    network: `/apis/networking.k8s.io/v1/namespaces/${namespace}/networkpolicies/bus`,
    config: `/api/v1/namespaces/${namespace}/secrets/skerry-bus-hub`,
    hub: `/apis/${API_VERSION}/namespaces/${namespace}/bushubs/bus-hub`,
  };
  // biome-ignore lint/suspicious/noExplicitAny: objects of many kinds
  const get = (which: keyof typeof paths): Promise<any> => kube.get(paths[which]).catch(() => undefined);
  const ready = async () =>
    ((await get('hub')) as BusHub | undefined)?.status?.conditions?.find(({ type }: Condition) => type === 'Ready');
  const merge = (spec: object) => kube.request('PATCH', paths.hub, { spec }, 'application/merge-patch+json');
  return { cluster, namespace, paths, get, ready, merge, startController };
}

describe('an installation that makes its hub', () => {
  test('has it from the start, with the rights of the chart alone, and a restart writes none of it again', async () => {
    const { get, ready, namespace, paths, startController } = await start();
    const { app } = await startController();
    await expect.poll(() => get('members'), { timeout }).toBeDefined();
    const members = await get('members');
    expect(members.spec.replicas).toBe(3);
    expect(members.spec.template.spec.containers[0].image).toBe('mirror.example/nats:2.15');
    expect(members.metadata.ownerReferences).toMatchObject([{ kind: 'BusHub', name: 'bus-hub', controller: true }]);
    for (const which of ['service', 'headless', 'disruptions', 'network'] as const)
      expect((await get(which)).metadata.ownerReferences).toMatchObject([{ kind: 'BusHub', name: 'bus-hub' }]);
    const config = await get('config');
    expect(config.metadata).not.toHaveProperty('ownerReferences');
    expect(config.metadata.labels).toEqual({ 'skerry.dev/bus': 'server' });
    const text = Buffer.from(config.data['server.conf'], 'base64').toString();
    expect(text).toContain(`nats://bus-2.bus-headless.${namespace}.svc:6222`);
    // Nobody reads the key of the streams elsewhere.
    const key = Buffer.from(config.data['store-key'], 'base64').toString();
    expect(JSON.stringify(members)).not.toContain(key);
    await expect.poll(ready, { timeout }).toMatchObject({ status: 'False', reason: 'BusServersBehind' });
    expect((await get('hub')).status).toMatchObject({ host: `bus.${namespace}.svc`, members: 3, current: 0 });

    const versions = async () =>
      Promise.all(
        (['members', 'service', 'headless', 'config'] as const).map(
          async (which) => (await get(which)).metadata.resourceVersion,
        ),
      );
    const before = await versions();
    await app[Symbol.asyncDispose]();
    // Deleted objects come back: the next run of the controller made all of them.
    await kube.request('DELETE', paths.network);
    await kube.request('DELETE', paths.disruptions);
    await startController();
    await expect.poll(() => get('disruptions'), { timeout }).toBeDefined();
    expect(await versions()).toEqual(before);
  });

  test('changes members by the hub, and ends them without their keys once the hub is elsewhere', async () => {
    const { get, merge, startController } = await start();
    await startController();
    await expect.poll(() => get('members'), { timeout }).toBeDefined();
    const hash = (members: { spec: { template: { metadata: { annotations: object } } } }) =>
      members.spec.template.metadata.annotations;
    const before = hash(await get('members'));
    await merge({ replicas: 1, leafPort: 7000, jsStorageSize: '20g' });
    await expect.poll(async () => (await get('members'))?.spec.replicas, { timeout }).toBe(1);
    expect(hash(await get('members'))).not.toEqual(before);
    expect((await get('service')).spec.ports).toContainEqual(expect.objectContaining({ name: 'leaf', port: 7000 }));
    await merge({ isExternal: true, host: 'bus.example' });
    for (const which of ['members', 'service', 'headless', 'disruptions', 'network'] as const)
      await expect.poll(() => get(which), { timeout }).toBeUndefined();
    expect((await get('config')).data).toHaveProperty('store-key');
  });

  test('leaves a Service of somebody else as it is, and says so', async () => {
    const { get, ready, namespace, startController } = await start();
    const service = { apiVersion: 'v1', kind: 'Service', metadata: { name: 'bus', namespace } };
    await kube.apply({ ...service, spec: { ports: [{ port: 80 }], selector: { app: 'trains' } } } as never);
    await startController();
    await expect
      .poll(ready, { timeout })
      .toMatchObject({ reason: 'BusHubTaken', message: expect.stringContaining('Service bus') });
    expect((await get('service')).spec.selector).toEqual({ app: 'trains' });
    expect(await get('members')).toBeUndefined();
  });
});

test('a member takes clients once its condition says that it has every token, and not while it is away', async () => {
  const { cluster, namespace, startController } = await start({ ...ENV, BUS_HUB_REPLICAS: '1' });
  const { app } = await startController();
  const replica = await cluster.startReplica();
  const { stores } = replica;
  await expect.poll(() => stores.secrets.byIndex('bus', 'user').length, { timeout }).toBeGreaterThan(0);
  await app[Symbol.asyncDispose]();
  const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'bus-0', namespace } };
  await kube.apply({ ...pod, spec: { containers: [{ name: 'bus', image: 'x' }] } } as never);
  const condition = async () => {
    const stored = await kube.get<{ status?: { conditions?: { type: string; status: string }[] } }>(
      `/api/v1/namespaces/${namespace}/pods/bus-0`,
    );
    return stored?.status?.conditions?.find(({ type }) => type === 'skerry.dev/bus-tokens')?.status;
  };
  const text = (name: string, key: string) => {
    const secret = stores.secrets.get(namespace, name);
    return Buffer.from(secret?.data?.[key] ?? '', 'base64').toString();
  };
  const system = stores.busAccounts.list().find(({ spec }) => spec.system === 'system');
  const token = text(`skerry-bus-account-${system?.status?.uuid}`, 'token');
  const publicKey = system?.status?.publicKey ?? '';
  const server = await startBusServer({
    operator: text('skerry-bus-operator', 'token'),
    system: { publicKey, token: () => token },
  });
  const lead = () => {
    let led: ReturnType<typeof createHubDelivery> | undefined;
    cluster.reconcile(replica, (deps) => {
      led = deliveryOf(deps);
      return [led.controller];
    });
    return led as ReturnType<typeof createHubDelivery>;
  };
  const deliveryOf = (deps: ControllerDependencies) => {
    const hub = { installation: 'skerry', appLabel: 'skerry', componentDomain: 'skerry.dev', image: 'x', replicas: 1 };
    const given = {
      ...deps,
      platform: { ...deps.platform, isBusEnabled: true },
      hub: { ...hub, serviceType: 'ClusterIP' as const },
    };
    // There is no name service here.
    const connect: typeof connectBus = (options) => connectBus({ ...options, servers: [server.url] });
    return createHubDelivery(given, busPartsOf(given), connect);
  };
  lead();
  await expect.poll(condition, { timeout }).toBe('True');
  // Another leader takes no member out of service.
  const version = async () => (await kube.get(`/api/v1/namespaces/${namespace}/pods/bus-0`))?.metadata.resourceVersion;
  const before = await version();
  const next = lead();
  await expect.poll(() => next.states.of.get('bus-0')?.isCurrent, { timeout }).toBe(true);
  await next.controller.whenIdle();
  expect(await version()).toBe(before);
  await server.kill();
  await expect.poll(condition, { timeout }).toBe('False');
  await server.start();
  await expect.poll(condition, { timeout }).toBe('True');
});
