import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { keyProblem, volumeMountProblem } from './volume-mounts.ts';

const problemOf = (...keys: string[]) => volumeMountProblem(Object.fromEntries(keys.map((key) => [key, ''])));

describe('a key of a volume mount', () => {
  test.each(['a', 'a.b', '.env', 'tls/cert.pem', 'a/.hidden', 'a/..b', 'Schlüssel', 'a b', '-x'])('may be %j', (key) =>
    expect(problemOf(key)).toBeUndefined(),
  );

  const refused: Record<string, RegExp> = {
    '../etc/passwd': /^key "\.\.\/etc\/passwd" has \. or \.\. in it/,
    'a/../../b': /has \. or \.\. in it/,
    'a/./b': /has \. or \.\. in it/,
    '/etc/passwd': /is absolute/,
    'a//b': /has an empty name/,
    'a/': /has an empty name/,
    '': /has an empty name/,
    '..data': /begins with two dots/,
    '..data/x': /begins with two dots/,
    'a\u0000b': /control character/,
    'a\nb': /control character/,
    ['x'.repeat(256)]: /over 255 bytes/,
  };
  for (const [key, why] of Object.entries(refused))
    test(`may not be ${JSON.stringify(key.slice(0, 20))}`, () => expect(problemOf(key)).toMatch(why));

  test('may not be a file and a directory', () =>
    expect(problemOf('a/b', 'a', 'c')).toBe('key "a/b" lies below "a", which is a key too'));

  test('that is accepted stays below its directory, whatever it is', () =>
    fc.assert(
      fc.property(
        fc.array(fc.oneof(fc.constantFrom('..', '.', '', 'a', '..data'), fc.string()), { minLength: 1 }),
        (parts) => {
          const key = parts.join('/');
          if (keyProblem(key) === undefined) expect(join('/mount', key)).toBe(`/mount/${key}`);
        },
      ),
    ));
});

test('a value that is not base64 is refused without being shown', () => {
  expect(volumeMountProblem({ a: 'c2VjcmV0', b: 'hun ter2' })).toBe('the value of key "b" is not base64');
  expect(volumeMountProblem({ a: '' })).toBeUndefined();
});
