import { expect, test } from 'vitest';
import { FINALIZERS } from './api/names.ts';
import { removeFinalizers } from './finalizers.ts';
import { ApiError, type KubeClient, type KubeObject, type Resource } from './kube/mod.ts';
import { KINDS } from './subjects/kinds.ts';

const CONFLICT = () => new ApiError(409, { reason: 'Conflict' }, 'patch');

/** An API server with this many nodes; the first patch of the named one loses a race. */
function apiServer(count: number, { loses }: { loses?: string } = {}) {
  const objects = new Map<string, KubeObject>(
    Array.from({ length: count }, (_, index) => {
      const metadata = { name: `n${index}`, namespace: 'edge', uid: `${index}`, finalizers: [FINALIZERS.workloads] };
      return [metadata.name, { apiVersion: 'skerry.dev/v3', kind: 'EdgeNode', metadata }];
    }),
  );
  const seen = { reads: [] as string[], most: 0 };
  let open = 0;
  const client = {
    list: async ({ plural }: Resource) => ({ items: plural === 'edgenodes' ? [...objects.values()] : [] }),
    find: async (_: Resource, { name }: { name: string }) => {
      seen.reads.push(name);
      return objects.get(name);
    },
    patch: async (_: Resource, { name }: { name: string }) => {
      seen.most = Math.max(seen.most, ++open);
      await new Promise((resolve) => setImmediate(resolve));
      open--;
      if (name === loses && !seen.reads.includes(name)) throw CONFLICT();
      const object = objects.get(name) as KubeObject;
      const free = { ...object, metadata: { ...object.metadata, finalizers: [] } };
      objects.set(name, free);
      return free;
    },
  };
  return { client: client as unknown as KubeClient, objects, seen };
}

test('finalizers of many objects are removed several at a time, each with one request', async () => {
  const { client, objects, seen } = apiServer(100);
  const counts = await removeFinalizers(client, KINDS, { namespace: 'edge' });
  expect([...counts].filter(([, count]) => count > 0)).toEqual([[expect.stringContaining('edgenodes'), 100]]);
  expect([...objects.values()].filter(({ metadata }) => metadata.finalizers?.length)).toEqual([]);
  expect(seen).toEqual({ reads: [], most: 16 });
});

test('an object that has changed since it was listed is read again, and freed', async () => {
  const { client, objects, seen } = apiServer(3, { loses: 'n1' });
  await removeFinalizers(client, KINDS, { namespace: 'edge' });
  expect(objects.get('n1')?.metadata.finalizers).toEqual([]);
  expect(seen.reads).toEqual(['n1']);
});
