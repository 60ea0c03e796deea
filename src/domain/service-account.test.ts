import { describe, expect, test } from 'vitest';
import { makeApplication, makeEntry } from './_util.ts';
import { roleVerdict, serviceAccountOf } from './service-account.ts';

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

test('a role that does not exist is refused with the roles that do', () => {
  expect(roleVerdict({ name: 'microservice' }, 'roleRef')).toBeUndefined();
  expect(roleVerdict({ name: 'king' }, 'roleRef')).toMatchObject({
    reason: 'RoleNotFound',
    status: 400,
    message: expect.stringContaining('agent-admin'),
  });
});
