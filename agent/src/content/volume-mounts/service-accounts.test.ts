import { beforeEach, describe, expect, test } from 'vitest';
import { silentLog } from '../../../../src/lib/log.ts';
import type { MicroserviceView } from '../../../../src/wire/agent.ts';
import { filesInMemory } from '../../machine/_mounted-files.ts';
import { memoryTokens } from '../../state/_tokens.ts';
import { newIdentity, publicKeyObject } from '../../state/identity.ts';
import type { LocalTokens } from '../../state/local-tokens.ts';
import { verifyToken } from '../../state/token.ts';
import { makeView } from '../../supervise/plan/_util.ts';
import { ServiceAccounts } from './service-accounts.ts';

const MINUTE = 60_000;
const identity = {
  ...newIdentity(),
  node: { uuid: 'node-1', namespace: 'edge', controllerUrl: 'http://127.0.0.1:9' },
};
const rules = [{ apiGroups: ['agent.skerry.dev/v1'], resources: ['microservices'], verbs: ['get'] }];
const view = (change: Partial<MicroserviceView> = {}) =>
  makeView({ name: 'web', application: 'shop', serviceAccount: { name: 'web', rules }, ...change });

let now: number;
let files: ReturnType<typeof filesInMemory>;
let accounts: ServiceAccounts;
let tokens: LocalTokens;
let authority: string;
let writes: number;

beforeEach(() => {
  now = 1_800_000_000_000;
  writes = 0;
  const memory = filesInMemory();
  files = {
    ...memory,
    write: (path, tree) => {
      writes++;
      memory.write(path, tree);
    },
  };
  const clock = { now: () => now, wall: () => now, after: () => () => {} };
  tokens = memoryTokens(identity, clock);
  authority = 'a certificate';
  const deps = { files, clock, tokens, log: silentLog, identity: () => identity, authority: () => authority };
  accounts = new ServiceAccounts(deps);
});

const file = (name: string, uuid = view().uuid) => files.read(`serviceaccounts/${uuid}`)?.get(name)?.toString();
const claims = () => verifyToken(file('token') ?? '', publicKeyObject(identity.localKey), now / 1000);

describe('the token of a microservice', () => {
  test('names it and its rules, is signed by the key of the machine, and lies beside that key and the namespace', () => {
    accounts.apply([view()]);
    expect(claims()).toMatchObject({
      sub: 'system:serviceaccount:shop:web',
      iss: 'https://skerry-agent.default.svc.bridge.local',
      aud: ['https://skerry-agent.default.svc.bridge.local'],
      tokenUse: 'serviceaccount',
      exp: now / 1000 + 3600,
      'agent.skerry.dev': {
        namespace: 'edge',
        node: { uuid: 'node-1' },
        microservice: { application: 'shop', name: 'web', uuid: view().uuid },
        rbac: {
          version: 'v1',
          rulesByGroup: { 'agent.skerry.dev/v1': [{ resources: ['microservices'], verbs: ['get'] }] },
        },
      },
    });
    expect(file('namespace')).toBe('edge');
    expect(JSON.parse(file('skerry-agent.jwk') ?? '')).toEqual({
      kty: 'OKP',
      crv: 'Ed25519',
      x: identity.localKey.x,
      alg: 'EdDSA',
    });
  });

  test('names the namespace of the settings where the machine is no node', () => {
    const { node: _, ...alone } = identity;
    const clock = { now: () => now, wall: () => now, after: () => () => {} };
    const deps = { files, clock, tokens, log: silentLog, identity: () => alone, authority: () => authority };
    new ServiceAccounts({ ...deps, namespace: () => 'plant-7' }).apply([view()]);
    expect(claims()).toMatchObject({ 'agent.skerry.dev': { namespace: 'plant-7', node: { uuid: '' } } });
    expect(file('namespace')).toBe('plant-7');
  });

  test('names its role', () => {
    const roleRef = { kind: 'Role', name: 'viewer' };
    accounts.apply([view({ serviceAccount: { name: 'web', rules, roleRef } })]);
    expect(claims()).toMatchObject({ 'agent.skerry.dev': { rbac: { roleRef } } });
  });

  test('is replaced two minutes before it expires, and not written before', () => {
    accounts.apply([view()]);
    const first = file('token');
    now += 57 * MINUTE;
    accounts.apply([view()]);
    expect([file('token'), writes]).toEqual([first, 1]);
    now += MINUTE;
    accounts.apply([view()]);
    expect(file('token')).not.toBe(first);
    expect(claims()?.exp).toBe(now / 1000 + 3600);
  });

  test('is replaced at once when its rules change', () => {
    accounts.apply([view()]);
    accounts.apply([view({ serviceAccount: { name: 'web', rules: [] } })]);
    expect(claims()).toMatchObject({ 'agent.skerry.dev': { rbac: { rulesByGroup: {} } } });
  });

  test('is replaced at once when it was revoked, alone or with all of its subject', () => {
    accounts.apply([view()]);
    for (const revocation of [{ jti: claims()?.jti ?? '' }, { subject: 'system:serviceaccount:shop:web' }]) {
      const former = file('token') ?? '';
      tokens.revoke([revocation]);
      accounts.apply([view()]);
      expect([tokens.verify(former), tokens.verify(file('token') ?? '') !== undefined]).toEqual([undefined, true]);
    }
  });

  test('lies beside the certificate of the authority, which changes in place when it is renewed', () => {
    accounts.apply([view()]);
    expect(file('ca.crt')).toBe('a certificate');
    authority = 'another certificate';
    accounts.apply([view()]);
    expect(file('ca.crt')).toBe('another certificate');
  });

  test('is not written for a microservice without a service account, or whose volume covers its place', () => {
    const covering = {
      hostDestination: '/srv/run',
      containerDestination: '/var/run',
      accessMode: 'ro',
      type: 'bind',
      scope: 'private',
    } as const;
    accounts.apply([view({ serviceAccount: undefined }), view({ volumeMappings: [covering] })]);
    expect(files.list('serviceaccounts')).toEqual([]);
  });

  test('is removed when its microservice is gone and no container binds it', () => {
    accounts.apply([view()]);
    expect(accounts.tidy({ wanted: new Set(), isBound: () => true })).toBe(false);
    expect(file('token')).toBeDefined();
    expect(accounts.tidy({ wanted: new Set(), isBound: () => false })).toBe(true);
    expect(file('token')).toBeUndefined();
  });
});
