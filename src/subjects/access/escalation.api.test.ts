import { KubeConfig } from '@kubernetes/client-node';
import { expect, inject, test } from 'vitest';
import { createKube, type Kube } from '../../../hack/kube.ts';
import { waitFor } from '../../../hack/wait.ts';
import { atEnd } from '../../../testing/at-end.ts';
import { draws } from '../../../testing/draws.ts';
import { createRbacModel, givenTooMuch, isCovered } from '../../../testing/rbac-model.ts';
import { API_VERSION } from '../../api/names.ts';
import { RBAC_RESOURCES } from '../../api/rbac.ts';
import { admissionPolicies } from '../../manifests/policies.ts';
import type { TestClient } from '../../rest/_client.ts';
import { startTestCluster } from '../../rest/_cluster.ts';
import { uuidOf } from '../../rules/identity.ts';
import { KINDS } from '../kinds.ts';

/**
 * Whoever writes roles, bindings, users and groups gives nobody what they do not have, over REST and with kubectl: random operations of
 * five users with random permissions, and a model that works out from the objects what everybody has. SKERRY_FUZZ_SEED repeats a run.
 */
const isNightly = process.env.SKERRY_NIGHTLY !== undefined;
const SEED = Number(process.env.SKERRY_FUZZ_SEED ?? (isNightly ? Date.now() % 2 ** 31 : 1));
const ATTEMPTS = isNightly ? 2_000 : 80;
const PASSWORD = 'Correct-Horse-7';
const ADMIN = 'root@plant.example';
const PREFIX = 'skerry';
/** A permission that was taken away counts at most so long. */
const STALE_MS = 2_000;

const RESOURCES = ['models', 'knowledge', 'services', 'registries'] as const;
const VERBS = ['get', 'list', 'create', 'delete'] as const;
const GROUPS = ['g0', 'g1', 'g2', 'g3'] as const;
const ACTORS = [0, 1, 2, 3, 4].map((i) => `actor-${i}@plant.example`);
const OTHERS = [0, 1, 2, 3].map((i) => `user-${i}@plant.example`);
const FREE_NAMES = ['pre-0@plant.example', 'pre-1@plant.example'];
const WRITE = ['get', 'list', 'watch', 'create', 'update', 'patch', 'delete'];

test(
  `nobody gives more than they have, by a role, a binding, a membership or a password (seed ${SEED})`,
  async () => {
    const { next, pick, some } = draws(SEED);
    const cluster = await startTestCluster();
    const { kube, namespace } = cluster;
    const config = new KubeConfig();
    config.loadFromFile(inject('kubeconfig'));
    const credentials: Record<string, unknown> = {};
    await config.applyToHTTPSOptions(credentials);
    const server = config.getCurrentCluster()?.server ?? '';
    const kubes: Kube[] = [];
    const as = (name: string, groups: readonly string[]): Kube => {
      const given = groups.map((one) => `${PREFIX}:${one}`);
      const headers = {
        ...(credentials.headers as object),
        'impersonate-user': `${PREFIX}:${name}`,
        'impersonate-group': ['system:authenticated', ...given],
      };
      const made = createKube(server, { ...credentials, headers });
      kubes.push(made);
      return made;
    };
    const root = createKube(server, credentials);
    const policies = (admissionPolicies(namespace) as { kind: string; metadata: { name: string } }[]).filter(({ metadata }) =>
      /^skerry-(own-roles|groups-of-users|groups|system-groups)\./.test(metadata.name),
    );
    atEnd(async () => {
      for (const { kind, metadata } of policies) {
        const plural =
          kind === 'ValidatingAdmissionPolicy' ? 'validatingadmissionpolicies' : 'validatingadmissionpolicybindings';
        await root.request('DELETE', `/apis/admissionregistration.k8s.io/v1/${plural}/${metadata.name}`);
      }
      for (const one of [root, ...kubes]) one.close();
    });

    const { client } = await cluster.startController({
      CONTROLLER_PUBLIC_URL: 'http://127.0.0.1:51121',
      OIDC_BOOTSTRAP_ADMIN_USERNAME: ADMIN,
      OIDC_BOOTSTRAP_ADMIN_PASSWORD: PASSWORD,
      AUTH_RATE_LIMIT_ENABLED: 'false',
    });
    const login = (email: string) => client.post('/user/login', { json: { email, password: PASSWORD } });
    await waitFor(async () => (await login(ADMIN)).status === 200, { what: 'the first administrator' });
    const admin = client.as((await login(ADMIN)).body.accessToken);

    // What everybody has in the beginning: made by the admin of the cluster.
    const role = (name: string, rules: object[]) => ({
      ...{ apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'Role', metadata: { name, labels: LABEL('role') }, rules },
    });
    const binding = (name: string, of: string, subjects: readonly { kind: string; name: string }[]) => ({
      ...{ apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'RoleBinding' },
      metadata: { name, labels: LABEL('binding') },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: of },
      subjects: subjects.map(({ kind, name: called }) => ({
        ...{ apiGroup: 'rbac.authorization.k8s.io', kind, name: `${PREFIX}:${called}` },
      })),
    });
    const rule = () => ({
      apiGroups: ['skerry.dev'],
      resources: some(RESOURCES, 2),
      verbs: some(VERBS, 2),
      ...(next(4) === 0 && { resourceNames: [`n${next(2)}`] }),
    });
    const bindRule = () => ({
      apiGroups: ['skerry.dev'],
      resources: [pick(['roles', 'authgroups'])],
      verbs: ['bind'],
      resourceNames: [pick([...GROUPS, 'r0', 'r1', 'r2', 'viewer'])],
    });
    const subject = () =>
      next(2) === 0
        ? { kind: 'Group', name: pick(GROUPS) }
        : { kind: 'User', name: pick([...ACTORS, ...OTHERS, ...FREE_NAMES]) };
    const rbacPath = (plural: string) => `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}/${plural}`;
    const ours = (plural: string) => `/apis/${API_VERSION}/namespaces/${namespace}/${plural}`;
    await root.request(
      'POST',
      rbacPath('roles'),
      role('managers', [
        { apiGroups: ['skerry.dev'], resources: ['roles', 'rolebindings', 'authusers', 'authgroups'], verbs: WRITE },
        { apiGroups: ['rbac.authorization.k8s.io'], resources: ['roles', 'rolebindings'], verbs: WRITE },
      ]),
    );
    await root.request(
      'POST',
      rbacPath('rolebindings'),
      binding('managers', 'managers', [{ kind: 'Group', name: 'managers' }]),
    );
    const roleNames = Array.from({ length: 16 }, (_, i) => `r${i}`);
    for (const [i, name] of roleNames.entries()) {
      const rules = [rule(), ...(next(3) === 0 ? [rule()] : []), ...(i % 5 === 0 ? [bindRule()] : [])];
      await root.request('POST', rbacPath('roles'), role(name, rules));
    }
    for (let i = 0; i < 18; i++)
      await root.request('POST', rbacPath('rolebindings'), binding(`b${i}`, pick(roleNames), [subject(), subject()]));
    for (const name of ['managers', ...GROUPS]) await admin.post('/groups', { json: { name } });
    const uuids = new Map<string, string>();
    for (const email of [...ACTORS, ...OTHERS]) {
      const groups = [...(ACTORS.includes(email) ? ['managers'] : []), ...(next(3) > 0 ? some(GROUPS, 2) : [])];
      const { status, body } = await admin.post('/users', { json: { email, password: 'Temporary-Pass-1', groups } });
      expect(status).toBe(201);
      uuids.set(email, body.id);
    }
    const rest = new Map<string, TestClient>();
    for (const email of ACTORS) {
      const { body } = await client.post('/user/login', { json: { email, password: 'Temporary-Pass-1' } });
      const json = { currentPassword: 'Temporary-Pass-1', newPassword: PASSWORD };
      await client.as(body.accessToken).post('/user/change-password', { json });
      rest.set(email, client.as((await login(email)).body.accessToken));
    }
    for (const manifest of policies) await root.apply(manifest as never);
    const probe = as('nobody@plant.example', ['managers']);
    const isRefused = () =>
      probe.request('DELETE', `${rbacPath('rolebindings')}/skerry-viewer?dryRun=All`).then(
        () => false,
        (error: Error) => /belong to the installation/.test(error.message),
      );
    await waitFor(isRefused, { what: 'the policies to act' });

    async function look() {
      const [roles, bindings, users, groups] = await Promise.all([
        kube.list(RBAC_RESOURCES.roles, { namespace }),
        kube.list(RBAC_RESOURCES.roleBindings, { namespace }),
        kube.list(KINDS.authUsers.resource, { namespace }),
        kube.list(KINDS.authGroups.resource, { namespace }),
      ]);
      const groupOf = (name: string) => {
        const named = groups.items.find(({ spec, metadata }) => (spec.name ?? metadata.name) === name);
        const found = named ?? groups.items.find(({ spec }) => spec.aliases?.includes(name));
        return found ? [found.spec.name ?? found.metadata.name] : [];
      };
      const present = users.items.filter(({ metadata }) => !metadata.deletionTimestamp);
      const members = new Map(
        present.map(({ spec }) => [spec.email, [...new Set((spec.groups ?? []).flatMap(groupOf))]] as const),
      );
      const model = createRbacModel({ roles: roles.items, bindings: bindings.items, members }, PREFIX);
      return { model, members, users: present, roles: roles.items, bindings: bindings.items, groups: groups.items };
    }

    type State = Awaited<ReturnType<typeof look>>;
    let counter = 0;
    const called = (what: string) => `${what}-${counter++}`;
    const jsonRole = () => [rule()];
    interface Attempt {
      what: string;
      rest?(as: TestClient): Promise<{ status: number; body: unknown }>;
      kubectl?(as: Kube): Promise<unknown>;
      /** whose password it gives away */
      takes?: string;
    }
    const MERGE = 'application/merge-patch+json';
    const custom = (objects: readonly { metadata: { name: string } }[]) =>
      objects.map(({ metadata }) => metadata.name).filter((name) => !name.startsWith('skerry-') && name !== 'managers');
    const OPERATIONS: ((state: State) => Attempt)[] = [
      () => {
        const [name, rules] = [called('role'), jsonRole()];
        return {
          what: `makes the role ${name} ${JSON.stringify(rules)}`,
          rest: (one) => one.post('/roles', { json: { name, rules } }),
          kubectl: (one) => one.request('POST', rbacPath('roles'), role(name, rules)),
        };
      },
      ({ roles }) => {
        const [name, rules] = [pick(custom(roles)), jsonRole()];
        return {
          what: `gives the role ${name} ${JSON.stringify(rules)}`,
          rest: (one) => one.patch(`/roles/${name}`, { json: { rules } }),
          kubectl: (one) => one.request('PATCH', `${rbacPath('roles')}/${name}`, { rules }, MERGE),
        };
      },
      ({ roles }) => {
        const [name, to, of] = [
          called('binding'),
          subject(),
          pick([...custom(roles), 'skerry-viewer', 'skerry-admin']),
        ];
        return {
          what: `binds ${of} to ${to.kind} ${to.name}`,
          rest: (one) =>
            one.post('/rolebindings', {
              json: { name, roleRef: { name: of.replace(/^skerry-/, '') }, subjects: [to] },
            }),
          kubectl: (one) => one.request('POST', rbacPath('rolebindings'), binding(name, of, [to])),
        };
      },
      ({ bindings }) => {
        const [name, to] = [pick(custom(bindings)), [subject(), subject()]];
        return {
          what: `gives ${name} the subjects ${JSON.stringify(to)}`,
          rest: (one) => one.patch(`/rolebindings/${name}`, { json: { subjects: to } }),
          kubectl: (one) =>
            one.request(
              'PATCH',
              `${rbacPath('rolebindings')}/${name}`,
              { subjects: binding(name, '', to).subjects },
              MERGE,
            ),
        };
      },
      ({ bindings, roles }) => {
        const [name, of] = [pick(custom(bindings)), pick(custom(roles))];
        return {
          what: `gives ${name} the role ${of}`,
          rest: (one) => one.patch(`/rolebindings/${name}`, { json: { roleRef: { name: of } } }),
        };
      },
      () => {
        const [email, groups] = [next(3) === 0 ? pick(FREE_NAMES) : `${called('new')}@plant.example`, some(GROUPS, 2)];
        const object = { apiVersion: API_VERSION, kind: 'AuthUser', metadata: { name: called('new') } };
        return {
          what: `makes ${email} in ${groups.join()}`,
          rest: (one) => one.post('/users', { json: { email, password: PASSWORD, groups } }),
          // A user of kubectl has no password: what is bound to its name already is nobody's gain.
          kubectl: (one) =>
            one.request('POST', ours('authusers'), {
              ...object,
              spec: { email: `${called('k')}@plant.example`, groups },
            }),
        };
      },
      ({ users }) => {
        const user = pick(users.filter(({ spec }) => !ACTORS.includes(spec.email)));
        const groups = some([...GROUPS, 'admin'], 2);
        return {
          what: `puts ${user.spec.email} into ${groups.join()}`,
          rest: (one) => one.patch(`/users/${uuidOf(user)}`, { json: { groups } }),
          kubectl: (one) =>
            one.request('PATCH', `${ours('authusers')}/${user.metadata.name}`, { spec: { groups } }, MERGE),
        };
      },
      ({ users }) => {
        const user = pick(users.filter(({ spec }) => !ACTORS.includes(spec.email) && spec.email !== ADMIN));
        const email = pick([...FREE_NAMES, `${called('other')}@plant.example`]);
        return {
          what: `calls ${user.spec.email} ${email}`,
          rest: (one) => one.patch(`/users/${uuidOf(user)}`, { json: { email } }),
          kubectl: (one) =>
            one.request('PATCH', `${ours('authusers')}/${user.metadata.name}`, { spec: { email } }, MERGE),
        };
      },
      ({ users }) => {
        const user = pick(users.filter(({ spec }) => !ACTORS.includes(spec.email)));
        const route = pick(['reset-password', 'reset-token']);
        return {
          what: `gets ${user.spec.email} by ${route}`,
          takes: user.spec.email,
          rest: (one) => one.post(`/users/${uuidOf(user)}/${route}`),
        };
      },
      ({ groups }) => {
        const group = pick(groups.filter(({ metadata }) => GROUPS.includes(metadata.name as never)));
        const name = pick([...GROUPS, called('group')]);
        return {
          what: `calls the group ${group.metadata.name} ${name}`,
          rest: (one) => one.patch(`/groups/${group.spec.name ?? group.metadata.name}`, { json: { name } }),
          kubectl: (one) =>
            one.request('PATCH', `${ours('authgroups')}/${group.metadata.name}`, { spec: { name } }, MERGE),
        };
      },
    ];

    const faults: string[] = [];
    const done = { REST: { accepted: 0, refused: 0 }, kubectl: { accepted: 0, refused: 0 } };
    /** what each actor might give, lately */
    let lately: { at: number; state: State }[] = [];
    let before = await look();
    for (let i = 0; i < ATTEMPTS && faults.length === 0; i++) {
      const actor = pick(ACTORS);
      const attempt = pick(OPERATIONS)(before);
      const door = attempt.kubectl && next(2) === 0 ? 'kubectl' : 'REST';
      const at = performance.now();
      lately = [...lately.filter((one) => one.at > at - STALE_MS), { at, state: before }];
      let isAccepted: boolean;
      if (door === 'kubectl')
        isAccepted = await (attempt.kubectl as (one: Kube) => Promise<unknown>)(
          as(actor, before.members.get(actor) ?? []),
        ).then(
          () => true,
          (error: { status?: number }) => {
            if (![403, 409, 422].includes(error.status ?? 0)) throw error;
            return false;
          },
        );
      else {
        const { status, body } = await (attempt.rest as NonNullable<Attempt['rest']>)(rest.get(actor) as TestClient);
        if (status >= 500 || status === 401) throw new Error(`${attempt.what}: ${status} ${JSON.stringify(body)}`);
        isAccepted = status < 300;
      }
      done[door][isAccepted ? 'accepted' : 'refused']++;
      const after = await look();
      const author = lately.flatMap(({ state }) => state.model.mayGive(actor));
      const given = givenTooMuch(before.model, after.model, author);
      const taken = isAccepted && attempt.takes !== undefined ? before.model.ofUser(attempt.takes) : [];
      const tooMuch = taken.filter((one) => !isCovered(one, author));
      if (given.length > 0 || tooMuch.length > 0)
        faults.push(
          `attempt ${i}: ${actor} ${attempt.what} over ${door}: ${given.join('; ')} ${JSON.stringify(tooMuch)}`,
        );
      before = after;
    }
    expect(faults).toEqual([]);
    // Neither door refuses everything, nor nothing.
    for (const { accepted, refused } of Object.values(done)) {
      expect(accepted).toBeGreaterThan(ATTEMPTS / 40);
      expect(refused).toBeGreaterThan(ATTEMPTS / 20);
    }
  },
  isNightly ? 900_000 : 90_000,
);

const LABEL = (value: string) => ({ 'skerry.dev/rbac': value });
