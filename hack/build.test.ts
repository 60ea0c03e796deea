import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { BUNDLES, bundle } from './build.ts';

const run = promisify(execFile);
let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'skerry-build-'));
});
afterAll(() => rm(dir, { recursive: true, force: true }));

test.each(Object.keys(BUNDLES) as (keyof typeof BUNDLES)[])(
  '%s runs as one file, without node_modules',
  async (name) => {
    const { path, bytes } = await bundle(name, dir);
    const { stdout } = await run(process.execPath, [path, '--help'], { cwd: dir });
    expect(stdout).toContain(name);
    expect(bytes).toBeLessThan(8 * 2 ** 20);
  },
);
