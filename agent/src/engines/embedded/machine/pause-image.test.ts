import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { pauseArchive, pauseImage } from './pause-image.ts';
import { pauseProgram } from './pause-program.ts';

const folder = mkdtempSync(join(tmpdir(), 'skerry-pause-'));
afterAll(() => rmSync(folder, { recursive: true }));

describe('the pause program', () => {
  test.runIf(process.arch === 'x64')('waits until it is killed, and uses no processor', async () => {
    const path = join(folder, 'pause');
    writeFileSync(path, pauseProgram('amd64'), { mode: 0o755 });
    const child = spawn(path);
    const ended = new Promise((resolve) => child.once('exit', (code, signal) => resolve(code ?? signal)));
    await new Promise((resolve, reject) => child.once('spawn', resolve).once('error', reject));
    // A signal that it ignores wakes it: it waits again.
    child.kill('SIGCONT');
    child.kill('SIGKILL');
    expect(await ended).toBe('SIGKILL');
  });

  test.each([
    ['amd64', 2, 62],
    ['arm64', 2, 183],
    ['arm', 1, 40],
    ['riscv64', 2, 243],
  ] as const)('is an ELF file of %s', (architecture, kind, machine) => {
    const program = pauseProgram(architecture);
    expect(program.subarray(0, 5)).toEqual(Buffer.from([0x7f, 0x45, 0x4c, 0x46, kind]));
    expect(program.readUInt16LE(18)).toBe(machine);
    const entry = kind === 2 ? Number(program.readBigUInt64LE(24)) : program.readUInt32LE(24);
    // The entry is the first instruction.
    expect(entry - 0x10000).toBe(kind === 2 ? 120 : 84);
    expect(program.length).toBeGreaterThan(entry - 0x10000);
  });
});

test('the pause image has the same digest each time', () => {
  const { manifest, blobs, reference } = pauseImage('amd64');
  expect(pauseImage('amd64').manifest.digest).toBe(manifest.digest);
  expect(blobs.map(({ mediaType }) => mediaType.split('.').at(-1))).toEqual(['tar', 'v1+json', 'v1+json']);
  expect(pauseArchive('amd64').includes(reference)).toBe(true);
});
