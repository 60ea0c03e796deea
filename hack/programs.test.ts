import { execFile } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { transformSync } from 'esbuild';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import { ROOT } from './paths.ts';

/** bin/: the programs that people start from the sources. */

const BIN = join(ROOT, 'bin');
const PROGRAMS = ['skerry', 'skerry-agent'];

function run(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, args, { timeout: 60_000 }, (error, out, err) =>
      resolve({ code: error ? Number(error.code ?? 1) : 0, out, err }),
    );
  });
}

test.each(PROGRAMS)('%s runs from its sources', async (name) => {
  const { code, out, err } = await run(join(BIN, `${name}.cjs`), '--help');
  expect([code, out, err]).toEqual([0, expect.stringContaining(name), '']);
});

test.each(PROGRAMS)('%s names the Node version that it needs when Node is too old', async (name) => {
  const folder = temporaryFolder();
  const old = join(folder, 'old.cjs');
  writeFileSync(old, "Object.defineProperty(process.versions, 'node', { value: '20.20.2' });\n");
  const { code, out, err } = await run('--require', old, join(BIN, `${name}.cjs`), '--help');
  expect([code, out]).toEqual([1, '']);
  expect(err).toMatch(
    new RegExp(`^Error: ${name} needs Node 24 or newer, and this is Node 20.20.2 .*\\n.*bin/${name}.cjs\\n$`),
  );
});

test('the plugin fails when its output cannot be written, and not when its reader has enough', async () => {
  const plugin = `"${process.execPath}" "${join(BIN, 'kubectl-skerry.cjs')}" --help`;
  const shell = (script: string) =>
    new Promise<{ code: number; err: string }>((resolve) => {
      execFile('/bin/sh', ['-c', script], { timeout: 60_000 }, (error, _, err) =>
        resolve({ code: error ? Number(error.code ?? 1) : 0, err }),
      );
    });
  const full = await shell(`${plugin} > /dev/full`);
  expect(full).toEqual({ code: 1, err: expect.stringMatching(/^error: the output cannot be written: ENOSPC/) });
  expect(await shell(`{ ${plugin}; echo $? >&2; } | true`)).toEqual({ code: 0, err: '0\n' });
});

test('an old Node can parse the first lines of the programs', () => {
  for (const file of readdirSync(BIN).filter((name) => name.endsWith('.cjs'))) {
    const text = readFileSync(join(BIN, file), 'utf8');
    const { code } = transformSync(text, { target: 'node12.22' });
    expect(code.replace(/\s/g, ''), file).toBe(transformSync(text, { target: 'esnext' }).code.replace(/\s/g, ''));
  }
});
