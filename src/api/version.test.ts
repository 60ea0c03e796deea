import { expect, test } from 'vitest';
import { compareVersions, parseVersion } from './version.ts';

test('versions are ordered by their precedence', () => {
  const ordered = [
    '0.9.0',
    '1.0.0-alpha',
    '1.0.0-alpha.1',
    '1.0.0-alpha.beta',
    '1.0.0-rc.2',
    '1.0.0-rc.10',
    '1.0.0',
    '1.0.10',
    '1.2.0',
  ];
  for (const [i, a] of ordered.entries())
    for (const [j, b] of ordered.entries())
      expect(Math.sign(compareVersions(a, b)), `${a} ${b}`).toBe(Math.sign(i - j));
});

test.each([
  ['1.2.3', '1.2.3'],
  ['v1.2.3', '1.2.3'],
  ['1.2.3+build.5', '1.2.3'],
  ['1.2.3-rc.1', '1.2.3-rc.1'],
  ['1.2', undefined],
  ['latest', undefined],
  ['../1.2.3', undefined],
  ['1.2.3-..', undefined],
  ['1.2.3/x', undefined],
])('the text %s means the version %s', (text, version) => {
  expect(parseVersion(text)).toBe(version);
});
