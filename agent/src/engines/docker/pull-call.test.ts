import { describe, expect, test } from 'vitest';
import type { PullRequest } from '../../domain/engine.ts';
import { pullCall } from './pull-call.ts';

/** What each engine is asked for one pull. */
const cases: Record<string, [PullRequest, docker: object, podman: object]> = {
  'no tag: the latest, not all of them': [
    { reference: 'r.example.com/a', platform: '' },
    { fromImage: 'r.example.com/a:latest' },
    { reference: 'r.example.com/a:latest' },
  ],
  'no host: the public hub, also where the engine has none of its own': [
    { reference: 'nginx:1', platform: '' },
    { fromImage: 'docker.io/library/nginx:1' },
    { reference: 'docker.io/library/nginx:1' },
  ],
  'a platform': [
    { reference: 'r.example.com/a:1', platform: 'linux/arm/v7' },
    { fromImage: 'r.example.com/a:1', platform: 'linux/arm/v7' },
    { reference: 'r.example.com/a:1', os: 'linux', arch: 'arm', variant: 'v7' },
  ],
  'loopback: no TLS, which docker knows by itself': [
    { reference: '127.0.0.1:5000/a:1', platform: '' },
    { fromImage: '127.0.0.1:5000/a:1' },
    { reference: '127.0.0.1:5000/a:1', tlsVerify: 'false' },
  ],
};
for (const [name, [request, docker, podman]] of Object.entries(cases))
  test(name, () => {
    expect(pullCall(request, 'docker')).toMatchObject({ path: '/images/create', query: docker, headers: {} });
    expect(pullCall(request, 'podman')).toMatchObject({ path: '/libpod/images/pull', query: podman, headers: {} });
    for (const kind of ['docker', 'podman'] as const)
      expect(Object.keys(pullCall(request, kind).query)).toEqual(Object.keys(kind === 'docker' ? docker : podman));
  });

describe('credentials', () => {
  test('go in a header that engines can decode, whatever is in them', () => {
    const credentials = { username: 'ü?>', password: 'p>?ÿ~', host: 'r.example.com' };
    const { headers } = pullCall({ reference: 'r.example.com/a:1', platform: '', credentials }, 'docker');
    const text = headers['x-registry-auth'] ?? '';
    expect(text).toMatch(/^[\w-]+=*$/);
    expect(JSON.parse(Buffer.from(text, 'base64url').toString())).toEqual({
      username: 'ü?>',
      password: 'p>?ÿ~',
      serveraddress: 'r.example.com',
    });
  });
});
