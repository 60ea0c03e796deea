import { describe, expect, test } from 'vitest';
import { makeApplication, makeEntry } from '../../workloads/_make.ts';
import { BOUND_ROLES, newlyBound, roleVerdict, serviceAccountOf } from './service-account.ts';

const account = (name: string) => ({ spec: { applicationName: 'plant-a', roleRef: { name } } }) as never;
const of = (entry: object, object?: never) =>
  serviceAccountOf(makeApplication(), makeEntry(entry), (kind, ref) =>
    kind === 'serviceAccounts' && ref === 'plant-a/reader' ? object : undefined,
  );

describe('the account of a microservice', () => {
  test('is called like it, and may read what is its own', () => {
    expect(of({})).toEqual({
      name: 'reader',
      roleRef: { kind: 'Role', name: 'microservice' },
      rules: [
        {
          apiGroups: ['agent.skerry.dev/v1'],
          resources: ['microservices/config/self', 'auth/whoami', 'system/gps', 'microservices/control/self'],
          verbs: ['get'],
        },
      ],
    });
  });

  test('has the role of the ServiceAccount of its name, and first that of the entry', () => {
    expect(of({}, account('agent-admin')).rules).toMatchObject([{ resources: ['*'], verbs: ['*'] }]);
    const entry = { serviceAccount: { roleRef: { name: 'viewer' } } };
    expect(of(entry, account('agent-admin'))).toMatchObject({ roleRef: { name: 'viewer' }, rules: [] });
  });

  test('may do nothing with a role that does not exist', () => {
    expect(of({}, account('king')).rules).toEqual([]);
    expect(of({}, account('constructor')).rules).toEqual([]);
  });
});

test('a role that has to be bound is one that permits more than every microservice may', () => {
  expect(BOUND_ROLES).toEqual(['agent-admin']);
});

test('a role counts as newly bound when an entry of that name did not have it', () => {
  const entry = (name: string, role?: string) =>
    makeEntry({ name, ...(role && { serviceAccount: { roleRef: { name: role } } }) });
  const before = [entry('old', 'agent-admin'), entry('plain')];
  const after = [entry('old', 'agent-admin'), entry('plain', 'agent-admin'), entry('new', 'viewer')];
  expect(newlyBound(after, before)).toEqual([{ entry: 'plain', role: 'agent-admin' }]);
  expect(newlyBound([entry('new', 'agent-admin')])).toEqual([{ entry: 'new', role: 'agent-admin' }]);
});

test('a role that does not exist is refused with the roles that do', () => {
  expect(roleVerdict({ name: 'microservice' }, 'roleRef', () => false)).toBeUndefined();
  expect(roleVerdict({ name: 'king' }, 'roleRef', () => false)).toMatchObject({
    reason: 'RoleNotFound',
    status: 400,
    message: expect.stringContaining('agent-admin'),
  });
});
