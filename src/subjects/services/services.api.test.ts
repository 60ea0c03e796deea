import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, inject, test } from 'vitest';
import { kubeFromFile, withToken } from '../../../hack/kube.ts';
import type {} from '../../../hack/testing/provided.ts';
import { atEnd } from '../../../testing/at-end.ts';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { testConfig } from '../../../testing/test-config.ts';
import { API_VERSION } from '../../api/names.ts';
import type { Service } from '../../api/v3/service.ts';
import { createApp } from '../../app.ts';
import { controllerRoles, namespaceManifests, serviceRoles } from '../../manifests/roles.ts';
import { startTestCluster } from '../../rest/_cluster.ts';
import { createLog } from '../../telemetry/log.ts';
import type { ClusterService } from './rules/cluster-service.ts';

/** Services in a cluster: a real API server, and controllers with the rights that the chart gives them. No pod runs here. */
const kube = await kubeFromFile(inject('kubeconfig'));
afterAll(() => kube.close());

const ENV = { ROUTERS_ENABLED: 'true', BRIDGE_PORTS_RANGE: '20000-20099' };
const timeout = 30_000;
const SPEC = {
  ...{ type: 'external', resource: 'db.example', targetPort: 5432 },
  ...{ servicePort: 80, clusterType: 'ClusterIP' },
};

async function start(env: Record<string, string> = ENV) {
  const cluster = await startTestCluster();
  const { namespace } = cluster;
  const manifests = [...namespaceManifests(namespace), ...controllerRoles(namespace), ...serviceRoles(namespace)];
  for (const manifest of manifests) if (manifest.kind !== 'Namespace') await kube.apply(manifest as never);
  const body = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: { expirationSeconds: 3600 } };
  const account = `/api/v1/namespaces/${namespace}/serviceaccounts/skerry-controller/token`;
  const { status } = await kube.request<{ status: { token: string } }>('POST', account, body);
  const kubeconfigFile = join(temporaryFolder(), 'kubeconfig');
  writeFileSync(kubeconfigFile, withToken(readFileSync(inject('kubeconfig'), 'utf8'), status.token));
  const ours = `/apis/${API_VERSION}/namespaces/${namespace}/services`;
  const core = `/api/v1/namespaces/${namespace}/services`;
  const get = <T>(path: string) => kube.get(path).catch(() => undefined) as Promise<T | undefined>;
  const service = (name: string) => get<Service>(`${ours}/${name}`);
  return {
    namespace,
    startController: () => cluster.startController(env, { kubeconfigFile }),
    /** The clock of its reconcilers runs so many times as fast. */
    async startFastController(times: number) {
      const begun = Date.now();
      const app = await createApp(
        testConfig(kubeconfigFile, namespace, env),
        { log: createLog({ level: 'silent', name: 'test' }) },
        { now: () => begun + (Date.now() - begun) * times },
      );
      atEnd(() => app[Symbol.asyncDispose]());
      await app.start();
    },
    service,
    inCluster: (name: string) => get<ClusterService>(`${core}/${name}`),
    create: (name: string, spec: object = SPEC) =>
      kube.request('POST', ours, {
        ...{ apiVersion: API_VERSION, kind: 'Service' },
        ...{ metadata: { name, namespace }, spec },
      }),
    merge: (name: string, patch: object) =>
      kube.request('PATCH', `${ours}/${name}`, patch, 'application/merge-patch+json'),
    remove: (name: string) => kube.request('DELETE', `${ours}/${name}`),
    core,
    async ready(name: string) {
      return (await service(name))?.status?.conditions?.find(({ type }) => type === 'Ready');
    },
  };
}

describe('a service in a cluster', () => {
  test('has its Service with the rights of the chart alone; a deleted one comes back, a changed one is put right', async () => {
    const { startController, create, merge, inCluster, ready, service, core } = await start();
    await startController();
    await create('db', { ...SPEC, tags: ['all', 'example.com/class: fast'] });
    await expect.poll(() => ready('db'), { timeout }).toMatchObject({ reason: 'HubPending' });
    const made = await inCluster('db');
    expect(made?.spec.ports).toMatchObject([{ port: 80, targetPort: 20_000, protocol: 'TCP' }]);
    expect(made?.metadata.ownerReferences).toMatchObject([{ kind: 'Service', apiVersion: API_VERSION, name: 'db' }]);
    expect(made?.metadata.annotations).toMatchObject({ all: '', 'example.com/class': 'fast' });

    await kube.request('DELETE', `${core}/db`);
    await expect.poll(async () => (await inCluster('db'))?.metadata.uid, { timeout }).not.toBe(made?.metadata.uid);
    await expect.poll(() => inCluster('db'), { timeout }).toBeDefined();
    const wrong = { metadata: { annotations: { all: null, mine: 'x' } }, spec: { selector: { app: 'mine' } } };
    await kube.request('PATCH', `${core}/db`, wrong, 'application/merge-patch+json');
    await expect
      .poll(async () => (await inCluster('db'))?.spec.selector, { timeout })
      .toEqual({ 'skerry.dev/component': 'router' });
    // An annotation of somebody else stays, and an annotation without a tag is deleted.
    await merge('db', { spec: { tags: ['plant'], clusterType: 'NodePort' } });
    await expect
      .poll(async () => (await inCluster('db'))?.metadata.annotations, { timeout })
      .toEqual({ plant: '', mine: 'x' });
    expect((await inCluster('db'))?.spec).toMatchObject({ type: 'NodePort' });
    expect((await service('db'))?.status).toMatchObject({ bridgePort: 20_000, provisioningStatus: 'pending' });
  });

  test('named like a Service of somebody else leaves that as it is, also when it is deleted', async () => {
    const { startController, create, remove, inCluster, ready, namespace } = await start();
    const foreign = { apiVersion: 'v1', kind: 'Service', metadata: { name: 'skerry', namespace } };
    await kube.apply({ ...foreign, spec: { ports: [{ port: 443 }], selector: { app: 'controller' } } } as never);
    const before = await inCluster('skerry');
    await startController();
    await create('skerry');
    await expect.poll(() => ready('skerry'), { timeout }).toMatchObject({ status: 'False', reason: 'NameTaken' });
    await remove('skerry');
    expect(await inCluster('skerry')).toEqual(before);
  });

  test('shows the address that the cluster gives its load balancer late, and is ready only then', async () => {
    const { startController, create, inCluster, ready, service, core } = await start();
    await startController();
    await create('web', { ...SPEC, clusterType: 'LoadBalancer' });
    await expect.poll(() => ready('web'), { timeout }).toMatchObject({ status: 'False', reason: 'AddressPending' });
    const status = { loadBalancer: { ingress: [{ ip: '192.0.2.7' }] } };
    await kube.request('PATCH', `${core}/web/status`, { status }, 'application/merge-patch+json');
    await expect.poll(() => ready('web'), { timeout }).toMatchObject({ reason: 'HubPending' });
    expect((await service('web'))?.status?.serviceEndpoint).toBe('192.0.2.7');
    expect(await inCluster('web')).toBeDefined();
  });

  test('fails after ten attempts when the cluster never gives its load balancer an address, and has it once there is one', async () => {
    const { startFastController, create, merge, service, ready, core } = await start();
    // An edit leads to the next look; all pauses between looks and attempts are over by then.
    await startFastController(20_000);
    await create('web', { ...SPEC, clusterType: 'LoadBalancer' });
    const status = async () => (await service('web'))?.status;
    let edits = 0;
    const look = async () => {
      await merge('web', { metadata: { labels: { edit: String(++edits) } } });
      return status();
    };
    await expect.poll(look, { timeout }).toMatchObject({ provisioningStatus: 'pending', attempts: 1 });
    const failed = {
      provisioningStatus: 'failed',
      attempts: 10,
      provisioningError: expect.stringContaining('no address'),
    };
    await expect.poll(look, { timeout: 90_000 }).toMatchObject(failed);
    expect(edits).toBeGreaterThan(50);
    expect(await ready('web')).toMatchObject({ status: 'False', reason: 'AddressPending' });
    expect((await status())?.serviceEndpoint).toBeUndefined();
    const late = { loadBalancer: { ingress: [{ hostname: 'lb.example' }] } };
    await kube.request('PATCH', `${core}/web/status`, { status: late }, 'application/merge-patch+json');
    await merge('web', { metadata: { annotations: { 'skerry.dev/reconcile': '1' } } });
    await expect.poll(async () => (await status())?.serviceEndpoint, { timeout }).toBe('lb.example');
    await expect.poll(() => ready('web'), { timeout }).toMatchObject({ reason: 'HubPending' });
  }, 150_000);
});

test('two replicas that create services at once give no port twice, and the next leader changes none', async () => {
  const { startController, create, service } = await start();
  const first = await startController();
  const second = await startController();
  const names = Array.from({ length: 20 }, (_, i) => `s-${i}`);
  await Promise.all(names.map((name) => create(name)));
  const ports = () => Promise.all(names.map(async (name) => (await service(name))?.status?.bridgePort));
  await expect.poll(async () => (await ports()).filter((one) => one === undefined), { timeout }).toEqual([]);
  const given = await ports();
  expect(new Set(given).size).toBe(20);
  expect(Math.max(...(given as number[]))).toBe(20_019);
  await first.app[Symbol.asyncDispose]();
  await create('last');
  await expect.poll(async () => (await service('last'))?.status?.bridgePort, { timeout }).toBe(20_020);
  expect(await ports()).toEqual(given);
  await second.app[Symbol.asyncDispose]();
});
