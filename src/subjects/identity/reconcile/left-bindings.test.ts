import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import {
  type InMemoryController,
  NAMESPACE,
  startInMemoryController,
} from '../../../../testing/in-memory-controller.ts';
import { RefusedWrites } from '../../../../testing/refused-writes.ts';
import { API_VERSION, FIELD_MANAGERS } from '../../../api/names.ts';
import { CLUSTER_ROLE_BINDINGS, RBAC_GROUP, RBAC_RESOURCES, RBAC_VERSION } from '../../../api/rbac.ts';
import { CORE_RESOURCES } from '../../../api/resources.ts';
import type { AuthUser } from '../../../api/v3/auth-user.ts';
import { createLeftBindings } from '../../../identity/left-bindings.ts';
import { emailSecretName } from '../../../identity/secrets.ts';
import { createUserStore } from '../../../identity/user-store.ts';
import { ApiError, type KubeClient } from '../../../kube/mod.ts';
import { createStore } from '../../../kube/store.ts';
import { uuidOf } from '../../../rules/identity.ts';
import { authUserKind } from '../kinds/auth-user.ts';

/** Role bindings that name a user and that the controller may not change: of the installation, of other namespaces, of the cluster. */
let fleet: InMemoryController;
let refused: RefusedWrites;
beforeAll(async () => {
  fleet = await startInMemoryController(1);
  refused = new RefusedWrites(fleet);
}, 60_000);
afterAll(() => fleet[Symbol.asyncDispose]());
beforeEach(() => fleet.reset());
const never = new AbortController().signal;
const asRest = { fieldManager: FIELD_MANAGERS.rest };
const FORBIDDEN = { status: 403, reason: 'Forbidden', verbs: ['replace'] } as const;

/** The users as REST has them; `mayRead`: whether the account of the controller may list bindings. */
function users({ mayRead = true } = {}) {
  const { client } = fleet.cluster;
  const { authUsers, authGroups, secrets } = fleet.stores;
  const list = async () => {
    throw new ApiError(403, { reason: 'Forbidden' }, 'list');
  };
  const reading = mayRead ? client : ({ list } as unknown as KubeClient);
  return createUserStore({
    ...{ client, namespace: NAMESPACE, users: authUsers, groups: authGroups, now: () => fleet.time.now },
    left: createLeftBindings({ client: reading, prefix: 'skerry' }),
    secrets: createStore({ resource: secrets.resource, selection: { namespace: NAMESPACE } }),
  });
}
const newUser = (email: string, store = users()) =>
  store.create({ email, groups: [], hash: 'x', mustChangePassword: false }, never);
const binding = (name: string, email: string) => ({
  ...{ apiVersion: RBAC_VERSION, kind: 'RoleBinding', metadata: { name, namespace: NAMESPACE } },
  roleRef: { apiGroup: RBAC_GROUP, kind: 'Role', name: 'skerry-viewer' },
  subjects: [{ apiGroup: RBAC_GROUP, kind: 'User', name: `skerry:${email}` }],
});
const userCalled = (name: string) => fleet.stores.authUsers.get(NAMESPACE, name);
const ready = (name: string) => userCalled(name)?.status?.conditions?.find(({ type }) => type === 'Ready');

describe('a role binding that the API server lets the controller not change', () => {
  const bind = (email: string) => fleet.cluster.client.create(RBAC_RESOURCES.roleBindings, binding('strong', email));

  test('keeps its deleted user, with an event that names it, until a cluster admin has removed the name', async () => {
    const { uuid } = await newUser('ann@plant.example');
    await fleet.settle();
    await bind('ann@plant.example');
    refused.begin(FORBIDDEN, /^rolebindings\/strong$/, { lasts: true });
    await users().remove(uuid, never);
    await fleet.settle();
    expect(userCalled(uuid)?.metadata.deletionTimestamp).toBeDefined();
    expect(fleet.events.find(({ of }) => of === `AuthUser ${uuid}`)).toMatchObject({
      ...{ type: 'Warning', reason: 'RoleBindingRefused' },
      note: expect.stringContaining('a cluster admin removes it from strong'),
    });
    await expect(newUser('ann@plant.example')).rejects.toMatchObject({ status: 409, code: 'DUPLICATE_NAME' });

    refused.end();
    await fleet.cluster.client.delete(RBAC_RESOURCES.roleBindings, { namespace: NAMESPACE, name: 'strong' });
    await fleet.nextTerm();
    await expect.poll(() => userCalled(uuid)).toBeUndefined();
    await newUser('ann@plant.example');
  });

  test('keeps the former e-mail of its user, whose status says why', async () => {
    const spec = { email: 'bob@plant.example' };
    const metadata = { name: 'bob', namespace: NAMESPACE };
    const { client } = fleet.cluster;
    await client.create(authUserKind.resource, { apiVersion: API_VERSION, kind: 'AuthUser', metadata, spec }, asRest);
    await fleet.settle();
    await bind('bob@plant.example');
    refused.begin(FORBIDDEN, /^rolebindings\/strong$/, { lasts: true });
    const object = userCalled('bob') as AuthUser;
    await client.replace(authUserKind.resource, { ...object, spec: { email: 'rob@plant.example' } }, asRest);
    await fleet.settle();
    expect(ready('bob')).toMatchObject({ status: 'False', reason: 'RoleBindingRefused' });
    expect(userCalled('bob')?.status?.name).toBe('bob@plant.example');
    refused.end();
    await client.delete(RBAC_RESOURCES.roleBindings, { namespace: NAMESPACE, name: 'strong' });
  });
});

describe('an e-mail that a user has left', () => {
  const given = [CLUSTER_ROLE_BINDINGS, RBAC_RESOURCES.roleBindings] as const;
  const elsewhere = (resource: (typeof given)[number], email: string) => ({
    ...binding('guests', email),
    kind: resource.kind,
    metadata: { name: 'guests', ...(resource.namespaced && { namespace: 'harbour' }) },
  });
  /** A user who is deleted at once. */
  async function gone(email: string): Promise<string> {
    const { uuid } = await newUser(email);
    await fleet.settle();
    await users().remove(uuid, never);
    await fleet.settle();
    return uuid;
  }

  test('is free for the next user at once where no binding names it', async () => {
    await gone('eve@plant.example');
    expect((await newUser('eve@plant.example')).email).toBe('eve@plant.example');
  });

  test.each([
    ['ClusterRoleBinding', 'ClusterRoleBinding guests'],
    ['RoleBinding of another namespace', 'RoleBinding harbour/guests'],
  ])('is given to nobody while a %s names it', async (kind, shown) => {
    const { client } = fleet.cluster;
    const resource = kind === CLUSTER_ROLE_BINDINGS.kind ? CLUSTER_ROLE_BINDINGS : RBAC_RESOURCES.roleBindings;
    const email = `kim-${resource.plural}@plant.example`;
    const object = elsewhere(resource, email);
    const { uuid } = await newUser(email);
    await fleet.settle();
    await client.create(resource, object);
    await users().remove(uuid, never);
    await fleet.settle();
    // A claim may belong to a create that is under way for a minute.
    fleet.time.now += 300_000;
    await expect(newUser(email)).rejects.toMatchObject({
      ...{ status: 409, code: 'EMAIL_STILL_BOUND' },
      message: expect.stringContaining(`removes it from ${shown}`),
    });
    // Neither with kubectl: the name does not count.
    const metadata = { name: 'thief', namespace: NAMESPACE };
    const thief = { apiVersion: API_VERSION, kind: 'AuthUser', metadata, spec: { email } };
    await client.create(authUserKind.resource, thief, asRest);
    await fleet.settle();
    expect(ready('thief')).toMatchObject({ status: 'False', reason: 'EmailTaken' });
    await users().remove(uuidOf(userCalled('thief') as AuthUser), never);
    await client.delete(resource, { name: 'guests', namespace: object.metadata.namespace });
    await fleet.settle();
    expect((await newUser(email)).email).toBe(email);
  });

  test('is given to nobody by a controller that may not read bindings, until a cluster admin removes its Secret', async () => {
    const email = 'lea@plant.example';
    const { client } = fleet.cluster;
    await client.create(CLUSTER_ROLE_BINDINGS, elsewhere(CLUSTER_ROLE_BINDINGS, email));
    await gone(email);
    fleet.time.now += 300_000;
    const blind = users({ mayRead: false });
    await expect(newUser(email, blind)).rejects.toMatchObject({
      ...{ status: 409, code: 'EMAIL_STILL_BOUND' },
      message: expect.stringContaining('list rolebindings and clusterrolebindings'),
    });
    await client.delete(CORE_RESOURCES.secrets, { namespace: NAMESPACE, name: emailSecretName(email) });
    expect((await newUser(email, blind)).email).toBe(email);
    await client.delete(CLUSTER_ROLE_BINDINGS, { name: 'guests' });
  });
});
