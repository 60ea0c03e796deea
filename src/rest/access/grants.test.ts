import { describe, expect, test } from 'vitest';
import type { PolicyRule } from '../../api/rbac.ts';
import { createMemoryDependencies } from '../_memory.ts';
import { permits } from '../_rules.ts';
import { createGrants } from './grants.ts';
import { rulesOf } from './roles.ts';

const deps = createMemoryDependencies();
const grants = createGrants(deps);
const ours = (resources: string[], verbs: string[], resourceNames?: string[]): PolicyRule => ({
  apiGroups: ['skerry.dev'],
  resources,
  verbs,
  ...(resourceNames && { resourceNames }),
});
const holder = (...rules: PolicyRule[]) => ({
  identity: { name: 'ann', groups: [] },
  may: async (asked: Parameters<typeof permits>[1]) => permits(rules, asked),
});
const sre = holder(...rulesOf('sre'));
const admin = holder(...rulesOf('admin'));
const refused = (field: string) => expect.objectContaining({ status: 403, message: expect.stringContaining(field) });

describe('who makes a role', () => {
  test.each<[string, PolicyRule[], PolicyRule[], boolean]>([
    ['has it', [ours(['applications'], ['get', 'patch'])], [ours(['applications'], ['get'])], true],
    ['has one verb of two', [ours(['applications'], ['get'])], [ours(['applications'], ['get', 'delete'])], false],
    [
      'has one resource of two',
      [ours(['applications'], ['get'])],
      [ours(['applications', 'services'], ['get'])],
      false,
    ],
    [
      'has it for some names, and gives it for all',
      [ours(['applications'], ['get'], ['a'])],
      [ours(['applications'], ['get'])],
      false,
    ],
    [
      'gives a name of several',
      [ours(['applications'], ['get'], ['a', 'b'])],
      [ours(['applications'], ['get'], ['a'])],
      true,
    ],
    [
      'gives one name more',
      [ours(['applications'], ['get'], ['a'])],
      [ours(['applications'], ['get'], ['a', 'b'])],
      false,
    ],
    ['gives names of all', [ours(['applications'], ['get'])], [ours(['applications'], ['get'], ['a'])], true],
    ['has a whole group', [ours(['*'], ['*'])], [ours(['secrets/data'], ['get'])], true],
    [
      'has it in another group',
      [{ apiGroups: ['apps'], resources: ['*'], verbs: ['*'] }],
      [ours(['services'], ['get'])],
      false,
    ],
    ['may escalate', [ours(['roles'], ['escalate'])], [ours(['authadmin'], ['create'])], true],
    [
      'gives rules of agents without them',
      [ours(['applications'], ['get'])],
      [{ apiGroups: ['agent.skerry.dev/v1'], resources: ['*'], verbs: ['*'] }],
      false,
    ],
  ])('%s', async (_, held, given, allowed) => {
    const asking = grants.requireMayGrant(holder(...held), given, 'rules');
    if (allowed) await asking;
    else await expect(asking).rejects.toThrow(refused('rules'));
  });
});

describe('who binds a role', () => {
  test('has all that it permits, or may bind it', async () => {
    await grants.requireMayBindRole(sre, 'developer', 'roleRef');
    await expect(grants.requireMayBindRole(sre, 'admin', 'roleRef')).rejects.toThrow(refused('roleRef'));
    await grants.requireMayBindRole(admin, 'admin', 'roleRef');
    await grants.requireMayBindRole(holder(ours(['roles'], ['bind'], ['admin'])), 'admin', 'roleRef');
    await expect(
      grants.requireMayBindRole(holder(ours(['roles'], ['bind'], ['sre'])), 'admin', 'roleRef'),
    ).rejects.toThrow(refused('roleRef'));
  });
});

describe('who changes a user', () => {
  test('may give each of its groups', async () => {
    const user = { email: 'bob@x', groups: ['admin'] };
    await expect(grants.requireNotStronger(sre, user)).rejects.toThrow(refused('authgroups "admin"'));
    await grants.requireNotStronger(admin, user);
    await grants.requireNotStronger(holder(ours(['authgroups'], ['bind'], ['admin'])), user);
    await grants.requireNotStronger(sre, { email: 'bob@x', groups: [] });
  });

  test('may give the roles that are bound to its name', async () => {
    await deps.roleBindings.create(
      {
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'RoleBinding',
        metadata: { name: 'eve' },
        roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'skerry-admin' },
        subjects: [{ kind: 'User', name: 'skerry:eve@x' }],
      },
      AbortSignal.timeout(1_000),
    );
    await expect(grants.requireNotStronger(sre, { email: 'eve@x', groups: [] })).rejects.toThrow(refused('email'));
    await grants.requireNotStronger(admin, { email: 'eve@x', groups: [] });
  });
});
