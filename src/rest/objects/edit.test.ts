import { describe, expect, test } from 'vitest';
import type { EdgeNode } from '../../api/v3/index.ts';
import { createMemoryDependencies } from '../_memory.ts';
import { edit, withChanges } from './edit.ts';

const signal = AbortSignal.timeout(30_000);
const node: EdgeNode = { apiVersion: 'skerry.dev/v3', kind: 'EdgeNode', metadata: { name: 'a' }, spec: { tags: [] } };
const read = (deps: ReturnType<typeof createMemoryDependencies>) => async () =>
  (await deps.nodes.read('a', signal)) as EdgeNode;
const addTag = (tag: string) => (current: EdgeNode) =>
  withChanges(current, { spec: { ...current.spec, tags: [...(current.spec.tags ?? []), tag] } });

describe('update with retry on conflict', () => {
  test('loses no write when many clients write at once', async () => {
    const deps = createMemoryDependencies();
    await deps.nodes.create(node, signal);
    const tags = Array.from({ length: 20 }, (_, i) => `t${i}`);
    await Promise.all(
      tags.map((tag) =>
        edit(
          deps.nodes,
          async () => {
            const current = await read(deps)();
            await new Promise((resolve) => setTimeout(resolve, 5));
            return current;
          },
          addTag(tag),
          signal,
        ),
      ),
    );
    expect((await read(deps)()).spec.tags?.toSorted()).toEqual(tags.toSorted());
  });

  test('writes nothing when the change returns the object itself', async () => {
    const deps = createMemoryDependencies();
    const created = await deps.nodes.create(node, signal);
    await edit(deps.nodes, read(deps), (current) => current, signal);
    expect((await read(deps)()).metadata.resourceVersion).toBe(created.metadata.resourceVersion);
  });

  test('retries no other error than a conflict', async () => {
    const deps = createMemoryDependencies();
    await deps.nodes.create(node, signal);
    let runs = 0;
    const change = () => {
      runs++;
      throw new Error('no');
    };
    await expect(edit(deps.nodes, read(deps), change, signal)).rejects.toThrow('no');
    expect(runs).toBe(1);
  });
});
