import { describe, expect, test } from 'vitest';
import type { PullRequest } from '../../engine-port/images.ts';
import { pullCall } from './pull-call.ts';

/** The call to each engine for one pull. */
const cases: Record<string, [PullRequest, docker: object, podman: object]> = {
  'a pull without a tag asks for latest, not for all tags': [
    { reference: 'r.example.com/a', platform: '' },
    { fromImage: 'r.example.com/a:latest' },
    { reference: 'r.example.com/a:latest' },
  ],
  'a pull without a host asks for the public hub': [
    { reference: 'nginx:1', platform: '' },
    { fromImage: 'docker.io/library/nginx:1' },
    { reference: 'docker.io/library/nginx:1' },
  ],
  'a pull for a platform names it': [
    { reference: 'r.example.com/a:1', platform: 'linux/arm/v7' },
    { fromImage: 'r.example.com/a:1', platform: 'linux/arm/v7' },
    { reference: 'r.example.com/a:1', os: 'linux', arch: 'arm', variant: 'v7' },
  ],
  'a pull from loopback asks podman for no TLS': [
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
  test('are encoded as URL-safe base64 in a header', () => {
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
