import { expect, test } from 'vitest';
import { formatReference, isLoopback, isPinned, parseReference, standIn } from './reference.ts';

const digest = `sha256:${'a'.repeat(64)}`;
const cases: Record<string, [host: string, repository: string, tag: string, digest: string, full: string]> = {
  nginx: ['docker.io', 'library/nginx', '', '', 'docker.io/library/nginx:latest'],
  'nginx:1': ['docker.io', 'library/nginx', '1', '', 'docker.io/library/nginx:1'],
  'team/app:1': ['docker.io', 'team/app', '1', '', 'docker.io/team/app:1'],
  'index.docker.io/nginx:1': ['docker.io', 'library/nginx', '1', '', 'docker.io/library/nginx:1'],
  'localhost/app:1': ['localhost', 'app', '1', '', 'localhost/app:1'],
  'r.example.com/app': ['r.example.com', 'app', '', '', 'r.example.com/app:latest'],
  'R.Example.com:443/app:1': ['r.example.com', 'app', '1', '', 'r.example.com/app:1'],
  'r.example.com:5000/a/b/c:1.2-x': ['r.example.com:5000', 'a/b/c', '1.2-x', '', 'r.example.com:5000/a/b/c:1.2-x'],
  'r:5000/app': ['r:5000', 'app', '', '', 'r:5000/app:latest'],
  [`app@${digest}`]: ['docker.io', 'library/app', '', digest, `docker.io/library/app@${digest}`],
  [`r.example.com:5000/app:1@${digest}`]: [
    'r.example.com:5000',
    'app',
    '1',
    digest,
    `r.example.com:5000/app@${digest}`,
  ],
  '[::1]:5000/app:1': ['[::1]:5000', 'app', '1', '', '[::1]:5000/app:1'],
};
test.each(Object.entries(cases))(
  'the image reference %s is parsed and formatted',
  (text, [host, repository, tag, pinned, full]) => {
    const parsed = parseReference(text);
    expect(parsed).toMatchObject({ host, repository, tag, digest: pinned });
    expect(formatReference(parsed)).toBe(full);
    expect(isPinned(text)).toBe(pinned !== '');
    expect(standIn(text)).toBe(pinned ? `${host}/${repository}:sha256-${'a'.repeat(64)}` : undefined);
  },
);

test('isLoopback is true for hosts of this machine only', () => {
  for (const host of ['127.0.0.1', '127.0.0.1:5000', '127.9.9.9:1', 'localhost:5000', '[::1]:5000'])
    expect(isLoopback(host), host).toBe(true);
  for (const host of [
    '128.0.0.1',
    '127.example.com',
    'localhost.example.com',
    '10.0.0.1:5000',
    '127.0.0.1.example.com',
  ])
    expect(isLoopback(host), host).toBe(false);
});
