import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { temporaryFolder } from '../../../../testing/temporary-folder.ts';
import { exists } from '../../machine/disk.ts';
import type { Containerd } from './client.ts';
import { Unpacking, unsynced } from './unpacking.ts';
import { CONTAINERD, SNAPSHOT_KINDS } from './wire/containerd.ts';

const layer = (name: string, parent = ''): { name: string; parent: string; kind: number } => ({
  name,
  parent,
  kind: SNAPSHOT_KINDS.committed,
});
const ofContainer = (name: string, parent: string) => ({ name, parent, kind: SNAPSHOT_KINDS.active });

/** A containerd with layers, and the machine around it; `restart` is another process of the agent, in a boot. */
function fixture(...names: string[]) {
  const root = temporaryFolder();
  const snapshots = names.map((name) => layer(name));
  const synced: number[] = [];
  const containerd = {
    exchange: async function* () {
      yield { snapshots };
    },
    call: async (method: unknown, { key }: { key: string }) => {
      expect(method).toBe(CONTAINERD.removeSnapshot);
      snapshots.splice(
        snapshots.findIndex(({ name }) => name === key),
        1,
      );
    },
  } as unknown as Containerd;
  const restart = (bootId: string) =>
    new Unpacking({ containerd, root, bootId, sync: async () => void synced.push(snapshots.length) });
  const file = join(root, 'unpacking.json');
  return { snapshots, synced, file, restart, isMarked: () => exists(file) };
}

describe('a layer that is unpacked', () => {
  test('is on the disk before the agent says so, and leaves no mark', async () => {
    const { snapshots, synced, restart, isMarked } = fixture('old');
    await restart('first').during(async () => {
      expect(isMarked()).toBe(true);
      snapshots.push(layer('new'));
    });
    expect([synced, isMarked()]).toEqual([[2], false]);
  });

  test('costs no sync where it was there before', async () => {
    const { synced, restart, isMarked } = fixture('old');
    await restart('first').during(async () => {});
    expect([synced, isMarked()]).toEqual([[], false]);
  });

  test('is removed in the next boot when power was lost before it was on the disk, and layers from before stay', async () => {
    const { snapshots, restart, isMarked } = fixture('old');
    // The process ends within it.
    void restart('first').during(() => new Promise(() => {}));
    await expect.poll(isMarked).toBe(true);
    snapshots.push(layer('new', 'old'), layer('newer', 'new'), ofContainer('c', 'newer'), ofContainer('d', 'old'));
    await restart('second').recover();
    expect([snapshots.map(({ name }) => name), isMarked()]).toEqual([['old', 'd'], false]);
  });

  test('stays in the same boot, and is on the disk then', async () => {
    const { snapshots, synced, restart, isMarked } = fixture('old');
    void restart('first').during(() => new Promise(() => {}));
    await expect.poll(isMarked).toBe(true);
    snapshots.push(layer('new'));
    await restart('first').recover();
    expect([snapshots.length, synced, isMarked()]).toEqual([2, [2], false]);
  });

  test('keeps its mark while others are unpacked', async () => {
    const { snapshots, synced, file, restart, isMarked } = fixture('old');
    const unpacking = restart('first');
    const other = Promise.withResolvers<void>();
    const long = unpacking.during(() => other.promise);
    await unpacking.during(async () => void snapshots.push(layer('new')));
    expect([synced, JSON.parse(readFileSync(file, 'utf8'))]).toEqual([[2], { boot: 'first', layers: ['old'] }]);
    other.resolve();
    await long;
    expect(isMarked()).toBe(false);
  });

  test('is unpacked again where the mark is damaged', async () => {
    const { snapshots, file, restart } = fixture('old');
    writeFileSync(file, '{"boot": ');
    await restart('second').recover();
    expect(snapshots).toEqual([]);
  });
});

test('what lies on a layer goes before it', () => {
  const all = [layer('a'), layer('b', 'a'), ofContainer('c', 'b'), layer('d')];
  expect(unsynced(all, new Set(['d']))).toEqual(['c', 'b', 'a']);
  expect(unsynced(all, new Set(['a', 'd']))).toEqual(['c', 'b']);
  expect(unsynced(all, new Set(['a', 'b', 'd']))).toEqual([]);
});
