import { createHash, randomBytes } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { layoutOf, restoreFile } from './layout.ts';
import { restoreSnapshot, takeSnapshot } from './snapshot.ts';

const content = randomBytes(3 * 1024 * 1024 + 7);
const snapshot = Buffer.concat([content, createHash('sha256').update(content).digest()]);

/** Makes data as etcdutl does, with the snapshot as its only file. */
const ETCDUTL = `#!/bin/sh
[ "$1 $2 $4" = "snapshot restore --data-dir" ] && mkdir "$5" && cp "$3" "$5/db"
`;
const BROKEN_ETCDUTL = `#!/bin/sh
mkdir "$5"
echo '{"level":"info"}' >&2
echo 'Error: invalid database' >&2
exit 1
`;

function setUp({ etcdutl = ETCDUTL } = {}) {
  const [data, programs] = [temporaryFolder(), temporaryFolder()];
  writeFileSync(join(programs, 'etcdutl'), etcdutl, { mode: 0o755 });
  const layout = layoutOf({ SKERRY_CONTROL_PLANE_DATA: data, SKERRY_CONTROL_PLANE_PROGRAMS: programs });
  const put = (folder: string, content: string) => {
    mkdirSync(join(data, folder));
    writeFileSync(join(data, folder, 'db'), content);
  };
  return {
    layout,
    put,
    present: () => readdirSync(data).sort(),
    db: (folder: string) => readFileSync(join(data, folder, 'db')),
    take: (bytes: Buffer, maxBytes?: number) => takeSnapshot(layout, Readable.from([bytes]), maxBytes),
  };
}

test('the next start takes the data of a snapshot, and keeps the data before it', async () => {
  const { layout, put, present, db, take } = setUp();
  put('etcd', 'present');
  await take(snapshot);
  expect([present(), String(db('etcd'))]).toEqual([['etcd', 'etcd.next'], 'present']);
  expect(restoreSnapshot(layout)).toBe(true);
  expect(db('etcd').equals(snapshot)).toBe(true);
  expect([present(), String(db('etcd.former'))]).toEqual([['etcd', 'etcd.former'], 'present']);
  expect(restoreSnapshot(layout)).toBe(false);
});

test('a snapshot that is cut, changed or empty is refused, and leaves nothing', async () => {
  const { layout, present, take } = setUp();
  const changed = Buffer.from(snapshot);
  changed[1000] = (changed[1000] as number) ^ 1;
  for (const bytes of [snapshot.subarray(0, -1), changed, Buffer.alloc(0)])
    await expect(take(bytes)).rejects.toThrow(/snapshot/);
  expect([present(), restoreSnapshot(layout)]).toEqual([[], false]);
});

test('a snapshot of which etcdutl makes no data is refused with its reason, and the next start has the present data', async () => {
  const { layout, put, present, db, take } = setUp({ etcdutl: BROKEN_ETCDUTL });
  put('etcd', 'present');
  await expect(take(snapshot)).rejects.toThrow(
    'the snapshot cannot be restored, and nothing was changed: Error: invalid database',
  );
  expect([restoreSnapshot(layout), present(), String(db('etcd'))]).toEqual([false, ['etcd'], 'present']);
});

test('a snapshot that is larger than any data, or whose input breaks, leaves nothing', async () => {
  const { layout, present, take } = setUp();
  await take(snapshot, snapshot.length);
  restoreSnapshot(layout);
  await expect(take(snapshot, snapshot.length - 1)).rejects.toThrow(`more than ${snapshot.length - 1} bytes`);
  const broken = Readable.from(
    (async function* () {
      yield snapshot;
      throw new Error('cut off');
    })(),
  );
  await expect(takeSnapshot(layout, broken)).rejects.toThrow('cut off');
  expect(present()).toEqual(['etcd']);
});

test('two restores do not mix, and a start removes a restore that was cut off', async () => {
  const { layout, present, take } = setUp();
  const input = new PassThrough();
  const first = takeSnapshot(layout, input);
  await expect(take(snapshot)).rejects.toThrow('another restore is under way');
  input.end(snapshot);
  await first;
  expect(present()).toEqual(['etcd.next']);
  restoreSnapshot(layout);
  writeFileSync(restoreFile(layout), 'cut o');
  await expect(take(snapshot)).rejects.toThrow('restart the control plane');
  restoreSnapshot(layout);
  await take(snapshot);
  expect(present()).toEqual(['etcd', 'etcd.next']);
});

test('a start that ends between two steps of a restore is followed by a start that ends it', async () => {
  for (let steps = 0, isWhole = false; !isWhole; steps++) {
    const { layout, put, db, take } = setUp();
    put('etcd', 'present');
    put('etcd.former', 'older');
    await take(snapshot);
    let left = steps;
    const step = (run: () => void) => {
      if (left-- === 0) throw new Error('ended');
      run();
    };
    try {
      isWhole = restoreSnapshot(layout, {
        remove: (path) => step(() => rmSync(path, { recursive: true, force: true })),
        rename: (from, to) => step(() => renameSync(from, to)),
      });
    } catch {
      restoreSnapshot(layout);
    }
    expect([steps, db('etcd').equals(snapshot), String(db('etcd.former'))]).toEqual([steps, true, 'present']);
  }
});
