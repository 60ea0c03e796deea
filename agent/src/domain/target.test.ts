import { describe, expect, test } from 'vitest';
import { type RegistryView, registryViewSchema } from '../../../src/wire/agent.ts';
import { makeView } from '../supervise/plan/_util.ts';
import { pullReference, pullTarget, registryNotHonoured } from './target.ts';

const HOST = 'registry.example.com:5000';
const registry = (change: Partial<RegistryView> = {}) =>
  registryViewSchema.parse({ id: 5, url: `https://${HOST}`, ...change });
const login = { username: 'u', password: 'p' };

describe('the reference of a pull', () => {
  const targets: Record<string, [string, RegistryView | undefined, string]> = {
    'is unchanged when it has a host': ['other.example.com/a:1', registry(), 'other.example.com/a:1'],
    'gets the host of the registry when it has none': ['team/a:1', registry(), `${HOST}/team/a:1`],
    'gets the host of a registry URL without a scheme': [
      'a:1',
      registry({ url: 'registry.example.com' }),
      'registry.example.com/a:1',
    ],
    'does not get the path of a registry URL': ['a:1', registry({ url: `https://${HOST}/v2/` }), `${HOST}/a:1`],
    'is unchanged for the public hub': ['nginx:1', registry({ url: 'registry.hub.docker.com' }), 'nginx:1'],
    'is unchanged when the registry is unknown': ['nginx:1', undefined, 'nginx:1'],
    'is unchanged when its host is localhost': ['localhost/a:1', registry(), 'localhost/a:1'],
    'is unchanged for the local cache': ['a:1', registry({ id: 2, url: 'from_cache' }), 'a:1'],
  };
  for (const [name, [reference, from, want]] of Object.entries(targets))
    test(name, () => expect(pullTarget(reference, from).reference).toBe(want));
});

test('what an image is pulled by is not known without its registry, unless it names a host or its registry is built in', () => {
  const known = new Map([[7, registry({ id: 7 })]]);
  const pulledBy = (imageId: string, registryId: number) => pullReference({ imageId, registryId }, known);
  expect(pulledBy('a:1', 7)).toBe(`${HOST}/a:1`);
  expect(pulledBy('a:1', 9)).toBeUndefined();
  expect(pulledBy('other.example.com/a:1', 9)).toBe('other.example.com/a:1');
  expect([1, 2].map((id) => pulledBy('a:1', id))).toEqual(['a:1', 'a:1']);
});

describe('a pull', () => {
  const relay = { host: HOST, scheme: 'https', ca: '', insecure: false };
  const targets: Record<string, [string, RegistryView, object]> = {
    'has the credentials of the registry': ['a:1', registry(login), { credentials: { ...login, host: HOST } }],
    'has the credentials when the reference names the host of the registry': [
      `${HOST}/a:1`,
      registry(login),
      { credentials: { ...login, host: HOST } },
    ],
    'has no credentials when the registry has none': ['a:1', registry(), {}],
    'from another host has no credentials, authority or plain HTTP': [
      'evil.example.com/a:1',
      registry({ ...login, ca: 'Y2E=', insecure: true }),
      {},
    ],
    'from another port of the host has no credentials': ['registry.example.com:5001/a:1', registry(login), {}],
    'goes through the relay when the registry has an authority': [
      'a:1',
      registry({ ...login, ca: 'Y2E=' }),
      { relay: { ...relay, ca: 'Y2E=', credentials: login } },
    ],
    'goes through the relay when the registry allows plain HTTP': [
      'a:1',
      registry({ url: HOST, insecure: true }),
      { relay: { ...relay, scheme: undefined, insecure: true, credentials: undefined } },
    ],
    'from the loopback interface does not go through the relay': [
      'a:1',
      registry({ url: 'http://127.0.0.1:5000', insecure: true, ...login }),
      { credentials: { ...login, host: '127.0.0.1:5000' } },
    ],
    'has the credentials when the host is spelled differently': [
      'Registry.example.com:443/a:1',
      registry({ url: 'registry.example.com', ...login }),
      { credentials: { ...login, host: 'registry.example.com' } },
    ],
  };
  for (const [name, [reference, from, want]] of Object.entries(targets))
    test(name, () => {
      const { reference: _reference, ...rest } = pullTarget(reference, from);
      expect(rest).toEqual(want);
    });

  test.each([
    ['of a registry', 'a:1', registry(login), { ...relay, credentials: login }],
    ['of another host', 'o.example/a:1', registry(login), { host: 'o.example', ca: '', insecure: false }],
    ['of no registry', 'a:1', undefined, { host: 'docker.io', ca: '', insecure: false }],
    ['of the loopback interface', '127.0.0.1:5000/a:1', undefined, { host: '127.0.0.1:5000', ca: '', insecure: true }],
  ])('%s goes through the relay when the policy wants all images to', (_name, reference, from, want) => {
    expect(pullTarget(reference, from, { pullThroughAgent: true }).relay).toMatchObject(want);
  });
});

describe('settings of a registry for an image of another host', () => {
  const say = (imageId: string, from: RegistryView) => registryNotHonoured(makeView({ imageId }), from);
  test('are reported as not honoured', () =>
    expect(say('other.example.com/a:1', registry({ ...login, insecure: true }))).toBe(
      `credentials, insecure are for ${HOST}, and the image comes from other.example.com`,
    ));
  test('are not reported for its own host, nor when there are no settings', () => {
    expect(say(`${HOST}/a:1`, registry(login))).toBeUndefined();
    expect(say('a:1', registry(login))).toBeUndefined();
    expect(say('other.example.com/a:1', registry())).toBeUndefined();
  });
});
