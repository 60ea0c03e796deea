import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, inject, test } from 'vitest';
import { kubeFromFile, withToken } from '../../../hack/kube.ts';
import type {} from '../../../hack/testing/provided.ts';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import type { Condition } from '../../api/meta.ts';
import { API_VERSION } from '../../api/names.ts';
import type { RouterHub } from '../../api/v3/router-hub.ts';
import { controllerRoles, namespaceManifests, routerHubRoles } from '../../manifests/roles.ts';
import { startTestCluster } from '../../rest/_cluster.ts';

/** The default router in a cluster: a real API server, and a controller with the rights that the chart gives it. No pod runs here. */
const kube = await kubeFromFile(inject('kubeconfig'));
afterAll(() => kube.close());

const ENV = { ROUTERS_ENABLED: 'true', ROUTER_HUB: 'true', ROUTER_HUB_IMAGE: 'mirror.example/router:3' };
const timeout = 30_000;

async function start() {
  const cluster = await startTestCluster();
  const { namespace } = cluster;
  const manifests = [...namespaceManifests(namespace), ...controllerRoles(namespace), ...routerHubRoles(namespace)];
  for (const manifest of manifests) if (manifest.kind !== 'Namespace') await kube.apply(manifest as never);
  const body = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: { expirationSeconds: 3600 } };
  const account = `/api/v1/namespaces/${namespace}/serviceaccounts/skerry-controller/token`;
  const { status } = await kube.request<{ status: { token: string } }>('POST', account, body);
  const kubeconfigFile = join(temporaryFolder(), 'kubeconfig');
  writeFileSync(kubeconfigFile, withToken(readFileSync(inject('kubeconfig'), 'utf8'), status.token));
  const paths = {
    workload: `/apis/apps/v1/namespaces/${namespace}/deployments/router`,
    service: `/api/v1/namespaces/${namespace}/services/router`,
    pod: `/api/v1/namespaces/${namespace}/services/router-internal`,
    network: `/apis/networking.k8s.io/v1/namespaces/${namespace}/networkpolicies/router`,
    config: `/api/v1/namespaces/${namespace}/configmaps/skerry-router`,
    hub: `/apis/${API_VERSION}/namespaces/${namespace}/routerhubs/default-router`,
  };
  // biome-ignore lint/suspicious/noExplicitAny: objects of many kinds
  const get = (which: keyof typeof paths): Promise<any> => kube.get(paths[which]).catch(() => undefined);
  return {
    namespace,
    paths,
    get,
    startController: (env: Record<string, string> = {}) =>
      cluster.startController({ ...ENV, ...env }, { kubeconfigFile }),
    ready: async () =>
      ((await get('hub')) as RouterHub | undefined)?.status?.conditions?.find(
        ({ type }: Condition) => type === 'Ready',
      ),
    merge: (which: keyof typeof paths, change: object) =>
      kube.request('PATCH', paths[which], change, 'application/merge-patch+json'),
  };
}

describe('an installation that makes its default router', () => {
  test('has it from the start, with the rights of the chart alone, and ends it once the router is elsewhere', async () => {
    const { get, ready, namespace, merge, startController } = await start();
    await startController();
    await expect.poll(() => get('workload'), { timeout }).toBeDefined();
    const workload = await get('workload');
    expect(workload.spec).toMatchObject({ replicas: 1, strategy: { type: 'Recreate' } });
    expect(workload.spec.template.spec.containers[0].image).toBe('mirror.example/router:3');
    for (const which of ['workload', 'service', 'network', 'config'] as const)
      expect((await get(which)).metadata.ownerReferences).toMatchObject([
        { kind: 'RouterHub', name: 'default-router' },
      ]);
    await expect.poll(ready, { timeout }).toMatchObject({ status: 'False', reason: 'RouterHubBehind' });
    expect((await get('hub')).status).toMatchObject({ host: `router.${namespace}.svc`, isCurrent: false });
    await merge('hub', { spec: { isExternal: true, host: 'router.example' } });
    for (const which of ['workload', 'service', 'network'] as const)
      await expect.poll(() => get(which), { timeout }).toBeUndefined();
  });

  test('has the same ports at nodes of the cluster and at its Service, once it is of the type NodePort with such ports', async () => {
    const { get, merge, startController } = await start();
    await startController();
    await expect.poll(() => get('service'), { timeout }).toBeDefined();
    const spec = { serviceType: 'NodePort', host: '192.0.2.10', edgeRouterPort: 30_672, interRouterPort: 30_673 };
    await merge('hub', { spec });
    const ports = async () => (await get('service')).spec.ports;
    await expect.poll(ports, { timeout }).toMatchObject([
      { name: 'amqps', port: 5_671 },
      { name: 'edge', port: 30_672, nodePort: 30_672 },
      { name: 'inter-router', port: 30_673, nodePort: 30_673 },
    ]);
    await expect.poll(async () => (await get('hub')).status.host, { timeout }).toBe('192.0.2.10');
    await merge('hub', { spec: { serviceType: 'ClusterIP' } });
    await expect
      .poll(async () => (await ports()).map((port: object) => 'nodePort' in port), { timeout })
      .not.toContain(true);
  });

  test('has a Service that leads to every port of its pod while services are dialed, and ends it with that', async () => {
    const { get, startController } = await start();
    const dialing = await startController({ SKERRY_DIAL_SERVICES: 'true' });
    await expect.poll(() => get('pod'), { timeout }).toBeDefined();
    expect((await get('pod')).spec).toMatchObject({
      clusterIP: 'None',
      selector: (await get('service')).spec.selector,
    });
    await dialing.app[Symbol.asyncDispose]();
    await startController();
    await expect.poll(() => get('pod'), { timeout }).toBeUndefined();
    expect(await get('service')).toBeDefined();
  });

  test('keeps the pairs of others in its ConfigMap, puts its own right, and names a pair that no router starts with', async () => {
    const { get, ready, merge, startController } = await start();
    await startController();
    const pairs = async () => JSON.parse((await get('config'))?.data['skrouterd.json'] ?? '[]') as [string, object][];
    await expect.poll(pairs, { timeout }).toContainEqual(['listener', expect.objectContaining({ name: 'amqps' })]);
    const own = await pairs();
    const foreign = ['address', { prefix: 'plant', distribution: 'closest' }] as const;
    const edited = [...own.filter(([entity]) => entity !== 'listener'), foreign, ['gateway', { name: 'x' }]];
    await merge('config', { data: { 'skrouterd.json': JSON.stringify(edited) } });
    await expect.poll(pairs, { timeout }).toEqual(expect.arrayContaining([...own, foreign]));
    expect(await pairs()).not.toContainEqual(['gateway', { name: 'x' }]);
    await expect.poll(ready, { timeout }).toMatchObject({ status: 'False' });
  });

  test('leaves a Service of somebody else as it is, and says so', async () => {
    const { get, ready, namespace, startController } = await start();
    const service = { apiVersion: 'v1', kind: 'Service', metadata: { name: 'router', namespace } };
    await kube.apply({ ...service, spec: { ports: [{ port: 80 }], selector: { app: 'trains' } } } as never);
    await startController();
    await expect
      .poll(ready, { timeout })
      .toMatchObject({ reason: 'RouterHubTaken', message: expect.stringContaining('Service router') });
    expect((await get('service')).spec.selector).toEqual({ app: 'trains' });
    expect(await get('workload')).toBeUndefined();
  });
});
