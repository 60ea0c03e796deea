import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { installCrds, startControlPlane } from '../hack/control-plane.ts';
import type { KubeObject } from '../hack/kube.ts';
import { API_VERSION } from '../src/api/names.ts';
import type { Secret } from '../src/api/resources.ts';
import type { BusAccount, BusHub, BusUser } from '../src/api/v3/index.ts';
import { decodeData } from '../src/datastore/keyed-text.ts';
import { accountSecretName, operatorSecretName, userSecretName } from '../src/subjects/bus-accounts/rules/secret.ts';
import { decodeToken } from '../src/subjects/bus-rules/rules/tokens/decode.ts';
import { busClient, startBusServer } from '../testing/bus.ts';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import { createStack, readyOf, until } from './_stack.ts';

/** etcd of a real control plane is set back while a real server of the bus has later tokens: no revocation is undone. */
const folder = temporaryFolder();
const cluster = await startControlPlane({ dir: join(folder, 'cluster') });
await installCrds(cluster.kubeconfig);
afterAll(() => cluster.stop(), 60_000);
const stack = await createStack({ kubeconfig: cluster.kubeconfig });
const controller = await stack.startController({ env: { BUS_ENABLED: 'true' } });
const rest = stack.rest(controller);

const texts = async (name: string): Promise<Readonly<Record<string, string>>> => {
  const secret = await stack.kube.get<Secret>(`/api/v1/namespaces/${stack.namespace}/secrets/${name}`);
  return decodeData(secret?.data);
};
const list = async <T>(plural: string) =>
  (await stack.kube.get<{ items: T[] }>(`/apis/${API_VERSION}/namespaces/${stack.namespace}/${plural}`))?.items ?? [];
const accountTexts = async (name: string): Promise<Readonly<Record<string, string>>> => {
  const found = (await list<BusAccount>('busaccounts')).find(({ spec }) => (spec.application ?? spec.name) === name);
  return found?.status?.uuid ? texts(accountSecretName(found.status.uuid)) : {};
};
/** A user of the account `shop` with its credentials; undefined while it has none. */
async function userOf(name: string) {
  const found = (await list<BusUser>('bususers')).find(({ spec }) => spec.account === 'shop' && spec.name === name);
  if (!found?.status?.uuid) return undefined;
  const { creds } = await texts(userSecretName(found.status.uuid));
  return creds !== undefined && found.status.publicKey ? { publicKey: found.status.publicKey, creds } : undefined;
}
async function send(method: string, path: string, expected: number, body?: object) {
  const answer = await rest(method, path, body);
  expect(answer.status, `${method} ${path}: ${JSON.stringify(answer.body)}`).toBe(expected);
}
/** Which renewal of the leader's Lease the datastore has. */
const renewal = async () => {
  const path = `/apis/coordination.k8s.io/v1/namespaces/${stack.namespace}/leases/skerry-controller`;
  return (await stack.kube.get<KubeObject>(path))?.metadata.resourceVersion;
};
const hubIsReady = () =>
  until('the hub to be ready', async () => readyOf((await list<BusHub>('bushubs'))[0] as never)?.status === 'True', {
    timeoutMs: 120_000,
  });

test('a restore of etcd undoes no revocation at a server of the bus, whose later tokens the controller takes over', async () => {
  await send('POST', '/application', 201, { name: 'shop', busConfig: { busAccess: true }, microservices: [] });
  for (const name of ['stays', 'gone']) await send('POST', '/bus/accounts/shop/users', 201, { name });
  const { token: operator = '' } = await until('the operator to have a token', async () => {
    const found = await texts(operatorSecretName());
    return found.token !== undefined && found;
  });
  const { token: systemToken = '' } = await until('the account of the servers to have a token', async () => {
    const found = await accountTexts('SYS');
    return found.token !== undefined && found;
  });
  const system = { publicKey: decodeToken(systemToken)?.sub ?? '', token: () => systemToken };
  const server = await startBusServer({ operator, system });
  await send('PUT', '/bus/hub', 200, { host: '127.0.0.1', serverPort: server.serverPort });
  await hubIsReady();
  const [stays, gone] = [await until('a user', () => userOf('stays')), await until('a user', () => userOf('gone'))];
  const isLetIn = (user: typeof stays) =>
    busClient(server.url, user).then(
      async (client) => {
        await client.close();
        return true;
      },
      () => false,
    );
  for (const user of [stays, gone]) expect(await isLetIn(user)).toBe(true);
  const snapshot = join(folder, 'snapshot');
  await cluster.whileDown((etcd) => cpSync(etcd, snapshot, { recursive: true }));
  const renewed = await renewal();

  const open = await busClient(server.url, gone);
  await send('DELETE', '/bus/accounts/shop/users/gone', 204);
  await open.closed();
  expect(await isLetIn(gone)).toBe(false);
  const later = decodeToken((await accountTexts('shop')).token ?? '');
  expect(Object.keys(later?.nats.revocations ?? {})).toEqual([gone.publicKey]);
  // By an older Lease the replica notices that etcd was set back.
  await until('the leader to renew its Lease', async () => (await renewal()) !== renewed);

  await cluster.whileDown((etcd) => {
    rmSync(etcd, { recursive: true, force: true });
    cpSync(snapshot, etcd, { recursive: true });
  });
  const adopted = await until(
    'the revocation to be in the datastore again',
    async () => {
      const token = decodeToken((await accountTexts('shop')).token ?? '');
      return token?.nats.revocations?.[gone.publicKey] !== undefined && token;
    },
    { timeoutMs: 120_000 },
  );
  expect(adopted.sub).toBe(later?.sub);
  expect(adopted.iat).toBeGreaterThan(later?.iat ?? Number.NaN);
  await hubIsReady();
  expect(await isLetIn(gone)).toBe(false);
  expect(await isLetIn(stays)).toBe(true);
  // Later revocations act as ever.
  await send('DELETE', '/bus/accounts/shop/users/stays', 204);
  await until('the server to refuse', async () => !(await isLetIn(stays)));
  expect(await isLetIn(gone)).toBe(false);
}, 600_000);
