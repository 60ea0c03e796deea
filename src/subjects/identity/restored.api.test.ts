import { expect, test } from 'vitest';
import { LEASES } from '../../kube/mod.ts';
import { type RunningController, startTestCluster } from '../../rest/_cluster.ts';

/** Logins of before a pause in which no replica ran: the datastore may have been restored from a snapshot meanwhile. */
const ADMIN = { email: 'root@plant.example', password: 'Correct-Horse-7' };
const ENV = {
  CONTROLLER_PUBLIC_URL: 'http://127.0.0.1:51121',
  OIDC_BOOTSTRAP_ADMIN_USERNAME: ADMIN.email,
  OIDC_BOOTSTRAP_ADMIN_PASSWORD: ADMIN.password,
};

test('a refresh token outlives a restart of the controller, and not a pause that a restore may have been in', async () => {
  const cluster = await startTestCluster();
  const start = async () => {
    const running = await cluster.startController(ENV);
    await expect.poll(async () => (await login(running)).status, { timeout: 30_000, interval: 200 }).toBe(200);
    return running;
  };
  const login = ({ client }: RunningController) => client.post('/user/login', { json: ADMIN });
  const refresh = ({ client }: RunningController, refreshToken: string) =>
    client.post('/user/refresh', { json: { refreshToken } });

  const first = await start();
  const { body } = await login(first);
  await expect.poll(() => first.app.isLeading, { timeout: 30_000 }).toBe(true);
  await first.app[Symbol.asyncDispose]();

  const second = await start();
  const kept = await refresh(second, body.refreshToken);
  expect(kept.status).toBe(200);
  await expect.poll(() => second.app.isLeading, { timeout: 30_000 }).toBe(true);
  await second.app[Symbol.asyncDispose]();

  const ref = { namespace: cluster.namespace, name: 'skerry-controller' };
  const renewTime = new Date(Date.now() - 180_000).toISOString().replace('Z', '000Z');
  await cluster.kube.patch(LEASES, ref, { type: 'merge', body: { spec: { renewTime } } });
  const third = await start();
  expect((await refresh(third, kept.body.refreshToken)).body).toMatchObject({ code: 'INVALID_REFRESH_TOKEN' });
  const again = await login(third);
  expect((await refresh(third, again.body.refreshToken)).status).toBe(200);
}, 120_000);
