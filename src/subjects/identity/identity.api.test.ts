import { setTimeout as pause } from 'node:timers/promises';
import { beforeAll, describe, expect, test } from 'vitest';
import type { TestClient } from '../../rest/_client.ts';
import { startTestCluster, type TestCluster } from '../../rest/_cluster.ts';

/** Logins of a whole controller, two replicas of it, over a real API server. */
const ADMIN = { email: 'root@plant.example', password: 'Correct-Horse-7' };
const ENV = {
  CONTROLLER_PUBLIC_URL: 'http://127.0.0.1:51121',
  OIDC_BOOTSTRAP_ADMIN_USERNAME: ' Root@Plant.example ',
  OIDC_BOOTSTRAP_ADMIN_PASSWORD: ADMIN.password,
};
/** The first administrator is made after the start. */
const turn = () => pause(300);
let cluster: TestCluster;
let clients: TestClient[];
let admin: TestClient;

const login = async (client: TestClient, json: object) => client.post('/user/login', { json });

beforeAll(async () => {
  cluster = await startTestCluster();
  clients = [(await cluster.startController(ENV)).client, (await cluster.startController(ENV)).client];
  for (const client of clients) while ((await login(client, ADMIN)).status !== 200) await turn();
  const { body } = await login(clients[0] as TestClient, ADMIN);
  admin = (clients[0] as TestClient).as(body.accessToken);
}, 90_000);

const first = () => clients[0] as TestClient;
const second = () => clients[1] as TestClient;

async function newUser(email: string, groups: string[] = ['viewer']) {
  const temporary = 'Temporary-Pass-1';
  const { status, body } = await admin.post('/users', { json: { email, password: temporary, groups } });
  expect(status).toBe(201);
  const { accessToken } = (await login(first(), { email, password: temporary })).body;
  const changed = await first()
    .as(accessToken)
    .post('/user/change-password', { json: { currentPassword: temporary, newPassword: ADMIN.password } });
  expect(changed.body).toEqual({ status: 'success' });
  return { id: body.id as string, email, ...(await login(second(), { email, password: ADMIN.password })).body };
}

test('the first administrator uses every replica, and its password has not to be changed', async () => {
  const { body } = await login(first(), { ...ADMIN, totp: '' });
  for (const client of clients) {
    expect((await client.as(body.accessToken).get('/node-list')).status).toBe(200);
    expect((await client.as(body.accessToken).get('/user/profile')).body).toMatchObject({
      email: ADMIN.email,
      preferred_username: ADMIN.email,
      groups: ['admin'],
      password_change_required: false,
      mfaEnabled: false,
    });
  }
});

test.each([
  ['a wrong password', { email: ADMIN.email, password: 'wrong' }],
  ['a password of half a mebibyte', { email: ADMIN.email, password: 'x'.repeat(2 ** 19) }],
  ['a user whom nobody has', { email: 'nobody@plant.example', password: ADMIN.password }],
])('a login with %s says the same words', async (_, json) => {
  const { status, body } = await login(first(), json);
  expect({ status, ...body }).toEqual({
    status: 401,
    name: 'AuthenticationError',
    code: 'INVALID_CREDENTIALS',
    message: 'the e-mail or the password is not right',
  });
});

test('a password that looks like an expression is compared as it is', async () => {
  const { status, body } = await login(first(), { email: ADMIN.email, password: '{{ 1 | plus: 1 }}' });
  expect([status, body.code]).toEqual([401, 'INVALID_CREDENTIALS']);
});

describe('a user with a temporary password', () => {
  test('has the profile and the change of the password alone, and then the same token opens everything', async () => {
    const email = 'ann@plant.example';
    await admin.post('/users', {
      json: { email: ' Ann@Plant.example', password: 'Temporary-Pass-1', groups: ['viewer'] },
    });
    const { body } = await login(second(), { email, password: 'Temporary-Pass-1' });
    const ann = second().as(body.accessToken);
    expect((await ann.get('/node-list')).body).toMatchObject({ code: 'PASSWORD_CHANGE_REQUIRED' });
    expect((await ann.post('/user/logout')).status).toBe(403);
    expect((await ann.get('/user/profile')).body).toMatchObject({ password_change_required: true });
    const change = (newPassword: string, currentPassword = 'Temporary-Pass-1') =>
      ann.post('/user/change-password', { json: { newPassword, currentPassword } });
    expect((await change(ADMIN.password, 'wrong')).status).toBe(401);
    const { status, body: refusal } = await change('short');
    expect([status, refusal.code]).toEqual([400, 'PASSWORD_NOT_ALLOWED']);
    expect(refusal.message.split('; ')).toHaveLength(3);
    expect((await change('Temporary-Pass-1')).status).toBe(400);
    expect((await change(ADMIN.password)).status).toBe(200);
    await expect.poll(async () => (await ann.get('/node-list')).status, { timeout: 10_000 }).toBe(200);
    expect((await first().post('/user/refresh', { json: { refreshToken: body.refreshToken } })).status).toBe(401);
  });
});

describe('a refresh', () => {
  test('counts once, at whatever replica', async () => {
    const { refreshToken } = await newUser('bob@plant.example');
    const refresh = (client: TestClient, token: string) =>
      client.post('/user/refresh', { json: { refreshToken: token } });
    const next = await refresh(second(), refreshToken);
    expect(next.status).toBe(200);
    await pause(600);
    expect((await refresh(first(), refreshToken)).body).toMatchObject({ code: 'INVALID_REFRESH_TOKEN' });
    expect((await refresh(first(), next.body.refreshToken)).body).toMatchObject({ code: 'INVALID_REFRESH_TOKEN' });
  });

  test('opens no route by its token', async () => {
    const { refreshToken } = await newUser('rita@plant.example');
    expect((await first().as(refreshToken).get('/user/profile')).status).toBe(401);
  });

  test('ends by a logout', async () => {
    const { accessToken, refreshToken } = await newUser('eve@plant.example');
    expect((await second().as(accessToken).post('/user/logout')).status).toBe(204);
    expect((await first().post('/user/refresh', { json: { refreshToken } })).status).toBe(401);
  });
});

describe('users', () => {
  test('are listed by e-mail, changed, and deleted', async () => {
    const { id } = await newUser('zoe@plant.example');
    const { body: users } = await admin.get('/users');
    const emails = users.map(({ email }: { email: string }) => email);
    expect(emails).toEqual([...emails].sort());
    expect(users.find((user: { id: string }) => user.id === id)).toMatchObject({
      groups: ['viewer'],
      mfaEnabled: false,
    });
    expect((await admin.patch(`/users/${id}`, { json: { groups: ['sre', 'nobody', 'none'] } })).body).toMatchObject({
      code: 'GROUPS_NOT_FOUND',
      message: 'groups: there is no group nobody, none',
    });
    const changed = await admin.patch(`/users/${id}`, { json: { email: 'Zoe.New@plant.example', groups: ['SRE'] } });
    expect(changed.body).toMatchObject({ id, email: 'zoe.new@plant.example', groups: ['sre'] });
    expect((await login(second(), { email: 'zoe@plant.example', password: ADMIN.password })).status).toBe(401);
    expect((await login(second(), { email: 'zoe.new@plant.example', password: ADMIN.password })).status).toBe(200);
    expect((await admin.delete(`/users/${id}`)).status).toBe(204);
    expect((await admin.get(`/users/${id}`)).body).toMatchObject({ code: 'USER_NOT_FOUND' });
    expect((await login(second(), { email: 'zoe.new@plant.example', password: ADMIN.password })).status).toBe(401);
  });

  test('have an e-mail once', async () => {
    const { email } = await newUser('max@plant.example');
    const { status, body } = await admin.post('/users', { json: { email, password: ADMIN.password } });
    expect([status, body.code]).toEqual([409, 'DUPLICATE_NAME']);
  });

  test('are refused with every violated rule', async () => {
    const { status, body } = await admin.post('/users', { json: { email: 'tom@plant.example', password: 'x' } });
    expect([status, body.code]).toEqual([400, 'PASSWORD_NOT_ALLOWED']);
    expect(body.message.split('; ')).toHaveLength(3);
    expect((await admin.post('/users', { json: { email: 'tom', password: ADMIN.password } })).status).toBe(400);
  });

  test('keep the first administrator, and nobody deletes the own account', async () => {
    const { body } = await admin.get('/user/profile');
    expect((await admin.delete(`/users/${body.sub}`)).body).toMatchObject({ code: 'OWN_ACCOUNT' });
    const other = await newUser('ada@plant.example', ['admin']);
    const { body: refusal } = await first().as(other.accessToken).delete(`/users/${body.sub}`);
    expect(refusal).toMatchObject({ code: 'BOOTSTRAP_USER' });
  });

  test('set a password by a reset token, once', async () => {
    const { id, refreshToken } = await newUser('kim@plant.example');
    const { body } = await admin.post(`/users/${id}/reset-token`);
    expect(body.expiresIn).toBe(3600);
    const set = (newPassword: string) =>
      second().post('/user/change-password', { json: { newPassword, resetToken: body.resetToken } });
    expect((await set('short')).status).toBe(400);
    expect((await set('Another-Horse-8')).status).toBe(200);
    expect((await set('Another-Horse-9')).body).toMatchObject({ code: 'INVALID_CREDENTIALS' });
    expect((await first().post('/user/refresh', { json: { refreshToken } })).status).toBe(401);
    expect((await login(first(), { email: 'kim@plant.example', password: 'Another-Horse-8' })).status).toBe(200);
  });

  test('get a temporary password, and lose their logins', async () => {
    const { id, email, refreshToken } = await newUser('lea@plant.example');
    const { body } = await admin.post(`/users/${id}/reset-password`);
    expect(body).toEqual({ temporaryPassword: expect.any(String), mustChangePassword: true });
    expect((await first().post('/user/refresh', { json: { refreshToken } })).status).toBe(401);
    expect((await login(second(), { email, password: body.temporaryPassword })).status).toBe(200);
  });

  test('are not administered without a role', async () => {
    const { accessToken, id } = await newUser('vic@plant.example', ['developer']);
    const vic = first().as(accessToken);
    expect((await vic.get('/users')).status).toBe(200);
    expect((await vic.patch(`/users/${id}`, { json: { groups: ['admin'] } })).status).toBe(403);
    expect((await vic.post('/users', { json: { email: 'w@plant.example', password: ADMIN.password } })).status).toBe(
      403,
    );
    expect((await vic.post('/auth/jwks/rotate')).status).toBe(403);
  });
});

test('a token of the cluster has a profile, and no password here', async () => {
  const client = first().as(await cluster.token('viewer'));
  expect((await client.get('/user/profile')).body).toMatchObject({
    preferred_username: `system:serviceaccount:${cluster.namespace}:viewer`,
    password_change_required: false,
  });
  expect((await client.post('/user/logout')).status).toBe(204);
  const json = { newPassword: ADMIN.password, currentPassword: 'x' };
  expect((await client.post('/user/change-password', { json })).status).toBe(400);
});

test('no Secret of a user can be mounted or listed', async () => {
  const { body } = await admin.get('/secrets');
  expect(JSON.stringify(body)).not.toContain('skerry-user');
});

test('logins are off at an address that others could read along', async () => {
  const { client } = await cluster.startController({ CONTROLLER_PUBLIC_URL: 'http://controller.example' });
  const { status, body } = await login(client, ADMIN);
  expect([status, body.message]).toEqual([
    501,
    'CONTROLLER_PUBLIC_URL: login needs https://, a loopback address, or AUTH_INSECURE_ALLOW_HTTP=true',
  ]);
});
