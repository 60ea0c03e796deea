import fc from 'fast-check';
import { expect, test } from 'vitest';
import { imageReference } from '../../../src/api/v3/microservice.ts';
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

/** References that are well formed, with their parts. */
const wellFormed = fc.record({
  host: fc.constantFrom('docker.io', 'localhost', '127.0.0.1:5000', '[::1]:5000', 'r.example', 'r.example:8443'),
  path: fc.array(fc.stringMatching(/^[a-z0-9]+([._-][a-z0-9]+)*$/), { minLength: 1, maxLength: 4 }),
  tag: fc.oneof(fc.constant(''), fc.stringMatching(/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,20}$/)),
  isPinned: fc.boolean(),
});

test('any well-formed image reference is parsed into its parts, and its form in full means the same', () => {
  fc.assert(
    fc.property(wellFormed, ({ host, path, tag, isPinned: pinned }) => {
      const repository = host === 'docker.io' && path.length === 1 ? `library/${path[0]}` : path.join('/');
      const parts = { host, repository, tag, digest: pinned ? digest : '' };
      const text = `${host}/${path.join('/')}${tag && `:${tag}`}${pinned ? `@${digest}` : ''}`;
      expect(parseReference(text)).toEqual({ ...parts, namesHost: true });
      const full = formatReference(parts);
      expect(formatReference(parseReference(full))).toBe(full);
      expect(isPinned(full)).toBe(pinned);
    }),
    { seed: 1, numRuns: 2_000 },
  );
});

test('any text is parsed, and what it gives as a host has no user, path or query in it', () => {
  const pieces = fc.constantFrom(
    ...['docker.io', 'index.docker.io', 'localhost', '127.0.0.1', '[::1]', 'R.Example', 'team', 'app', 'latest', '443'],
    ...['/', '/', ':', '@', '.', '-', '_', ':5000', '@sha256:', '..', '//', 'a'.repeat(64)],
  );
  fc.assert(
    fc.property(fc.array(pieces, { minLength: 1, maxLength: 10 }), (all) => {
      const text = all.join('');
      const { host } = parseReference(text);
      // Other characters are refused before.
      if (imageReference.safeParse(text).success) expect(host).not.toMatch(/[/@\\#?%\s]/);
    }),
    { seed: 1, numRuns: 5_000 },
  );
});
