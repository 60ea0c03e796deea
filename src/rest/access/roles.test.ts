import { describe, expect, test } from 'vitest';
import { routes } from '../../assembly/routes.ts';
import { permits } from '../_rules.ts';
import type { Permission } from '../contract/route.ts';
import { knownResources, ROLE_NAMES, type RoleName, roles, rulesOf } from './roles.ts';

const may = (role: RoleName, verb: Permission['verb'], resource: string) => permits(rulesOf(role), { resource, verb });

describe('the matrix', () => {
  test.each<[RoleName, boolean, Permission['verb'], string]>([
    ['admin', true, 'delete', 'authadmin'],
    ['admin', true, 'create', 'edgenodes/provisioning-key'],
    ['sre', true, 'create', 'edgenodes/provisioning-key'],
    ['developer', false, 'create', 'edgenodes/provisioning-key'],
    ['admin', true, 'create', 'edgenodes/system'],
    ['sre', false, 'create', 'edgenodes/system'],
    ['viewer', false, 'create', 'edgenodes/provisioning-key'],
    ['viewer', true, 'list', 'edgenodes'],
    ['viewer', false, 'patch', 'edgenodes'],
    ['developer', false, 'patch', 'edgenodes'],
    ['developer', true, 'create', 'applications'],
    ['viewer', false, 'create', 'applications'],
    ['developer', false, 'get', 'registries/credentials'],
    ['sre', true, 'get', 'registries/credentials'],
    ['developer', false, 'get', 'secrets/data'],
    ['viewer', false, 'get', 'secrets/data'],
    ['developer', true, 'patch', 'secrets'],
    ['sre', false, 'get', 'busbootstraps'],
    ['sre', false, 'patch', 'authusers'],
    ['sre', true, 'list', 'authusers'],
    ['developer', false, 'create', 'systemmicroservices/exec'],
    ['developer', true, 'create', 'microservices/exec'],
    ['viewer', false, 'get', 'microservices/log'],
    ['developer', false, 'list', 'events'],
    ['sre', false, 'create', 'authadmin'],
  ])('the role %s has %s for %s %s', (role, allowed, verb, resource) => {
    expect(may(role, verb, resource)).toBe(allowed);
  });

  test('each role has all permissions of the next lower role', () => {
    const resources = [...knownResources().keys()];
    const verbs = ['get', 'list', 'create', 'update', 'patch', 'delete'] as const;
    const [admin, sre, developer, viewer] = ROLE_NAMES.map(
      (role) =>
        new Set(resources.flatMap((one) => verbs.filter((verb) => may(role, verb, one)).map((v) => `${v} ${one}`))),
    );
    expect([...(viewer ?? [])].filter((one) => !developer?.has(one))).toEqual([]);
    expect([...(developer ?? [])].filter((one) => !sre?.has(one))).toEqual([]);
    expect([...(sre ?? [])].filter((one) => !admin?.has(one))).toEqual([]);
  });
});

test('every route has a resource of the matrix', () => {
  const unknown = routes.flatMap(({ access }) =>
    typeof access === 'object' && !knownResources().has(access.resource) ? [access.resource] : [],
  );
  expect(unknown).toEqual([]);
});

test('only routes that are needed before a token exists are public', () => {
  const open = routes.filter((route) => route.access === 'public').map((route) => `${route.method} ${route.path}`);
  expect(open.filter((one) => !one.includes('/user/'))).toEqual([
    'GET /live',
    'GET /status',
    'GET /architectures',
    'GET /openapi.json',
  ]);
});

test('a rule limited to names allows those names only', () => {
  const rules = [{ apiGroups: ['skerry.dev'], resources: ['edgenodes'], verbs: ['get'], resourceNames: ['a'] }];
  const ask = (name?: string) => permits(rules, { resource: 'edgenodes', verb: 'get', name });
  expect([ask(), ask('a'), ask('b')]).toEqual([false, true, false]);
});

test('the manifests have one Role and one RoleBinding per role, in the namespace', () => {
  const manifests = roles({ namespace: 'ns' });
  expect(manifests.map(({ kind, metadata }) => `${kind} ${metadata.namespace}/${metadata.name}`)).toEqual(
    ROLE_NAMES.flatMap((role) => [`Role ns/skerry-${role}`, `RoleBinding ns/skerry-${role}`]),
  );
  expect(manifests[1]?.subjects).toEqual([
    { apiGroup: 'rbac.authorization.k8s.io', kind: 'Group', name: 'skerry:admin' },
  ]);
});

test('every role reads the events and the Leases of the cluster, and writes none', () => {
  for (const role of ROLE_NAMES) {
    const core = rulesOf(role).filter(({ apiGroups }) => !/skerry|rbac/.test(apiGroups[0] ?? ''));
    expect(core).toEqual([
      { apiGroups: ['', 'events.k8s.io'], resources: ['events'], verbs: ['get', 'list', 'watch'] },
      { apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs: ['get', 'list', 'watch'] },
    ]);
  }
});

test('two installations may have different groups', () => {
  const [, binding] = roles({ namespace: 'ns', groups: 'shore' });
  expect(binding?.subjects?.[0]?.name).toBe('shore:admin');
});

test('admins change roles and bindings of the cluster, and the other roles read them', () => {
  const verbs = ROLE_NAMES.map(
    (role) => rulesOf(role).find(({ apiGroups }) => apiGroups.includes('rbac.authorization.k8s.io'))?.verbs,
  );
  const read = ['get', 'list', 'watch'];
  expect(verbs).toEqual([[...read, 'create', 'update', 'patch', 'delete'], read, read, read]);
});
