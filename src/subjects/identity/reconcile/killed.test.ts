import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import {
  type InMemoryController,
  NAMESPACE,
  startInMemoryController,
} from '../../../../testing/in-memory-controller.ts';
import { createLeaderKills } from '../../../../testing/leader-kills.ts';
import { API_VERSION, FIELD_MANAGERS } from '../../../api/names.ts';
import { RBAC_GROUP, RBAC_RESOURCES, RBAC_VERSION } from '../../../api/rbac.ts';
import type { AuthUser } from '../../../api/v3/auth-user.ts';
import { decodeData } from '../../../datastore/keyed-text.ts';
import { createLeftBindings } from '../../../identity/left-bindings.ts';
import { emailSecretName } from '../../../identity/secrets.ts';
import { createUserStore } from '../../../identity/user-store.ts';
import { createStore } from '../../../kube/store.ts';
import { uuidOf } from '../../../rules/identity.ts';
import { authUserKind } from '../kinds/auth-user.ts';
import { FORMER_NAME_MS, nameOfUser, namesOfUser } from '../rules/names-of-user.ts';

/**
 * A leader that is killed before or after each of its writes, while users who are named by role bindings get other e-mails and end: nobody
 * is without a permission, and no e-mail that a binding names is free for somebody else.
 */
let fleet: InMemoryController;
let kills: ReturnType<typeof createLeaderKills>;
const amiss: string[] = [];
/** E-mails that users have had in this story, and the object of the user. */
const emails = new Map<string, string>();

beforeAll(async () => {
  fleet = await startInMemoryController(1);
  kills = createLeaderKills(fleet, {
    resources: new Set(['authusers', 'rolebindings', 'secrets']),
    deletedByLeader: new Set(['secrets']),
    countsStatuses: true,
    onWritten: () => check('after a write of the leader'),
  });
}, 60_000);
afterAll(() => fleet[Symbol.asyncDispose]());
beforeEach(() => fleet.reset());
const never = new AbortController().signal;

const userOf = (name: string) => fleet.stores.authUsers.get(NAMESPACE, name);
const subjects = (binding: string) =>
  (fleet.stores.roleBindings.get(NAMESPACE, binding)?.subjects ?? []).map(({ name }) => name.replace('skerry:', ''));
const bindings = () => fleet.stores.roleBindings.list().map(({ metadata }) => metadata.name);

/** Holds at every moment. */
function check(when: string): void {
  for (const [email, name] of emails) {
    const isBound = bindings().some((binding) => subjects(binding).includes(email));
    if (!isBound) continue;
    const claim = decodeData(fleet.stores.secrets.get(NAMESPACE, emailSecretName(email))?.data);
    const user = userOf(name);
    if (claim.object !== name || !user || !namesOfUser(user).includes(email))
      amiss.push(`${when}: a binding names ${email}, which somebody else can take`);
  }
  for (const name of new Set(emails.values())) {
    const user = userOf(name);
    if (!user || user.metadata.deletionTimestamp || !isGiven.has(name)) continue;
    if (!subjects('line').includes(nameOfUser(user))) amiss.push(`${when}: ${nameOfUser(user)} has no permission`);
  }
}
/** users whom the binding `line` names from the start */
const isGiven = new Set<string>();

async function story(): Promise<string[]> {
  amiss.length = 0;
  emails.clear();
  isGiven.clear();
  const { client } = fleet.cluster;
  const { authUsers: users, authGroups: groups } = fleet.stores;
  const rest = createUserStore({
    ...{ client, namespace: NAMESPACE, users, groups, now: () => fleet.time.now },
    left: createLeftBindings({ client, prefix: 'skerry' }),
    secrets: createStore({ resource: fleet.stores.secrets.resource, selection: { namespace: NAMESPACE } }),
  });
  const asRest = { fieldManager: FIELD_MANAGERS.rest };
  const id = randomUUID().slice(0, 8);
  const [ann, bob, eve] = ['ann', 'bob', 'eve'].map((one) => `${one}-${id}@plant.example`) as [string, string, string];
  const settled = async (what: string) => {
    await kills.settled();
    check(what);
  };

  const stored = await rest.create({ email: ann, groups: [], hash: 'x', mustChangePassword: false }, never);
  const ofAnn = stored.uuid;
  emails.set(ann, ofAnn);
  await settled('created');
  const ofBob = `bob-${id}`;
  const byKubectl = {
    ...{ apiVersion: API_VERSION, kind: 'AuthUser' },
    metadata: { name: ofBob, namespace: NAMESPACE },
    spec: { email: bob },
  };
  await client.create(authUserKind.resource, byKubectl, asRest);
  emails.set(bob, ofBob);
  await settled('created by kubectl');
  const subject = (email: string) => ({ apiGroup: RBAC_GROUP, kind: 'User', name: `skerry:${email}` });
  const binding = (name: string, of: string[]) => ({
    ...{ apiVersion: RBAC_VERSION, kind: 'RoleBinding', metadata: { name, namespace: NAMESPACE } },
    roleRef: { apiGroup: RBAC_GROUP, kind: 'Role', name: 'skerry-viewer' },
    subjects: of.map(subject),
  });
  await client.create(RBAC_RESOURCES.roleBindings, binding('line', [ann, bob, eve]), asRest);
  isGiven.add(ofAnn).add(ofBob);

  // Twice in a row, so that the leader may see the second e-mail alone.
  const others = [`ann-2-${id}@plant.example`, `ann-3-${id}@plant.example`] as const;
  for (const email of others) {
    emails.set(email, ofAnn);
    await rest.rename(ofAnn, email, never);
  }
  await settled('renamed');
  const [between, renamed] = [`bob-2-${id}@plant.example`, `bob-3-${id}@plant.example`];
  for (const email of [between, renamed]) {
    emails.set(email, ofBob);
    const object = userOf(ofBob) as AuthUser;
    await client.replace(authUserKind.resource, { ...object, spec: { ...object.spec, email } }, asRest);
    // A leader that died here knew of the first of the two.
    if (email === between) await fleet.settle();
  }
  await settled('renamed by kubectl');
  for (const [name, email, former] of [
    [ofAnn, others[1], ann],
    [ofBob, renamed, bob],
  ] as const) {
    if (userOf(name)?.status?.name !== email) amiss.push(`${email} does not count yet`);
    if (!subjects('line').includes(former)) amiss.push(`tokens that say ${former} have lost their permission`);
  }
  const taken = await rest
    .create({ email: ann, groups: [], hash: 'x', mustChangePassword: false }, never)
    .catch(({ status }) => status);
  if (taken !== 409) amiss.push('a former e-mail that a binding names was given away');

  fleet.time.now += FORMER_NAME_MS + 1_000;
  await fleet.nextTerm();
  await settled('an hour later');
  for (const former of [ann, bob, between, others[0]])
    if (subjects('line').includes(former)) amiss.push(`an hour later a binding still names ${former}`);
  if (userOf(ofAnn)?.status?.formerEmails || userOf(ofAnn)?.metadata.annotations?.['skerry.dev/former-emails'])
    amiss.push('an hour later the user still has former e-mails');
  const heir = await rest.create({ email: ann, groups: [], hash: 'x', mustChangePassword: false }, never);
  emails.set(ann, heir.uuid);
  await settled('a former e-mail is given to somebody else');

  isGiven.clear();
  await rest.remove(ofAnn, never);
  await client.delete(authUserKind.resource, { namespace: NAMESPACE, name: ofBob }, { preconditions: {} });
  await settled('deleted');
  for (const name of [ofAnn, ofBob]) if (userOf(name)) amiss.push(`${name} is not gone`);
  if (subjects('line').join() !== eve) amiss.push(`the binding names ${subjects('line').join()} in the end`);
  const again = await rest
    .create({ email: renamed, groups: [], hash: 'x', mustChangePassword: false }, never)
    .then(({ uuid }) => emails.set(renamed, uuid))
    .catch(() => undefined);
  // A leader that was killed before it freed the e-mail leaves that to the next user of it, a minute after.
  const claim = fleet.stores.secrets.get(NAMESPACE, emailSecretName(renamed));
  if (!again && Date.parse(claim?.metadata.creationTimestamp ?? '') + 60_000 < fleet.time.now)
    amiss.push('the e-mail of a deleted user cannot be used again');
  await settled('given again');
  await client.delete(RBAC_RESOURCES.roleBindings, { namespace: NAMESPACE, name: 'line' }, {});
  for (const user of fleet.stores.authUsers.list()) await rest.remove(uuidOf(user), never);
  await settled('all deleted');
  return [...amiss];
}

test(
  'a leader that is killed before or after any write takes no permission of a user, and gives away no e-mail that a binding names',
  async () => {
    const { writes, found } = await kills.everyKill(story);
    expect(found).toEqual([]);
    expect(writes.length).toBeGreaterThan(15);
  },
  process.env.SKERRY_NIGHTLY ? 3_600_000 : 120_000,
);
