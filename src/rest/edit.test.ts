import { describe, expect, test } from 'vitest';
import type { EdgeNode } from '../api/v3/index.ts';
import { createMemoryPorts } from './_memory.ts';
import { edit, withChanges } from './edit.ts';

const signal = AbortSignal.timeout(30_000);
const node: EdgeNode = { apiVersion: 'skerry.dev/v3', kind: 'EdgeNode', metadata: { name: 'a' }, spec: { tags: [] } };
const read = (ports: ReturnType<typeof createMemoryPorts>) => async () =>
  (await ports.nodes.read('a', signal)) as EdgeNode;
const addTag = (tag: string) => (current: EdgeNode) =>
  withChanges(current, { spec: { ...current.spec, tags: [...(current.spec.tags ?? []), tag] } });

describe('edit', () => {
  test('of many writers at once none loses its write', async () => {
    const ports = createMemoryPorts();
    await ports.nodes.create(node, signal);
    const tags = Array.from({ length: 20 }, (_, i) => `t${i}`);
    await Promise.all(
      tags.map((tag) =>
        edit(
          ports.nodes,
          async () => {
            const current = await read(ports)();
            await new Promise((resolve) => setTimeout(resolve, 5));
            return current;
          },
          addTag(tag),
          signal,
        ),
      ),
    );
    expect((await read(ports)()).spec.tags?.toSorted()).toEqual(tags.toSorted());
  });

  test('a change that changes nothing writes nothing', async () => {
    const ports = createMemoryPorts();
    const created = await ports.nodes.create(node, signal);
    await edit(ports.nodes, read(ports), (current) => current, signal);
    expect((await read(ports)()).metadata.resourceVersion).toBe(created.metadata.resourceVersion);
  });

  test('whatever else is wrong is not tried again', async () => {
    const ports = createMemoryPorts();
    await ports.nodes.create(node, signal);
    let runs = 0;
    const change = () => {
      runs++;
      throw new Error('no');
    };
    await expect(edit(ports.nodes, read(ports), change, signal)).rejects.toThrow('no');
    expect(runs).toBe(1);
  });
});
