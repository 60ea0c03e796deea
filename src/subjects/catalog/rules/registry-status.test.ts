import { describe, expect, it, test } from 'vitest';
import { API_VERSION } from '../../../api/names.ts';
import { type Registry, registryResource } from '../../../api/v3/index.ts';
import { registryId } from '../../../rules/identity.ts';
import { type KindStatusInputs, kindStatus } from '../../../rules/kind-status.ts';
import { passwordObstacle } from './registry-status.ts';

interface RegistryStatusInputs extends Pick<KindStatusInputs, 'identity' | 'users' | 'now'> {
  registry: Registry;
  hasPassword: boolean;
}

const registryStatus = ({ registry, hasPassword, ...rest }: RegistryStatusInputs) =>
  kindStatus({
    definition: registryResource,
    noun: 'registry',
    object: registry,
    id: registryId(registry),
    obstacle: passwordObstacle(registry, hasPassword),
    ...rest,
  });

const NOW = '2026-01-02T00:00:00.000Z';
const LATER = '2026-01-03T00:00:00.000Z';

interface Overrides extends Partial<Omit<RegistryStatusInputs, 'registry'>> {
  spec?: Partial<Registry['spec']>;
  metadata?: Partial<Registry['metadata']>;
  status?: Registry['status'];
}

const makeInputs = ({ spec, metadata, status, ...rest }: Overrides = {}): RegistryStatusInputs => ({
  registry: {
    apiVersion: API_VERSION,
    kind: 'Registry',
    metadata: { name: 'r', generation: 3, ...metadata },
    spec: { id: 11, url: 'registry.example', isPublic: true, type: 'oci', insecure: false, ...spec },
    ...(status && { status }),
  },
  users: [],
  hasPassword: true,
  now: NOW,
  ...rest,
});

const passwordSecretRef = { name: 'pull', key: 'password' };
const deleting = { deletionTimestamp: NOW };

describe('registryStatus', () => {
  it('does not depend on the users of the registry, so that a new user causes no write', () => {
    const of = (users: string[]) => registryStatus(makeInputs({ users })).conditions;
    expect(of(['b/x', 'a/y'])).toEqual(of([]));
  });

  test.each<[sentence: string, given: Overrides, readyReconcilingStalledReason: string]>([
    ['is Usable once the registry has an id', {}, 'True False False Usable'],
    ['is IdNotAssigned until the registry has an id', { spec: { id: undefined } }, 'False True False IdNotAssigned'],
    ['is Usable when the Secret has the password', { spec: { passwordSecretRef } }, 'True False False Usable'],
    [
      'is Stalled when the Secret does not exist',
      { spec: { passwordSecretRef }, hasPassword: false },
      'False False True PasswordNotFound',
    ],
    ['is Usable without a password when the registry names none', { hasPassword: false }, 'True False False Usable'],
    ['is Deleting and Reconciling without users', { metadata: deleting }, 'False True False Deleting'],
    ['is Deleting and Stalled while it has users', { metadata: deleting, users: ['a/b'] }, 'False False True Deleting'],
  ])('%s', (_, given, expected) => {
    const { conditions = [] } = registryStatus(makeInputs(given));
    expect(conditions.map(({ type }) => type)).toEqual(['Ready', 'Reconciling', 'Stalled']);
    expect([...conditions.map(({ status }) => status), conditions[0]?.reason].join(' ')).toBe(expected);
  });

  it('has the current generation and matches the schema of the CRD', () => {
    const status = registryStatus(makeInputs());
    expect(status.observedGeneration).toBe(3);
    expect(registryResource.status.safeParse(status)).toMatchObject({ success: true, data: status });
  });

  it('equals the stored one when nothing but the order of the users changed', () => {
    const status = registryStatus(makeInputs({ metadata: deleting, users: ['b/c', 'a/b'] }));
    expect(registryStatus(makeInputs({ metadata: deleting, users: ['a/b', 'b/c'], status, now: LATER }))).toEqual(
      status,
    );
  });

  it('names the Secret that is missing or not allowed, and the annotation that allows it', () => {
    const { conditions } = registryStatus(makeInputs({ spec: { passwordSecretRef }, hasPassword: false }));
    expect(conditions?.[0]?.message).toBe(
      'there is no Secret pull with the key password, or it may not be sent to https://registry.example: that is allowed by its annotation skerry.dev/registry=https://registry.example',
    );
  });

  it('names 20 of 5,000 users', () => {
    const users = Array.from({ length: 5000 }, (_, index) => `app-${index}/web`);
    const { conditions } = registryStatus(makeInputs({ metadata: deleting, users }));
    expect(conditions?.[0]?.message).toMatch(
      /^deletion is blocked: the registry is used by app-0\/web.* and 4980 more$/,
    );
  });
});
