import { describe, expect, test } from 'vitest';
import { type RegistryView, registryViewSchema } from '../../../src/wire/agent.ts';
import { makeView } from '../plan/_util.ts';
import { pullTarget, registryNotHonoured } from './target.ts';

const HOST = 'registry.example.com:5000';
const registry = (change: Partial<RegistryView> = {}) =>
  registryViewSchema.parse({ id: 5, url: `https://${HOST}`, ...change });
const login = { username: 'u', password: 'p' };

describe('where an image is pulled from', () => {
  const targets: Record<string, [string, RegistryView | undefined, string]> = {
    'a reference with a host, as it is': ['other.example.com/a:1', registry(), 'other.example.com/a:1'],
    'a reference without one, at its registry': ['team/a:1', registry(), `${HOST}/team/a:1`],
    'a registry without a scheme': ['a:1', registry({ url: 'registry.example.com' }), 'registry.example.com/a:1'],
    'a registry with a path: its host': ['a:1', registry({ url: `https://${HOST}/v2/` }), `${HOST}/a:1`],
    'the public hub, as it is': ['nginx:1', registry({ url: 'registry.hub.docker.com' }), 'nginx:1'],
    'no registry known, as it is': ['nginx:1', undefined, 'nginx:1'],
    'localhost is a host': ['localhost/a:1', registry(), 'localhost/a:1'],
    'the local cache is no host': ['a:1', registry({ id: 2, url: 'from_cache' }), 'a:1'],
  };
  for (const [name, [reference, from, want]] of Object.entries(targets))
    test(name, () => expect(pullTarget(reference, from).reference).toBe(want));
});

describe('what goes with it', () => {
  const relay = { host: HOST, scheme: 'https', ca: '', insecure: false };
  const targets: Record<string, [string, RegistryView, object]> = {
    'credentials, where the registry has some': ['a:1', registry(login), { credentials: { ...login, host: HOST } }],
    'credentials to the same host by name': [`${HOST}/a:1`, registry(login), { credentials: { ...login, host: HOST } }],
    'nothing from a registry without': ['a:1', registry(), {}],
    'no credentials, authority or plain http to another host': [
      'evil.example.com/a:1',
      registry({ ...login, ca: 'Y2E=', insecure: true }),
      {},
    ],
    'nor to another port of it': ['registry.example.com:5001/a:1', registry(login), {}],
    'the agent itself, where an authority is named': [
      'a:1',
      registry({ ...login, ca: 'Y2E=' }),
      { relay: { ...relay, ca: 'Y2E=', credentials: login } },
    ],
    'the agent itself, where plain http is allowed': [
      'a:1',
      registry({ url: HOST, insecure: true }),
      { relay: { ...relay, scheme: undefined, insecure: true, credentials: undefined } },
    ],
    'the engine itself on the loopback interface': [
      'a:1',
      registry({ url: 'http://127.0.0.1:5000', insecure: true, ...login }),
      { credentials: { ...login, host: '127.0.0.1:5000' } },
    ],
    'one spelling of the host': [
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
});

describe('settings of a registry that do nothing for an image', () => {
  const say = (imageId: string, from: RegistryView) => registryNotHonoured(makeView({ imageId }), from);
  test('are told', () =>
    expect(say('other.example.com/a:1', registry({ ...login, insecure: true }))).toBe(
      `credentials, insecure are for ${HOST}, and the image comes from other.example.com`,
    ));
  test('are none at its own host, and where there are no settings', () => {
    expect(say(`${HOST}/a:1`, registry(login))).toBeUndefined();
    expect(say('a:1', registry(login))).toBeUndefined();
    expect(say('other.example.com/a:1', registry())).toBeUndefined();
  });
});
