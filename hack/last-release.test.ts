import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import packageJson from '../package.json' with { type: 'json' };
import { lastVersion } from './last-release.ts';
import { ROOT } from './paths.ts';

test('the release that this version is tested against is this version or the one before it in CHANGELOG.md', () => {
  const versions = [...readFileSync(join(ROOT, 'CHANGELOG.md'), 'utf8').matchAll(/^## (\d+\.\d+\.\d+)/gm)].map(
    ([, version]) => version,
  );
  const at = versions.indexOf(packageJson.version);
  expect(versions.slice(Math.max(0, at), at + 2)).toContain(lastVersion());
});
