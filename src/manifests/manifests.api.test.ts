import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import type { RequestOptions } from 'node:https';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { KubeConfig } from '@kubernetes/client-node';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { findTools } from '../../hack/binaries.ts';
import { installCrds, startControlPlane } from '../../hack/control-plane.ts';
import { createKube, type Kube } from '../../hack/kube.ts';
import { waitFor } from '../../hack/wait.ts';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { ANNOTATIONS, API_VERSION, BUDGET_POLICY_NAME, LABELS, PROTECTED, SETTINGS_POLICY_NAME } from '../api/names.ts';
import { ROLE_NAMES, type RoleName } from '../rest/access/roles.ts';
import { budgetsOf, DEFAULT_BUDGETS, policyData, type Usage } from '../rules/budget.ts';
import { settingsPolicyData } from '../rules/settings-policy.ts';
import { admissionPolicies } from './policies.ts';
import { CONTROLLER_ACCOUNT, controllerRoles, peopleRoles } from './roles.ts';

/**
 * A cluster of its own with two installations, whose groups are named as their namespaces. A shared cluster does not
 * work: the policies would refuse what other tests do in their own namespaces.
 */
const NAMESPACES = ['skerry', 'second'] as const;
type Namespace = (typeof NAMESPACES)[number];
const dir = temporaryFolder();
const run = promisify(execFile);
const people: Kube[] = [];

/** A client that impersonates a user of these groups, or a service account. */
function as(user: string, ...groups: string[]): Kube {
  const headers = {
    ...credentials.headers,
    'impersonate-user': user,
    'impersonate-group': ['system:authenticated', ...groups],
  };
  const kube = createKube(server, { ...credentials, headers });
  people.push(kube);
  return kube;
}
const controllerOf = (namespace: Namespace) => as(`system:serviceaccount:${namespace}:${CONTROLLER_ACCOUNT}`);
const person = (namespace: Namespace, role: RoleName) => as('somebody', `${namespace}:${role}`);

const path = (plural: string, namespace: string) => `/apis/${API_VERSION}/namespaces/${namespace}/${plural}`;
const verdict = (kube: Kube, method: string, at: string, body?: unknown, type?: string) =>
  kube.request(method, `${at}?dryRun=All`, body, type).then(
    () => 'allowed',
    (error: Error) => error.message,
  );
const object = (kind: string, name: string, spec: object = {}, metadata: object = {}) => ({
  apiVersion: API_VERSION,
  kind,
  metadata: { name, ...metadata },
  spec,
});
const PLATFORM_SPEC = { isSystem: true, microservices: [{ name: 'router', schedule: 1 }] };
const IMAGES = [{ archId: 1, containerImage: 'router:1' }];
const BUDGETS = budgetsOf(DEFAULT_BUDGETS);
const MERGE = 'application/merge-patch+json';

const { kubectl } = await findTools(['kubectl']);
const cluster = await startControlPlane({ dir });
const config = new KubeConfig();
config.loadFromFile(cluster.kubeconfig);
const server = cluster.url;
const credentials: RequestOptions = {};
await config.applyToHTTPSOptions(credentials);
const admin = createKube(server, credentials);
people.push(admin);
await installCrds(cluster.kubeconfig);
for (const namespace of NAMESPACES) {
  await admin.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } });
  for (const manifest of [...controllerRoles(namespace), ...peopleRoles(namespace, namespace)])
    await admin.apply(manifest as never);
  const create = (plural: string, body: object) => admin.request('POST', path(plural, namespace), body);
  const inUse = { labels: { [LABELS.inUse]: 'true' } };
  await create('registries', object('Registry', 'remote', { url: 'registry.hub.example', id: 1 }, inUse));
  await create('catalogitems', object('CatalogItem', 'router', { id: 1, images: IMAGES, registryId: 1 }, inUse));
  await create('busaccountrules', object('BusAccountRule', 'default-account'));
  await create('bususerrules', object('BusUserRule', 'default-user'));
  await create('applications', object('Application', 'used', {}, inUse));
  await create('applications', object('Application', 'of-the-system', { isSystem: true }));
  await create('applications', object('Application', 'free'));
  const ofPlatform = { annotations: { [ANNOTATIONS.platform]: '["router"]' } };
  await create('applications', object('Application', 'of-a-node', PLATFORM_SPEC, ofPlatform));
}
for (const namespace of NAMESPACES) {
  for (const manifest of admissionPolicies(namespace)) await admin.apply(manifest as never);
  // Policies take effect some time after they are stored; the last one in the list is the last to do so.
  const isRefused = async (plural: string, name: string) =>
    (await verdict(admin, 'DELETE', `${path(plural, namespace)}/${name}`)) !== 'allowed';
  const act = async () => (await isRefused('registries', 'remote')) && (await isRefused('catalogitems', 'router'));
  await waitFor(act, { what: 'the policies to act' });
}
afterAll(async () => {
  for (const kube of people) kube.close();
  await cluster.stop();
});

describe.each(NAMESPACES)('with two installations in one cluster, in the namespace %s', (namespace) => {
  const other = NAMESPACES.find((each) => each !== namespace) as Namespace;

  test('a developer creates and deletes objects', async () => {
    const kube = person(namespace, 'developer');
    expect(await verdict(kube, 'POST', path('applications', namespace), object('Application', 'a'))).toBe('allowed');
    expect(await verdict(kube, 'DELETE', `${path('applications', namespace)}/free`)).toBe('allowed');
  });

  test('users of the other installation may not even read', async () => {
    for (const role of ROLE_NAMES)
      expect(await verdict(person(other, role), 'GET', path('applications', namespace))).toContain('is forbidden');
  });

  test.each(ROLE_NAMES)('a %s reads events, as kubectl describe does, and writes none', async (role) => {
    const kube = person(namespace, role);
    for (const at of ['/api/v1', '/apis/events.k8s.io/v1'])
      expect(await verdict(kube, 'GET', `${at}/namespaces/${namespace}/events`)).toBe('allowed');
    expect(await verdict(kube, 'POST', `/api/v1/namespaces/${namespace}/events`, {})).toContain('is forbidden');
  });

  test('the controller may create system objects and delete what is built in or in use', async () => {
    const kube = controllerOf(namespace);
    const system = object('Application', 'router', { isSystem: true });
    expect(await verdict(kube, 'POST', path('applications', namespace), system)).toBe('allowed');
    expect(await verdict(kube, 'DELETE', `${path('registries', namespace)}/remote`)).toBe('allowed');
    expect(await verdict(kube, 'DELETE', `${path('applications', namespace)}/used`)).toBe('allowed');
  });

  test('the controller of the other installation may do nothing', async () => {
    const kube = controllerOf(other);
    for (const [method, at, body] of [
      ['POST', path('applications', namespace), object('Application', 'theirs')],
      ['DELETE', `${path('registries', namespace)}/remote`],
      ['GET', path('registries', namespace)],
    ] as const)
      expect(await verdict(kube, method, at, body)).toContain('is forbidden');
  });
});

test.each([
  [
    'an object in a namespace without a controller is refused, with the namespaces that have one',
    'POST',
    path('applications', 'default'),
    object('Application', 'there'),
    /belong into a namespace where a controller works, such as (skerry|second)/,
  ],
  [
    'the deletion of an application in use is refused',
    'DELETE',
    `${path('applications', 'skerry')}/used`,
    undefined,
    /it is in use/,
  ],
  [
    'a user cannot create a system application',
    'POST',
    path('applications', 'skerry'),
    object('Application', 'sys', { isSystem: true }),
    /controller alone/,
  ],
  ...['system-gw-1', 'plain'].map((name): [string, string, string, object, RegExp] => [
    `a user cannot take the name of an application of the system by ${name === 'plain' ? 'spec' : 'metadata'}.name`,
    'POST',
    path('applications', 'skerry'),
    object('Application', name, name === 'plain' ? { name: 'system-gw-2' } : {}),
    /names that begin with system- belong to applications of the system/,
  ]),
  [
    'a built-in registry cannot be deleted',
    'DELETE',
    `${path('registries', 'skerry')}/remote`,
    undefined,
    /the built-in registries cannot be changed or deleted/,
  ],
  [
    'a built-in catalog item cannot be deleted',
    'DELETE',
    `${path('catalogitems', 'skerry')}/router`,
    undefined,
    /the built-in catalogitems cannot be changed or deleted/,
  ],
  ...(['busaccountrules/default-account', 'bususerrules/default-user'] as const).flatMap(
    (rule): [string, string, string, object | undefined, RegExp][] => {
      const [plural = '', name = ''] = rule.split('/');
      const at = `${path(plural, 'skerry')}/${name}`;
      const refusal = new RegExp(`the built-in ${plural} cannot be changed or deleted`);
      return [
        [`a reserved rule cannot be deleted: ${rule}`, 'DELETE', at, undefined, refusal],
        [`a reserved rule cannot be changed: ${rule}`, 'PATCH', at, { spec: { pubAllow: ['>'] } }, refusal],
      ];
    },
  ),
])('%s', async (_, method, at, body, expected) => {
  expect(await verdict(admin, method, at, body, method === 'PATCH' ? MERGE : undefined)).toMatch(expected);
});

test.each([
  ['changed', 'PATCH', { spec: { description: 'x' } }],
  ['deleted', 'DELETE', undefined],
])('a system application cannot be %s by a developer, who may do that to others', async (_, method, body) => {
  const at = (name: string) => `${path('applications', 'skerry')}/${name}`;
  const act = (kube: Kube, name: string) => verdict(kube, method, at(name), body, body && MERGE);
  const dora = person('skerry', 'developer');
  expect(await act(dora, 'of-the-system')).toContain('the application belongs to the system');
  expect(await act(dora, 'free')).toBe('allowed');
  for (const kube of [person('skerry', 'sre'), controllerOf('skerry')])
    expect(await act(kube, 'of-the-system')).toBe('allowed');
});

test('a node of the system is created by an admin, and by nobody else', async () => {
  const create = (kube: Kube) =>
    verdict(kube, 'POST', path('edgenodes', 'skerry'), object('EdgeNode', 'sys', { isSystem: true }));
  expect(await create(person('skerry', 'sre'))).toContain('an admin creates nodes of the system');
  expect(await create(person('second', 'admin'))).toContain('is forbidden');
  for (const kube of [person('skerry', 'admin'), controllerOf('skerry')]) expect(await create(kube)).toBe('allowed');
});

describe('the controller of a node of the system', () => {
  const at = `${path('applications', 'skerry')}/system-hub`;
  const shell = { name: 'debug', images: { amd64: 'b:1' } };
  const controller = { name: 'controller', images: { amd64: 'c:1' }, container: { isPrivileged: true } };
  const IS_ITS_AGENTS = 'its agent alone changes it';
  beforeAll(() =>
    controllerOf('skerry').request(
      'POST',
      path('applications', 'skerry'),
      object('Application', 'system-hub', { isSystem: true, microservices: [shell, controller] }),
    ),
  );
  const changed = { ...controller, images: { amd64: 'c:2' } };

  test.each<[string, string, object | undefined]>([
    ['deleted with its application', 'DELETE', undefined],
    ['removed', 'PATCH', { spec: { microservices: [shell] } }],
    ['changed', 'PATCH', { spec: { microservices: [shell, changed] } }],
    ['stopped', 'PATCH', { spec: { microservices: [shell, { ...controller, isActivated: false }] } }],
    ['stopped with its application', 'PATCH', { spec: { isActivated: false } }],
  ])('cannot be %s by users, and can by the controller', async (_, method, body) => {
    for (const kube of [admin, person('skerry', 'admin'), person('skerry', 'sre')])
      expect(await verdict(kube, method, at, body, body && MERGE)).toContain(IS_ITS_AGENTS);
    expect(await verdict(controllerOf('skerry'), method, at, body, body && MERGE)).toBe('allowed');
  });

  test('cannot be added to an application of the system by users', async () => {
    const of = `${path('applications', 'skerry')}/of-the-system`;
    const body = { spec: { microservices: [controller] } };
    expect(await verdict(person('skerry', 'sre'), 'PATCH', of, body, MERGE)).toContain(IS_ITS_AGENTS);
    const mine = object('Application', 'mine', { microservices: [controller] });
    expect(await verdict(person('skerry', 'developer'), 'POST', path('applications', 'skerry'), mine)).toBe('allowed');
  });

  test.each<[string, object]>([
    ['a debug shell is removed', { spec: { microservices: [controller] } }],
    ['another microservice is added', { spec: { microservices: [controller, shell, { ...shell, name: 'router' }] } }],
    ['it is rebuilt', { metadata: { annotations: { [ANNOTATIONS.rebuild]: '{"controller":1}' } } }],
  ])('stays when %s, which who may change the application does', async (_, body) => {
    expect(await verdict(person('skerry', 'sre'), 'PATCH', at, body, MERGE)).toBe('allowed');
  });
});

test.each<[string, string, object?]>([
  ['microservice', 'PATCH', { spec: { microservices: [{ name: 'router', schedule: 2 }] } }],
  ['isActivated', 'PATCH', { spec: { isActivated: false } }],
  ['annotation', 'PATCH', { metadata: { annotations: { [ANNOTATIONS.platform]: null } } }],
  ['existence', 'DELETE'],
])('the %s of the platform of a node is changed by the controller alone', async (_, method, body) => {
  const act = (kube: Kube) => verdict(kube, method, `${path('applications', 'skerry')}/of-a-node`, body, body && MERGE);
  for (const kube of [admin, person('skerry', 'admin'), controllerOf('second')])
    expect(await act(kube)).not.toBe('allowed');
  expect(await act(person('skerry', 'admin'))).toContain('skerry-platform.skerry.skerry.dev');
  expect(await act(controllerOf('skerry'))).toBe('allowed');
});

test('an authority of the system is created, changed and deleted by who may change its applications', async () => {
  const at = path('certificateauthorities', 'skerry');
  const authority = (name: string) => object('CertificateAuthority', name);
  const [dora, sre] = [person('skerry', 'developer'), person('skerry', 'sre')];
  expect(await verdict(dora, 'POST', at, authority('router-site-ca'))).toContain('the object belongs to the system');
  expect(await verdict(dora, 'POST', at, authority('plant-ca'))).toBe('allowed');
  await admin.request('POST', at, authority('router-site-ca'));
  const spec = { type: 'direct', secretName: 'mine' };
  for (const [method, body] of [['PATCH', { spec }] as const, ['DELETE', undefined] as const]) {
    const act = (kube: Kube) => verdict(kube, method, `${at}/router-site-ca`, body, body && MERGE);
    expect(await act(dora)).toContain('the object belongs to the system');
    for (const kube of [sre, controllerOf('skerry')]) expect(await act(kube)).toBe('allowed');
  }
});

test('a built-in registry cannot be changed, but its labels can', async () => {
  const at = `${path('registries', 'skerry')}/remote`;
  expect(await verdict(admin, 'PATCH', at, { spec: { url: 'elsewhere.example' } }, MERGE)).toContain(
    'cannot be changed or deleted',
  );
  expect(await verdict(admin, 'PATCH', at, { metadata: { labels: { team: 'a' } } }, MERGE)).toBe('allowed');
});

describe('deletion', () => {
  const kubectlDelete = async (kind: string, name: string) => {
    const { stdout, stderr } = await run(kubectl, [
      ...['--kubeconfig', cluster.kubeconfig, '--namespace', 'skerry'],
      ...['delete', kind, name, '--dry-run=server'],
    ]);
    return stdout + stderr;
  };
  const running = (name: string, fields: object) => ({ name, uuid: name, state: 'RUNNING', ...fields });
  const create = async (
    plural: string,
    body: { metadata: { name: string } },
    microservices?: object[],
    status: object = {},
  ) => {
    await admin.request('POST', path(plural, 'skerry'), body);
    if (!microservices) return;
    const at = `${path(plural, 'skerry')}/${body.metadata.name}/status`;
    await admin.request('PATCH', at, { status: { observedGeneration: 1, microservices, ...status } }, MERGE);
  };
  beforeAll(async () => {
    const many = Array.from({ length: 100 }, (_, i) => running(`reader-${i}`, { application: 'plant-a' }));
    await create('edgenodes', object('EdgeNode', 'busy'), many.slice(0, 2));
    await create('edgenodes', object('EdgeNode', 'full'), many);
    await create('edgenodes', object('EdgeNode', 'idle'));
    await create('edgenodes', object('EdgeNode', 'left'), many.slice(0, 2), { daemonStatus: 'DEPROVISIONED' });
    const entries = [
      running('web', { node: 'gw-1', ready: true }),
      { ...running('db', { node: 'gw-1', ready: false }), state: 'QUEUED' },
    ];
    await create('applications', object('Application', 'plant-a'), entries);
    await create('applications', object('Application', 'unplaced'), entries.slice(1));
    for (const value of ['true', 'false'])
      await create(
        'edgenodes',
        object('EdgeNode', `said-${value}`, {}, { annotations: { [ANNOTATIONS.protected]: value } }),
      );
  });

  test.each([
    [
      'edgenode',
      'busy',
      /this removes from the machine what the node runs: plant-a\/reader-0, plant-a\/reader-1; the annotation/,
    ],
    ['edgenode', 'full', /plant-a\/reader-0, .* \.\.\.; the annotation skerry.dev\/protected=true keeps a node/],
    ['application', 'plant-a', /this removes from their machines: web on gw-1; the annotation/],
  ])(
    'prints a warning for the %s %s that names the microservices that kubectl removes',
    async (kind, name, warning) => {
      const text = await kubectlDelete(kind, name);
      expect(text).toContain('Warning: ');
      expect(text).toContain(': only a warning, the request is carried out: this removes');
      expect(text).toMatch(warning);
      expect(text).toContain(`"${name}" deleted`);
      expect(text.length).toBeLessThan(1_200);
    },
  );

  test.each([
    ['edgenode', 'idle'],
    ['edgenode', 'left'],
    ['application', 'unplaced'],
    ['edgenode', 'said-false'],
  ])('prints no warning for the %s %s, from which nothing is removed', async (kind, name) => {
    expect(await kubectlDelete(kind, name)).not.toContain('Warning');
  });

  test('an env variable whose name most programs cannot read is stored with a warning that names it', async () => {
    const applied = async (key: string) => {
      const container = {
        env: [
          { key: 'MODE', value: '1' },
          { key, value: '1' },
        ],
      };
      const spec = { microservices: [{ name: 'bare' }, { name: 'web', container }] };
      const file = join(dir, 'variables.json');
      await writeFile(file, JSON.stringify(object('Application', 'variables', spec)));
      const { stdout, stderr } = await run(kubectl, [
        ...['--kubeconfig', cluster.kubeconfig, '--namespace', 'skerry'],
        ...['create', '--dry-run=server', '-f', file],
      ]);
      return stderr + stdout;
    };

    expect(await applied('A B')).toMatch(
      /^Warning: .*: only a warning, the request is carried out: spec.microservices: web: the env variable "A B" has a name that most programs cannot read; use letters, digits and _\napplication.skerry.dev\/variables created/,
    );
    expect(await applied('my.option-1')).toMatch(/^application.skerry.dev\/variables created/);
  });

  test('is refused for a protected node, to every user and to the controller', async () => {
    const at = path('edgenodes', 'skerry');
    for (const kube of [admin, person('skerry', 'admin'), controllerOf('skerry')])
      expect(await verdict(kube, 'DELETE', `${at}/said-true`)).toContain(PROTECTED);
    expect(await verdict(admin, 'DELETE', at)).toContain(PROTECTED);
  });
});

describe('a write of an application to which another manager has added a microservice', () => {
  const application = (name: string, ...microservices: string[]) =>
    object('Application', name, { microservices: microservices.map((each) => ({ name: each })) });
  /** Runs kubectl without effect, with the application as its file if there is one; returns what it prints on both outputs. */
  async function typed(words: string[], file?: object): Promise<string> {
    const at = join(dir, 'shop.json');
    if (file) await writeFile(at, JSON.stringify(file));
    const place = ['--kubeconfig', cluster.kubeconfig, '--namespace', 'skerry', '--dry-run=server'];
    const { stdout, stderr } = await run(kubectl, [...words, ...place, ...(file ? ['-f', at] : [])]);
    return stderr + stdout;
  }
  const write = async (method: string, body: { metadata: { name: string; annotations?: object } }, manager: string) => {
    const at = `${path('applications', 'skerry')}${method === 'POST' ? '' : `/${body.metadata.name}`}`;
    const type = method === 'PATCH' ? 'application/apply-patch+yaml' : undefined;
    await admin.request(method, `${at}?fieldManager=${manager}`, body, type);
  };
  const KUBECTL = 'kubectl-client-side-apply';
  const mine = application('shop', 'web', 'old');

  beforeAll(async () => {
    const lastApplied = { 'kubectl.kubernetes.io/last-applied-configuration': JSON.stringify(mine) };
    await write('POST', { ...mine, metadata: { ...mine.metadata, annotations: lastApplied } }, KUBECTL);
    await write('PATCH', application('shop', 'third'), 'colleague');
    const many = Array.from({ length: 128 }, (_, i) => `reader-${i}`);
    await write('PATCH', application('large', ...many), 'colleague');
  });

  test.each(['apply', 'replace'])('as a kubectl %s prints a warning that names what it removes', async (verb) => {
    expect(await typed([verb], mine)).toMatch(
      /^Warning: .*: only a warning, the request is carried out: this removes microservices that other field managers have in the application: third \(colleague\); kubectl apply --server-side leaves them\napplication.skerry.dev\/shop \w+/,
    );
  });

  test.each<[string, string[], object?]>([
    ['an apply that has the microservice too', ['apply'], application('shop', 'web', 'old', 'third')],
    ['an apply that removes a microservice of its own', ['apply'], application('shop', 'web', 'third')],
    [
      'a server-side apply, which leaves it',
      ['apply', '--server-side', '--field-manager=another', '--force-conflicts'],
      application('shop', 'web', 'old'),
    ],
    [
      'a patch that names what it removes',
      ['patch', 'application', 'shop', '--type=json', '--patch=[{"op":"remove","path":"/spec/microservices/2"}]'],
    ],
    [
      'the controller, which removes what its users ask it to remove',
      ['replace', `--as=system:serviceaccount:skerry:${CONTROLLER_ACCOUNT}`],
      mine,
    ],
  ])('prints no warning to %s', async (_, words, file) => {
    expect(await typed(words, file)).toMatch(/^application.skerry.dev\/shop \w+/);
  });

  test('prints no warning to a server-side apply that removes a microservice of its own, which another manager has stopped', async () => {
    await write('PATCH', application('stopped', 'web', 'old'), 'owner');
    const stop = [{ op: 'add', path: '/spec/microservices/1/isActivated', value: false }];
    const at = `${path('applications', 'skerry')}/stopped?fieldManager=kubectl-skerry`;
    await admin.request('PATCH', at, stop, 'application/json-patch+json');
    const words = ['apply', '--server-side', '--field-manager=owner'];
    expect(await typed(words, application('stopped', 'web'))).toMatch(/^application.skerry.dev\/stopped \w+/);
  });

  test('names as many as fit into a warning when nearly all of the largest application is removed', async () => {
    const text = await typed(['replace'], application('large', 'web'));
    expect(text).toMatch(
      /^Warning: .*: reader-0 \(colleague\), reader-1 .* \.\.\.; kubectl apply --server-side leaves them\n/,
    );
    expect(text.length).toBeLessThan(1_200);
  });
});

describe('an update of the hub of the message bus', () => {
  const changed = async (spec: object) => {
    const place = ['--kubeconfig', cluster.kubeconfig, '--namespace', 'skerry', '--dry-run=server'];
    const args = ['patch', 'bushub', 'bus-hub', '--type=merge', `--patch=${JSON.stringify({ spec })}`];
    const { stdout, stderr } = await run(kubectl, [...args, ...place]);
    return stderr + stdout;
  };

  beforeAll(async () => {
    const spec = { host: 'bus.example', serverPort: 4222, isExternal: true };
    await admin.request('POST', path('bushubs', 'skerry'), object('BusHub', 'bus-hub', spec));
  });

  test.each([
    ['host', { host: 'other.example' }],
    ['port', { serverPort: 4333 }],
    ['no host', { host: null }],
  ])('with another address (%s) prints a warning that containers are replaced', async (_, spec) => {
    expect(await changed(spec)).toMatch(
      /^Warning: .*: only a warning, the request is carried out: containers that reach the hub directly get the other address, and are replaced: .*\nbushub.skerry.dev\/bus-hub patched/,
    );
  });

  test('with TLS for clients prints a warning that containers are replaced at once', async () => {
    expect(await changed({ clientTls: true })).toMatch(
      /^Warning: .*: only a warning, the request is carried out: all containers that reach the hub directly are replaced at once, .*\nbushub.skerry.dev\/bus-hub patched/,
    );
  });

  test.each([
    ['another port of bus servers', { leafPort: 7433 }],
    ['the same address', { host: 'bus.example' }],
    ['no TLS for clients', { clientTls: false }],
  ])('with %s prints no warning', async (_, spec) => {
    expect(await changed(spec)).toMatch(/^bushub.skerry.dev\/bus-hub patched/);
  });
});

describe('an update that turns access to the message bus off', () => {
  const shop = (name: string, busAccess: boolean, ...entries: object[]) =>
    object('Application', name, { busConfig: { busAccess }, microservices: entries });
  const withBus = (name: string) => ({ name, busConfig: { busAccess: true } });
  const withoutBus = (name: string) => ({ name, busConfig: { busAccess: false } });
  const flagged = (name: string) => ({ name, busEnabled: true });
  const ALL = [withBus('pump'), flagged('valve'), { name: 'lamp' }];
  const merged = async (name: string, spec: object, words: string[] = []) => {
    const place = ['--kubeconfig', cluster.kubeconfig, '--namespace', 'skerry', '--dry-run=server'];
    const args = ['patch', 'application', name, '--type=merge', `--patch=${JSON.stringify({ spec })}`];
    const { stdout, stderr } = await run(kubectl, [...args, ...place, ...words]);
    return stderr + stdout;
  };

  /** Says whether the bus is on, as the leader does, and waits until the policy has read it. */
  async function turnBus(isBusEnabled: boolean) {
    const metadata = { name: SETTINGS_POLICY_NAME, namespace: 'skerry' };
    await admin.apply({ apiVersion: 'v1', kind: 'ConfigMap', metadata, data: settingsPolicyData({ isBusEnabled }) });
    const warns = async () => (await merged('bus-shop', { busConfig: null })).startsWith('Warning');
    await waitFor(async () => (await warns()) === isBusEnabled, {
      what: `the bus to be ${isBusEnabled ? 'on' : 'off'}`,
    });
  }

  beforeAll(async () => {
    await admin.request('POST', path('applications', 'skerry'), shop('bus-shop', true, ...ALL));
    await admin.request('POST', path('applications', 'skerry'), shop('no-bus', false, ...ALL));
    expect(await merged('bus-shop', { busConfig: null })).not.toContain('Warning');
    await turnBus(true);
  });

  test('prints no warning while the bus is off', async () => {
    await turnBus(false);
    expect(await merged('bus-shop', { microservices: [withoutBus('pump')] })).not.toContain('Warning');
    await turnBus(true);
  });

  test.each<[string, object]>([
    ['says false for the application', { busConfig: { busAccess: false } }],
    ['says nothing for the application', { busConfig: null }],
  ])(
    'a patch that %s prints a warning that names the account, its microservices, and the streams that stay',
    async (_, spec) => {
      expect(await merged('bus-shop', spec)).toMatch(
        /^Warning: .*: only a warning, the request is carried out: this ends the account of the application on the message bus and the credentials of all of its users, also of programs and devices, and of its microservices: pump, valve; its streams stay on the servers, .*\napplication.skerry.dev\/bus-shop patched/,
      );
    },
  );

  test.each<[string, object[], string]>([
    ['of one microservice', [withoutBus('pump'), flagged('valve')], 'pump'],
    ['of all, in either spelling', [{ name: 'pump' }, withoutBus('valve'), withBus('lamp')], 'pump, valve'],
  ])('%s prints a warning that names who loses a user', async (_, microservices, names) => {
    expect(await merged('bus-shop', { microservices })).toMatch(
      new RegExp(
        `^Warning: .*: only a warning, the request is carried out: this ends the users and the credentials on the message bus of: ${names}; the account and its streams stay\napplication.skerry.dev/bus-shop patched`,
      ),
    );
  });

  test.each<[string, string, object, string[]?]>([
    ['an edit of something else', 'bus-shop', { description: 'other' }],
    ['another rule', 'bus-shop', { busConfig: { busAccess: true, busRule: 'tiny' } }],
    ['the removal of an entry, which ends its user as well', 'bus-shop', { microservices: [withBus('pump')] }],
    ['the other spelling of the same', 'bus-shop', { microservices: [flagged('pump'), withBus('valve')] }],
    ['an edit of an application without access', 'no-bus', { microservices: [withoutBus('pump')] }],
    ['the controller', 'bus-shop', { busConfig: null }, [`--as=system:serviceaccount:skerry:${CONTROLLER_ACCOUNT}`]],
  ])('is not %s, which prints no warning about the bus', async (_, name, spec, words) => {
    expect(await merged(name, spec, words)).not.toContain('message bus');
  });
});

describe('a role that permits more than every microservice may', () => {
  const roleRef = { kind: 'Role', name: 'agent-admin' };
  const account = (name: string, role: object) =>
    object('ServiceAccount', name, { applicationName: 'plant-z', roleRef: role });
  const entries = (...roles: (string | undefined)[]) => ({
    microservices: roles.map((name, i) => ({ name: `m-${i}`, ...(name && { serviceAccount: { roleRef: { name } } }) })),
  });
  const dora = () => person('skerry', 'developer');
  const at = (plural: string, name = '') => `${path(plural, 'skerry')}${name && `/${name}`}`;

  test('is given to an account by users who may bind it', async () => {
    const strong = account('strong', roleRef);
    expect(await verdict(dora(), 'POST', at('serviceaccounts'), strong)).toContain('only who may bind a role');
    expect(await verdict(dora(), 'POST', at('serviceaccounts'), account('weak', { name: 'microservice' }))).toBe(
      'allowed',
    );
    expect(await verdict(person('skerry', 'sre'), 'POST', at('serviceaccounts'), strong)).toBe('allowed');
    expect(await verdict(controllerOf('skerry'), 'POST', at('serviceaccounts'), strong)).toBe('allowed');
    await admin.request('POST', at('serviceaccounts'), strong);
    const change = (spec: object) => verdict(dora(), 'PATCH', at('serviceaccounts', 'strong'), { spec }, MERGE);
    expect(await change({ roleRef: { apiGroup: 'x' } })).toBe('allowed');
    expect(await change({ roleRef: { name: 'viewer' } })).toBe('allowed');
  });

  test('is given to an entry by users who may bind it, and stays in the edits of others', async () => {
    const strong = object('Application', 'strong', entries('agent-admin', undefined));
    expect(await verdict(dora(), 'POST', at('applications'), strong)).toContain('only who may bind a role');
    await person('skerry', 'sre').request('POST', at('applications'), strong);
    const change = (spec: object) => verdict(dora(), 'PATCH', at('applications', 'strong'), { spec }, MERGE);
    expect(await change({ description: 'x' })).toBe('allowed');
    expect(await change(entries('agent-admin', 'agent-admin'))).toContain('only who may bind a role');
    const most = (last?: string) => entries(...Array.from({ length: 127 }, () => undefined), last);
    expect(await change(most())).toBe('allowed');
    expect(await change(most('agent-admin'))).toContain('only who may bind a role');
  });
});

describe('people who log in', () => {
  const rbac = (plural: string) => `/apis/rbac.authorization.k8s.io/v1/namespaces/skerry/${plural}`;
  const role = (name: string, rules: object[], metadata: object = {}) => ({
    ...{ apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'Role', metadata: { name, ...metadata } },
    rules,
  });
  const users = path('authusers', 'skerry');
  const groups = path('authgroups', 'skerry');
  const user = (name: string, spec: object = {}, metadata: object = {}) =>
    object('AuthUser', name, { email: `${name}@plant.example`, ...spec }, metadata);
  const noted = (annotation: string) => ({ annotations: { [annotation]: 'x' } });
  /** Writes users and groups, roles too, and may give the group line-a alone. */
  const lead = as('lead');
  const READS = [{ apiGroups: ['skerry.dev'], resources: ['models'], verbs: ['get'] }];

  beforeAll(async () => {
    const verbs = ['get', 'list', 'create', 'update', 'patch', 'delete'];
    const rules = [
      { apiGroups: ['skerry.dev'], resources: ['authusers', 'authgroups'], verbs },
      { apiGroups: ['skerry.dev'], resources: ['authgroups'], verbs: ['bind'], resourceNames: ['line-a'] },
      { apiGroups: ['rbac.authorization.k8s.io'], resources: ['roles', 'rolebindings'], verbs },
      ...READS,
    ];
    await admin.request('POST', rbac('roles'), role('lead', rules));
    await admin.request('POST', rbac('rolebindings'), {
      ...{ apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'RoleBinding', metadata: { name: 'lead' } },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'lead' },
      subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: 'lead' }],
    });
    for (const name of ['admin', 'line-a', 'line-b']) await admin.request('POST', groups, object('AuthGroup', name));
    await admin.request('POST', users, user('ann', { groups: ['line-b'] }));
    await admin.request('POST', rbac('roles'), role('made', READS));
    const isAllowed = async () => (await verdict(lead, 'GET', users)) === 'allowed';
    await waitFor(isAllowed, { what: 'the role of the lead to count' });
  });

  const ann = `${users}/ann`;
  const OWN = /names that begin with skerry- belong to the installation/;
  test.each<[string, string, string, object | undefined, true | RegExp]>([
    ['makes a user in a group that they may give', 'POST', users, user('new', { groups: ['line-a'] }), true],
    ['makes a user in another group', 'POST', users, user('new', { groups: ['line-b'] }), /only who may bind a group/],
    [
      'gives two groups in one write',
      'POST',
      users,
      user('new', { groups: ['line-a', 'line-b'] }),
      /one group in a write/,
    ],
    ['adds a group that they may give', 'PATCH', ann, { spec: { groups: ['line-b', 'line-a'] } }, true],
    ['adds another group', 'PATCH', ann, { spec: { groups: ['line-b', 'admin'] } }, /only who may bind a group/],
    ['takes a group from a user', 'PATCH', ann, { spec: { groups: [] } }, true],
    ['changes an e-mail', 'PATCH', ann, { spec: { email: 'eve@plant.example' } }, /only who may bind all groups/],
    ['labels a user', 'PATCH', ann, { metadata: { labels: { team: 'a' } } }, true],
    [
      'writes of former e-mails',
      'PATCH',
      ann,
      { metadata: noted(ANNOTATIONS.formerEmails) },
      /a note of the controller/,
    ],
    ['makes a user with former e-mails', 'POST', users, user('new', {}, noted(ANNOTATIONS.formerEmails)), /a note of/],
    [
      'makes a group that they may not give',
      'POST',
      groups,
      object('AuthGroup', 'line-c'),
      /only who may bind a group/,
    ],
    ['changes a group that they may give', 'PATCH', `${groups}/line-a`, { spec: { mfaRequired: true } }, true],
    [
      'renames it to another name',
      'PATCH',
      `${groups}/line-a`,
      { spec: { name: 'line-b' } },
      /only who may bind a group/,
    ],
    [
      'changes another group',
      'PATCH',
      `${groups}/line-b`,
      { spec: { mfaRequired: true } },
      /only who may bind a group/,
    ],
    ['makes a role with what they have', 'POST', rbac('roles'), role('own', READS), true],
    ['makes a role of the installation', 'POST', rbac('roles'), role('skerry-own', READS), OWN],
    ['changes a role of the installation', 'PATCH', `${rbac('roles')}/skerry-viewer`, { rules: READS }, OWN],
    ['deletes a binding of the installation', 'DELETE', `${rbac('rolebindings')}/skerry-admin`, undefined, OWN],
    ['deletes a role of their own', 'DELETE', `${rbac('roles')}/made`, undefined, true],
    [
      'says that a role is in the place of another',
      'POST',
      rbac('roles'),
      role('own', READS, noted(ANNOTATIONS.replaces)),
      /a note of/,
    ],
    [
      'says so of a role that exists',
      'PATCH',
      `${rbac('roles')}/made`,
      { metadata: noted(ANNOTATIONS.replaces) },
      /a note of/,
    ],
  ])(
    'over kubectl somebody who may give one group %s only as their permissions go',
    async (_, method, at, body, expected) => {
      const said = await verdict(lead, method, at, body, method === 'PATCH' ? MERGE : undefined);
      if (expected === true) expect(said).toBe('allowed');
      else expect(said).toMatch(expected);
    },
  );

  test.each<[string, string, object | undefined, boolean]>([
    ['deleted', 'DELETE', undefined, false],
    ['renamed', 'PATCH', { spec: { name: 'boss' } }, false],
    ['given a former name', 'PATCH', { spec: { aliases: ['line-a'] } }, false],
    ['asked for a second factor', 'PATCH', { spec: { mfaRequired: true } }, true],
    ['labelled', 'PATCH', { metadata: { labels: { team: 'a' } } }, true],
  ])(
    'a group of the system can or cannot be %s, by the admin of the cluster too',
    async (_, method, body, isAllowed) => {
      const act = (kube: Kube, name: string) => verdict(kube, method, `${groups}/${name}`, body, body && MERGE);
      for (const kube of [admin, person('skerry', 'admin')]) {
        if (isAllowed) expect(await act(kube, 'admin')).toBe('allowed');
        else expect(await act(kube, 'admin')).toContain('groups of the system are neither renamed nor deleted');
        expect(await act(kube, 'line-b')).toBe('allowed');
      }
    },
  );

  test('a user who may bind all groups gives several, and another e-mail', async () => {
    const kube = person('skerry', 'admin');
    const several = user('new', { groups: ['line-a', 'line-b', 'admin'] });
    expect(await verdict(kube, 'POST', users, several)).toBe('allowed');
    expect(await verdict(kube, 'PATCH', ann, { spec: { email: 'eve@plant.example' } }, MERGE)).toBe('allowed');
  });

  test('roles of the installation are changed by who may escalate, as Helm does, and not by the controller', async () => {
    const at = `${rbac('roles')}/skerry-viewer`;
    expect(await verdict(admin, 'PATCH', at, { rules: READS }, MERGE)).toBe('allowed');
    for (const kube of [person('skerry', 'admin'), controllerOf('skerry')])
      expect(await verdict(kube, 'PATCH', at, { rules: READS }, MERGE)).toMatch(OWN);
  });

  test('the controller writes the notes that are its own', async () => {
    const kube = controllerOf('skerry');
    expect(await verdict(kube, 'PATCH', ann, { metadata: noted(ANNOTATIONS.formerEmails) }, MERGE)).toBe('allowed');
    const replacing = role('own', READS, noted(ANNOTATIONS.replaces));
    expect(await verdict(kube, 'POST', rbac('roles'), replacing)).toBe('allowed');
  });
});

test('only the controller may annotate a registry as a draft', async () => {
  const metadata = { annotations: { [ANNOTATIONS.draft]: 'true' } };
  const draft = object('Registry', 'draft', { url: 'registry.example' }, metadata);
  const dora = person('skerry', 'developer');
  expect(await verdict(dora, 'POST', path('registries', 'skerry'), draft)).toContain("controller's own");
  expect(await verdict(dora, 'PATCH', `${path('registries', 'skerry')}/remote`, { metadata }, MERGE)).toContain(
    "controller's own",
  );
  expect(await verdict(controllerOf('skerry'), 'POST', path('registries', 'skerry'), draft)).toBe('allowed');
});

describe('the budgets of what users store', () => {
  const configMaps = '/api/v1/namespaces/second/configmaps';
  const applications = path('applications', 'second');
  const map = (name: string, data: object) => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data });
  const application = object('Application', 'more');
  const annotated = { metadata: { annotations: { note: 'x'.repeat(10_000) } } };
  const patch = (kube: Kube, at: string, body: object) => verdict(kube, 'PATCH', at, body, MERGE);
  let somebody: Kube;

  /** Writes down how much is used, as the leader does, and waits until the policy has read it. */
  async function use(used: Partial<Usage>, probe: () => Promise<string>, want: string) {
    const { installation, reserve } = BUDGETS;
    const data = policyData(BUDGETS, { content: 0, objects: 0, count: 0, ...used });
    expect([installation.count, reserve.count]).toEqual([20_000, 2_000]);
    await admin.apply({
      ...map(BUDGET_POLICY_NAME, data),
      metadata: { name: BUDGET_POLICY_NAME, namespace: 'second' },
    });
    await waitFor(async () => (await probe()).includes(want), { what: `a verdict with "${want}"` });
  }

  beforeAll(async () => {
    const rbac = { apiVersion: 'rbac.authorization.k8s.io/v1', metadata: { name: 'content', namespace: 'second' } };
    const rules = [{ apiGroups: [''], resources: ['configmaps', 'secrets'], verbs: ['*'] }];
    await admin.apply({ ...rbac, kind: 'Role', rules });
    const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'content' };
    const subjects = [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'Group', name: 'content' }];
    await admin.apply({ ...rbac, kind: 'RoleBinding', roleRef, subjects });
    await admin.request('POST', configMaps, map('present', { text: 'abc' }));
    somebody = as('somebody', 'second:developer', 'content');
  });

  test('allow everything while nobody has written down how much is used, and while there is room', async () => {
    expect(await verdict(somebody, 'POST', configMaps, map('more', {}))).toBe('allowed');
    const spent = { content: 10 ** 9, objects: 10 ** 9, count: 10 ** 9 };
    const create = () => verdict(somebody, 'POST', applications, application);
    await use(spent, create, 'used up');
    await use({}, create, 'allowed');
    expect(await verdict(somebody, 'POST', configMaps, map('more', {}))).toBe('allowed');
  });

  test('refuse content that grows with what to do, and allow what shrinks, is deleted or is of the controller', async () => {
    const create = () => verdict(somebody, 'POST', configMaps, map('more', {}));
    await use({ content: BUDGETS.installation.content }, create, 'used up');
    expect(await create()).toContain(
      "the installation's budget of 64.0 MiB of Secrets and ConfigMaps is used up: delete Secrets or ConfigMaps that nothing uses, or have the operator raise budgets.contentMiB",
    );
    const present = `${configMaps}/present`;
    expect(await patch(somebody, present, { data: { text: 'abcd' } })).toContain('used up');
    expect(await patch(somebody, present, { data: { text: null, next: 'abcd' } })).toContain('used up');
    expect(await patch(somebody, present, annotated)).toContain('used up');
    expect(await patch(somebody, present, { data: { text: 'abd' } })).toBe('allowed');
    expect(await patch(somebody, present, { data: { text: null } })).toBe('allowed');
    expect(await verdict(somebody, 'DELETE', present)).toBe('allowed');
    expect(await verdict(somebody, 'POST', applications, application)).toBe('allowed');
    expect(await verdict(controllerOf('second'), 'POST', configMaps, map('own', {}))).toBe('allowed');
    expect(await verdict(as('sre', 'second:sre', 'content'), 'POST', configMaps, map('mend', {}))).toBe('allowed');
    expect(await verdict(admin, 'POST', '/api/v1/namespaces/skerry/configmaps', map('elsewhere', {}))).toBe('allowed');
  });

  test('refuse new objects when bytes or number are used up, and changed specs when half of the reserve is', async () => {
    const { installation, reserve } = BUDGETS;
    const create = () => verdict(somebody, 'POST', applications, application);
    const edit = () => patch(somebody, `${applications}/free`, { spec: { description: 'other' } });
    await use({ count: installation.count }, create, 'budget of 20000 objects is used up');
    expect(await verdict(somebody, 'POST', configMaps, map('more', {}))).toContain('20000 objects');
    expect(await edit()).toBe('allowed');
    await use({ objects: installation.objects }, create, '32.0 MiB of applications');
    expect(await edit()).toBe('allowed');
    expect(await patch(somebody, `${applications}/free`, annotated)).toContain('used up');
    await use({ objects: installation.objects + reserve.objects / 2 }, edit, 'used up');
    expect(await patch(somebody, `${applications}/free`, { metadata: { labels: { a: null } } })).toBe('allowed');
    expect(await patch(person('second', 'sre'), `${applications}/free`, { spec: { description: 'mend' } })).toBe(
      'allowed',
    );
    const mend = () => patch(person('second', 'admin'), `${applications}/free`, { spec: { description: 'mend' } });
    await use({ objects: installation.objects + reserve.objects }, mend, 'used up');
    await use({}, create, 'allowed');
  });

  test('never keep an operator from an upgrade of the chart, which may raise them', async () => {
    const { installation, reserve } = BUDGETS;
    const operator = as('operator', 'second:admin', 'content');
    const mend = () => verdict(operator, 'POST', configMaps, map('mend', {}));
    await use({ content: installation.content + reserve.content, count: 10 ** 9 }, mend, 'used up');
    const release = (type: string) => ({
      ...{ apiVersion: 'v1', kind: 'Secret', type, data: { release: 'YQ==' } },
      metadata: { name: 'sh.helm.release.v1.skerry.v2', labels: { owner: 'helm' } },
    });
    const labels = { 'app.kubernetes.io/managed-by': 'Helm' };
    const dashboard = { ...map('skerry-dashboard', { json: '{}' }), metadata: { name: 'skerry-dashboard', labels } };
    const secrets = '/api/v1/namespaces/second/secrets';
    expect(await verdict(operator, 'POST', secrets, release('helm.sh/release.v1'))).toBe('allowed');
    expect(await verdict(operator, 'POST', configMaps, dashboard)).toBe('allowed');
    expect(await verdict(operator, 'POST', secrets, release('Opaque'))).toContain('used up');
    expect(await verdict(somebody, 'POST', secrets, release('helm.sh/release.v1'))).toContain('used up');
    expect(await verdict(somebody, 'POST', configMaps, dashboard)).toContain('used up');
    await use({}, mend, 'allowed');
  });

  test('are charged to nobody else: over kubectl a user names no other one', async () => {
    const of = (user: string) => object('Application', 'mine', {}, { annotations: { [ANNOTATIONS.storedBy]: user } });
    expect(await verdict(somebody, 'POST', applications, of('ann'))).toContain('leave it out');
    expect(await verdict(somebody, 'POST', applications, of('somebody'))).toBe('allowed');
    expect(await verdict(person('second', 'sre'), 'POST', applications, of('ann'))).toBe('allowed');
    await admin.request('POST', applications, of('ann'));
    const change = (user: string | null) =>
      patch(somebody, `${applications}/mine`, { metadata: { annotations: { [ANNOTATIONS.storedBy]: user } } });
    expect(await change('bob')).toContain('leave it out');
    expect(await patch(somebody, `${applications}/mine`, { spec: { description: 'other' } })).toBe('allowed');
    expect(await change(null)).toBe('allowed');
  });
});
