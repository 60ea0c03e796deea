import { createHash, randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { layoutOf } from './layout.ts';
import { takeSnapshot } from './snapshot.ts';

const content = randomBytes(3 * 1024 * 1024 + 7);
const snapshot = Buffer.concat([content, createHash('sha256').update(content).digest()]);

function setUp() {
  const data = temporaryFolder();
  const layout = layoutOf({ SKERRY_CONTROL_PLANE_DATA: data });
  return {
    file: join(data, 'restore.snapshot'),
    take: (bytes: Buffer) => takeSnapshot(layout, Readable.from([bytes])),
  };
}

test('a whole snapshot is taken for the next start', async () => {
  const { file, take } = setUp();
  await take(snapshot);
  expect(readFileSync(file).equals(snapshot)).toBe(true);
});

test('a snapshot that is cut, changed or empty is refused, and leaves nothing', async () => {
  const { file, take } = setUp();
  const changed = Buffer.from(snapshot);
  changed[1000] = (changed[1000] as number) ^ 1;
  for (const bytes of [snapshot.subarray(0, -1), changed, Buffer.alloc(0)])
    await expect(take(bytes)).rejects.toThrow(/snapshot/);
  expect([existsSync(file), existsSync(`${file}.partial`)]).toEqual([false, false]);
});
