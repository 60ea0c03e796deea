import { setTimeout as pause } from 'node:timers/promises';
import { beforeAll, describe, expect, test } from 'vitest';
import { waitFor } from '../../../hack/wait.ts';
import { API_VERSION } from '../../api/names.ts';
import { RBAC_RESOURCES } from '../../api/rbac.ts';
import { CORE_RESOURCES } from '../../api/resources.ts';
import type { AuthUser } from '../../api/v3/auth-user.ts';
import { decodeData } from '../../datastore/keyed-text.ts';
import { readRevisionKey } from '../../datastore/revision-key.ts';
import { silentLog } from '../../lib/log.ts';
import type { TestClient } from '../../rest/_client.ts';
import { poll, startTestCluster, type TestCluster } from '../../rest/_cluster.ts';
import { authUserKind } from './kinds/auth-user.ts';

/** What role bindings give to users by their e-mail, and what statuses say of their logins: two replicas over a real API server. */
const ENV = { CONTROLLER_PUBLIC_URL: 'http://127.0.0.1:51121' };
const PASSWORD = 'Correct-Horse-7';
let cluster: TestCluster;
let clients: TestClient[];
let admin: TestClient;

const secretOf = async (name: string) => {
  const ref = { namespace: cluster.namespace, name };
  return decodeData((await cluster.kube.find(CORE_RESOURCES.secrets, ref))?.data);
};
const login = (client: TestClient, email: string, password = PASSWORD) =>
  client.post('/user/login', { json: { email, password } });
const first = () => clients[0] as TestClient;
const second = () => clients[1] as TestClient;

let generated: string;
beforeAll(async () => {
  cluster = await startTestCluster();
  // An installation of this version, which gets an administrator.
  const { kube, namespace } = cluster;
  await readRevisionKey({ client: kube, namespace, log: silentLog }, new AbortController().signal);
  clients = [(await cluster.startController(ENV)).client, (await cluster.startController(ENV)).client];
  const isMade = async () => {
    const { password, state } = await secretOf('skerry-bootstrap-admin');
    if (state) generated = password ?? '';
    return state !== undefined;
  };
  await waitFor(isMade, { what: 'the first administrator' });
  const isKnown = async () =>
    (await Promise.all(clients.map(async (one) => (await login(one, 'admin', generated)).status))).join() === '200,200';
  await waitFor(isKnown, { what: 'both replicas to know it' });
  const { body } = await login(first(), 'admin', generated);
  await first()
    .as(body.accessToken)
    .post('/user/change-password', { json: { currentPassword: generated, newPassword: PASSWORD } });
  admin = first().as((await login(first(), 'admin')).body.accessToken);
}, 90_000);

/** A user with a password of its own. */
async function newUser(email: string, groups: string[] = []): Promise<string> {
  const temporary = 'Temporary-Pass-1';
  const { status, body } = await admin.post('/users', { json: { email, password: temporary, groups } });
  expect(status).toBe(201);
  const { accessToken } = (await login(first(), email, temporary)).body;
  const json = { currentPassword: temporary, newPassword: PASSWORD };
  expect((await first().as(accessToken).post('/user/change-password', { json })).status).toBe(200);
  return body.id;
}

const rules = [{ apiGroups: [''], resources: ['registries'], verbs: ['get', 'list'] }];
async function bind(name: string, ...emails: string[]): Promise<void> {
  await admin.post('/roles', { json: { name: 'registries', rules } });
  const subjects = emails.map((email) => ({ kind: 'User', name: email }));
  const { status } = await admin.post('/rolebindings', { json: { name, roleRef: { name: 'registries' }, subjects } });
  expect(status).toBe(201);
}
const boundBy = async (name: string) =>
  (await admin.get(`/rolebindings/${name}`)).body.subjects.map((one: { name: string }) => one.name);

/** What the API server says of a name, as kubectl gets it. It reads role bindings by a watch of its own, so that it says so a moment later. */
async function mayList(email: string): Promise<boolean> {
  const { namespace, kube } = cluster;
  const spec = {
    user: `skerry:${email}`,
    resourceAttributes: { namespace, group: 'skerry.dev', resource: 'registries', verb: 'list' },
  };
  const path = '/apis/authorization.k8s.io/v1/subjectaccessreviews';
  const { status } = await kube.request<{ status: { allowed: boolean } }>('POST', path, {
    ...{ apiVersion: 'authorization.k8s.io/v1', kind: 'SubjectAccessReview', spec },
  });
  return status.allowed;
}
const objectOf = async (uuid: string) =>
  (await cluster.kube.list(authUserKind.resource, { namespace: cluster.namespace })).items.find(
    ({ status, metadata }) => status?.uuid === uuid || metadata.name === uuid,
  ) as AuthUser;

test('the generated password of the first administrator is not stored any more once it has been changed', async () => {
  await poll(async () => (await secretOf('skerry-bootstrap-admin')).password).toBeUndefined();
  const { uuid, state } = await secretOf('skerry-bootstrap-admin');
  expect([uuid, state]).toEqual([expect.stringMatching(/^[0-9a-f-]{36}$/), 'generated']);
  // A replica that starts later makes no other administrator.
  const later = (await cluster.startController(ENV)).client;
  await poll(async () => (await login(later, 'admin')).status).toBe(200);
  const { body: users } = await admin.get('/users');
  expect(users.filter(({ isBootstrap }: { isBootstrap: boolean }) => isBootstrap)).toHaveLength(1);
});

describe('a user whom a role binding names', () => {
  test.each(['REST', 'kubectl'])(
    'keeps its permissions at every moment while %s gives it another e-mail, which nobody else can have then',
    async (door) => {
      const [before, after] = [`ann-${door}@plant.example`, `anna-${door}@plant.example`].map((one) =>
        one.toLowerCase(),
      ) as [string, string];
      const name = `bound-${door}`.toLowerCase();
      const id = await newUser(before);
      await bind(name, before, 'other@plant.example');
      const tokens = [(await login(first(), before)).body.accessToken];
      const seen = new Set<number>();
      const look = async () => {
        for (const token of tokens)
          for (const client of clients) seen.add((await client.as(token).get('/registries')).status);
      };
      await poll(async () => (await first().as(tokens[0]).get('/registries')).status).toBe(200);
      await poll(async () => (await second().as(tokens[0]).get('/registries')).status).toBe(200);
      await poll(async () => (await objectOf(id)).status?.name).toBe(before);
      let isOver = false;
      const polling = (async () => {
        while (!isOver) {
          await look();
          await pause(20);
        }
      })();
      if (door === 'REST') expect((await admin.patch(`/users/${id}`, { json: { email: after } })).status).toBe(200);
      else {
        const object = await objectOf(id);
        await cluster.kube.replace(authUserKind.resource, { ...object, spec: { ...object.spec, email: after } });
      }
      await poll(async () => (await objectOf(id)).status?.name).toBe(after);
      await poll(async () => (await login(second(), after)).status).toBe(200);
      tokens.push((await login(second(), after)).body.accessToken);
      await pause(300);
      isOver = true;
      await polling;
      expect([...seen]).toEqual([200]);
      // A token that says the former name is valid at kubectl for some time.
      await poll(async () => [await mayList(before), await mayList(after)]).toEqual([true, true]);
      expect(await boundBy(name)).toEqual([before, 'other@plant.example', after]);
      expect((await login(first(), before)).status).toBe(401);
      const taking = await admin.post('/users', { json: { email: before, password: PASSWORD } });
      expect([taking.status, taking.body.code]).toEqual([409, 'DUPLICATE_NAME']);
    },
  );

  test.each(['REST', 'kubectl'])('leaves nothing to the next user of its e-mail when %s deletes it', async (door) => {
    const email = `eve-${door}@plant.example`.toLowerCase();
    const name = `left-${door}`.toLowerCase();
    const id = await newUser(email);
    await bind(name, email, 'other@plant.example');
    await poll(() => mayList(email)).toBe(true);
    if (door === 'REST') expect((await admin.delete(`/users/${id}`)).status).toBe(204);
    else await cluster.kube.delete(authUserKind.resource, { namespace: cluster.namespace, name: id }, {});
    const create = async () => (await admin.post('/users', { json: { email, password: PASSWORD } })).status;
    await poll(create).toBe(201);
    await poll(() => mayList(email)).toBe(false);
    expect(await boundBy(name)).toEqual(['other@plant.example']);
  });

  test('is not made with kubectl under an e-mail that belongs to a former name', async () => {
    const id = await newUser('kim@plant.example');
    await bind('kim', 'kim@plant.example');
    await poll(async () => (await objectOf(id)).status?.name).toBe('kim@plant.example');
    await admin.patch(`/users/${id}`, { json: { email: 'kim-2@plant.example' } });
    await poll(async () => (await objectOf(id)).status?.name).toBe('kim-2@plant.example');
    const thief = {
      ...{ apiVersion: API_VERSION, kind: 'AuthUser' },
      metadata: { name: 'thief', namespace: cluster.namespace },
      spec: { email: 'kim@plant.example' },
    };
    await cluster.kube.create(authUserKind.resource, thief);
    const object = () =>
      cluster.kube.find(authUserKind.resource, { namespace: cluster.namespace, name: 'thief' }) as Promise<AuthUser>;
    const ready = async () => (await object()).status?.conditions?.find(({ type }) => type === 'Ready')?.reason;
    await poll(ready).toBe('EmailTaken');
    const { uuid = '' } = (await object()).status ?? {};
    const { body } = await admin.post(`/users/${uuid}/reset-password`);
    expect((await login(first(), 'kim@plant.example', body.temporaryPassword)).status).toBe(401);
  });
});

describe('the status of a user', () => {
  const mayLogIn = async (uuid: string) => {
    const { conditions = [] } = (await objectOf(uuid)).status ?? {};
    const { status, reason } = conditions.find(({ type }) => type === 'MayLogIn') ?? {};
    return `${status} ${reason}`;
  };

  test('says that it may log in once it has changed the temporary password', async () => {
    const { body } = await admin.post('/users', { json: { email: 'lea@plant.example', password: 'Temporary-Pass-1' } });
    await poll(() => mayLogIn(body.id)).toBe('False PasswordChangeRequired');
    const { accessToken } = (await login(first(), 'lea@plant.example', 'Temporary-Pass-1')).body;
    const json = { currentPassword: 'Temporary-Pass-1', newPassword: PASSWORD };
    await first().as(accessToken).post('/user/change-password', { json });
    await poll(() => mayLogIn(body.id)).toBe('True LoginPermitted');
  });

  test('says that it is locked, and that it owes a second factor', async () => {
    const id = await newUser('mia@plant.example', ['viewer']);
    await poll(() => mayLogIn(id)).toBe('True LoginPermitted');
    for (let i = 0; i < 5; i++) await login(second(), 'mia@plant.example', 'wrong');
    await poll(() => mayLogIn(id)).toBe('False Locked');
    await admin.post('/groups', { json: { name: 'careful', mfaRequired: true } });
    const { body } = await admin.post('/users', {
      json: { email: 'noa@plant.example', password: 'Temporary-Pass-1', groups: ['careful'] },
    });
    await poll(() => mayLogIn(body.id)).toBe('False MfaEnrollmentRequired');
  });

  test('says that a user of kubectl has no password, and which of its groups do not exist', async () => {
    const metadata = { name: 'by-kubectl', namespace: cluster.namespace };
    const spec = { email: 'kay@plant.example', groups: ['viewer', 'nobodies'] };
    await cluster.kube.create(authUserKind.resource, { apiVersion: API_VERSION, kind: 'AuthUser', metadata, spec });
    await poll(() => mayLogIn('by-kubectl')).toBe('False PasswordMissing');
    const { conditions = [] } = (await objectOf('by-kubectl')).status ?? {};
    expect(conditions.find(({ type }) => type === 'Ready')).toMatchObject({
      status: 'False',
      reason: 'GroupNotFound',
      message: 'there are no groups of these names: nobodies',
    });
  });
});

test('no binding of another subject loses anything', async () => {
  const { items } = await cluster.kube.list(RBAC_RESOURCES.roleBindings, { namespace: cluster.namespace });
  for (const { metadata, subjects } of items.filter(({ metadata: { name } }) => /^(bound|left)-/.test(name)))
    expect([metadata.name, JSON.stringify(subjects)]).toEqual([
      metadata.name,
      expect.stringContaining('skerry:other@plant.example'),
    ]);
});
