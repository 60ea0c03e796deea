import { describe, expect, test } from 'vitest';
import { API_VERSION } from '../api/names.ts';
import type { Application } from '../api/v3/index.ts';
import { loginsInMemory } from '../identity/_memory.ts';
import type { Kind } from '../kinds/definition.ts';
import type { KindUpload } from '../kinds/rest.ts';
import type { KubeObject } from '../kube/object.ts';
import { editsOfKinds, itemPath, makeReferences } from '../rest/_edits.ts';
import { createMemoryDependencies } from '../rest/_memory.ts';
import { serveInMemory } from '../rest/_server.ts';
import { fromBase32, totpCode } from '../subjects/identity/rules/totp.ts';
import { routes } from './routes.ts';

/**
 * A client that got no response sends its request again. Every route of a method or an action that promises to be repeatable is
 * in the table here, and a new one fails without its row.
 */
const repeatable = routes.filter(
  ({ method, path }) =>
    method === 'PUT' || method === 'DELETE' || (method !== 'GET' && /\/(link|start|stop)$/.test(path)),
);

interface Request {
  path: string;
  options?: { json?: unknown; yaml?: string };
  /** the status of the second answer, where it is not that of the first */
  again?: number;
}

const never = new AbortController().signal;
let count = 0;
const deps = createMemoryDependencies();
Object.assign(deps.self, { isBusEnabled: true });
const logins = loginsInMemory(deps.stores);
deps.identity = { mode: 'embedded', ...logins };
/** uuid of the user whose token the administrator's is, for what a user does with the own account */
let subject = '';
const { authenticator } = deps;
deps.authenticator = {
  async authenticate(...asked) {
    const found = await authenticator.authenticate(...asked);
    return found && { ...found, ...(subject && { subject }) };
  },
};
const admin = (await serveInMemory({ deps })).as('admin');
await makeReferences(admin);

/** Every object in memory, with its version. */
const state = () =>
  JSON.stringify(
    Object.values(deps.stores).map((store) =>
      store.list().map(({ metadata }: KubeObject) => [metadata.name, metadata.resourceVersion]),
    ),
  );

/** A new object of a kind, and the requests on it, by operation. */
function requestsOf(kind: Kind): Record<string, () => Promise<Request>> {
  const { definition, rest } = kind;
  const { edits } = editsOfKinds().find((one) => one.kind.key === kind.key) as ReturnType<typeof editsOfKinds>[number];
  const made = async () => {
    const name = `it-${++count}`;
    const answer = await admin.post(edits.path, { json: edits.create(name) });
    expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300);
    return { name, item: itemPath(kind, edits, answer, name) };
  };
  const operation = (verb: string) => `${verb}${kind.key === 'nodes' ? 'Node' : definition.kind}`;
  const yaml = (name: string) => {
    const { name: _, ...spec } = edits.create(name);
    return JSON.stringify({ apiVersion: API_VERSION, kind: definition.kind, metadata: { name }, spec });
  };
  const upload: KindUpload | undefined =
    kind.key === 'applications' ? { part: 'application', update: 'PUT' } : rest.crud?.upload;
  return {
    [operation('delete')]: async () => ({ path: (await made()).item, again: 404 }),
    ...(upload?.update === 'PUT' && {
      [`replace${definition.kind}FromYaml`]: async () => {
        const { name } = await made();
        return { path: `${edits.path}/yaml/${name}`, options: { yaml: yaml(name) } };
      },
    }),
    ...((rest.crud?.hasPut || kind.key === 'applications') && {
      [operation('replace')]: async () => {
        const { name, item } = await made();
        return { path: item, options: { json: { ...edits.create(name), description: 'changed' } } };
      },
    }),
    ...(kind.links && {
      [`link${definition.kind}`]: async () => ({
        path: `${(await made()).item}/link`,
        options: { json: { fogUuids: [await nodeWith('crun')] } },
      }),
      [`unlink${definition.kind}`]: async () => {
        const path = `${(await made()).item}/link`;
        const options = { json: { fogUuids: [await nodeWith('crun')] } };
        await admin.post(path, options);
        return { path, options };
      },
    }),
  };
}

/** A node whose engine has a runtime. */
async function nodeWith(runtime: string): Promise<string> {
  const name = `node-${++count}`;
  const { body } = await admin.post('/node', { json: { name, archId: 1 } });
  const [node] = deps.nodes.find('name', name);
  if (!node) throw new Error(`no node ${name}`);
  const status = { observedGeneration: 1, availableRuntimes: [runtime] };
  await deps.nodes.replace({ ...node, status }, AbortSignal.timeout(5_000));
  return body.uuid;
}

const FLAT = {
  name: 'web',
  images: [{ containerImage: 'a:1', archId: 1 }],
  config: '{"a":1}',
  ports: [{ internal: 80, external: 8080 }],
  volumeMappings: [{ hostDestination: '/a', containerDestination: '/b', accessMode: 'rw', type: 'bind' }],
};

/** The uuid of a microservice with a config, a port and a volume; of the system for the variant of the routes. */
async function madeMicroservice(isSystem: boolean): Promise<{ uuid: string; volume: number }> {
  const name = `app-${++count}`;
  const node = await nodeWith('runc');
  const { status, body } = await admin.post('/application', {
    json: { name, microservices: [{ ...FLAT, nodeUuid: node }] },
  });
  expect(status, JSON.stringify(body)).toBe(201);
  const [application] = deps.applications.find('name', name);
  if (!application) throw new Error(`no application ${name}`);
  const read = (await admin.get(`/application/${name}`)).body.microservices[0];
  const marked: Application = { ...application, spec: { ...application.spec, isSystem } };
  if (isSystem) await deps.applications.replace(marked, AbortSignal.timeout(5_000));
  return { uuid: read.uuid, volume: read.volumeMappings[0].id };
}

const microserviceRequests = (isSystem: boolean): Record<string, () => Promise<Request>> => {
  const [path, suffix] = isSystem ? ['/microservices/system', 'System'] : ['/microservices', ''];
  const on = (below: (made: { uuid: string; volume: number }) => string, again?: number) => async () => {
    const made = await madeMicroservice(isSystem);
    return { path: `${path}/${made.uuid}${below(made)}`, ...(again !== undefined && { again }) };
  };
  return {
    [`delete${suffix}MicroserviceConfig`]: on(() => '/config'),
    [`delete${suffix}MicroservicePort`]: on(() => '/port-mapping/80', 404),
    [`delete${suffix}MicroserviceVolume`]: on(({ volume }) => `/volume-mapping/${volume}`, 400),
    ...(!isSystem && {
      deleteMicroservice: on(() => '', 404),
      startMicroservice: on(() => '/start'),
      stopMicroservice: on(() => '/stop'),
    }),
  };
};

/** A user of the message bus, by the route that creates it. */
const busUser = (route: 'users' | 'mqtt-bearer') => async () => {
  const name = `bus-${++count}`;
  for (const path of ['/application', `/bus/accounts/${name}`, `/bus/accounts/${name}/${route}`]) {
    const { status, body } = await admin.post(path, {
      json: path.includes('accounts/') && path.endsWith(name) ? {} : { name },
    });
    expect(status, JSON.stringify(body)).toBe(201);
  }
  return { path: `/bus/accounts/${name}/${route}/${name}`, again: 404 };
};

/** A new role or binding. */
const rbac = (path: string, fields: object) => async () => {
  const name = `rbac-${++count}`;
  expect((await admin.post(path, { json: { name, ...fields } })).status).toBe(201);
  return { path: `${path}/${name}`, again: 404 };
};

const TABLE: Readonly<Record<string, () => Promise<Request>>> = {
  deleteBusUser: busUser('users'),
  deleteBusBearer: busUser('mqtt-bearer'),
  ...Object.assign({}, ...editsOfKinds().map(({ kind }) => requestsOf(kind))),
  ...microserviceRequests(false),
  ...microserviceRequests(true),
  async deleteSystemApplication() {
    const { uuid } = await madeMicroservice(true);
    const [application] = deps.applications.find('microservice', uuid);
    return { path: `/application/system/${application?.metadata.name}`, again: 404 };
  },
  async deleteDebugShell() {
    const { body } = await admin.post('/node', { json: { name: 'gw-of-shell', archId: 1 } });
    return { path: `/node/${body.uuid}/exec` };
  },
  replaceDefaultRouter: async () => ({ path: '/router', options: { json: { host: 'router.example' } } }),
  replaceBusHub: async () => ({ path: '/bus/hub', options: { json: { host: 'bus.example' } } }),
  async deleteUser() {
    const json = { email: `user-${++count}@plant.example`, password: 'Correct-Horse-7' };
    const { body } = await admin.post('/users', { json });
    return { path: `/users/${body.id}`, again: 404 };
  },
  async disableSecondFactor() {
    const password = 'Correct-Horse-7';
    const { body } = await admin.post('/users', { json: { email: `user-${++count}@plant.example`, password } });
    subject = body.id;
    const { secret } = await logins.secondFactor.begin(subject, never);
    const first = totpCode(fromBase32(secret), Math.floor(Date.now() / 30_000));
    const { recoveryCodes } = await logins.secondFactor.confirm(subject, first, never);
    return { path: '/user/mfa', options: { json: { password, code: recoveryCodes[0] } }, again: 400 };
  },
  deleteReplica: async () => ({ path: '/cluster/controllers/active' }),
  deleteRole: rbac('/roles', { rules: [{ apiGroups: [''], resources: ['nodes'], verbs: ['get'] }] }),
  deleteRoleBinding: rbac('/rolebindings', {
    roleRef: { name: 'viewer' },
    subjects: [{ kind: 'Group', name: 'crew' }],
  }),
  async deleteGroup() {
    const name = `group-${++count}`;
    expect((await admin.post('/groups', { json: { name } })).status).toBe(201);
    return { path: `/groups/${name}`, again: 404 };
  },
  deleteEvents: async () => ({ path: '/events', options: { json: { days: 7 } } }),
};

describe('a request that is sent again', () => {
  test.each(repeatable.map(({ operation, method }) => [operation, method]))(
    '%s changes nothing the second time',
    async (operation, method) => {
      const request = TABLE[operation];
      expect(request, `the table has no row for ${operation}`).toBeDefined();
      const { path, options, again } = await (request as () => Promise<Request>)();
      const first = await admin.request(method, path, options);
      expect(first.status, JSON.stringify(first.body)).toBeLessThan(300);
      const before = state();
      const second = await admin.request(method, path, options);
      expect(second.status, JSON.stringify(second.body)).toBe(again ?? first.status);
      expect(state()).toBe(before);
    },
  );

  test('is in the table once for each operation that promises it', () => {
    expect(Object.keys(TABLE).sort()).toEqual(repeatable.map(({ operation }) => operation).sort());
  });
});
