import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import type {} from '../../hack/testing/provided.ts';
import { isConflict, type KubeObject, type Resource } from '../kube/mod.ts';
import type { Answer, TestClient } from './_client.ts';
import { startTestCluster, type TestCluster } from './_cluster.ts';
import { type Edit, editsOfKinds, itemPath, makeReferences } from './_edits.ts';

/** Several writers of one object, for every kind: two replicas of REST, and kubectl. */
const ROUNDS = 5;

let cluster: TestCluster;
let replicas: TestClient[];
beforeAll(async () => {
  cluster = await startTestCluster(inject('kubeconfig'));
  const token = await cluster.token('admin');
  replicas = await Promise.all([0, 1].map(async () => (await cluster.startReplica()).client.as(token)));
  await makeReferences(replicas[0] as TestClient);
});
afterAll(() => cluster?.[Symbol.asyncDispose]());

const replica = (index: number) => replicas[index % replicas.length] as TestClient;
const expectDone = ({ status, body }: Answer) => expect(status, JSON.stringify(body)).toBeLessThan(300);
let count = 0;

describe.each(editsOfKinds())('$kind.definition.kind', ({ kind, edits }) => {
  const resource = kind.resource as Resource<KubeObject>;

  async function make() {
    const name = `it-${++count}`;
    const made = await replica(0).post(edits.path, { json: edits.create(name) });
    expectDone(made);
    const path = itemPath(kind, edits, made, name);
    const named = (await cluster.kube.list<KubeObject>(resource, { namespace: cluster.namespace })).items.find(
      ({ metadata, spec }) =>
        metadata.name.startsWith(name) ||
        metadata.annotations?.['skerry.dev/name'] === name ||
        (spec as { name?: string } | undefined)?.name === name ||
        (kind.rest.key === 'id' && metadata.name === `${kind.definition.singular}-${made.body.id}`),
    );
    if (!named) throw new Error(`no object ${name}`);
    return { path, ref: { namespace: cluster.namespace, name: named.metadata.name } };
  }

  const send = async (client: TestClient, path: string, edit: Edit, n: number) =>
    expectDone(await client.request(edit.method?.(n) ?? 'PATCH', `${path}${edit.path ?? ''}`, { json: edit.body(n) }));
  const read = (ref: { namespace: string; name: string }) => cluster.kube.get<KubeObject>(resource, ref);

  test('edits of disjoint members by two replicas and kubectl at the same time all hold', async () => {
    const { path, ref } = await make();
    const rounds = Array.from({ length: ROUNDS }, (_, index) => index + 1);
    const inTurn = async (act: (n: number) => Promise<unknown>) => {
      for (const n of rounds) await act(n);
    };
    await Promise.all([
      ...edits.edits.map((edit, index) => inTurn((n) => send(replica(index), path, edit, n))),
      inTurn((n) => cluster.kube.patch(resource, ref, { type: 'merge', body: edits.kubectl(n) })),
    ]);
    const { body } = await replica(1).get(path);
    for (const edit of edits.edits) expect(body).toMatchObject((edit.shows ?? edit.body)(ROUNDS));
    for (const { path: below, body: bodyOf } of edits.edits.filter((edit) => edit.path === '/link')) {
      const links = (await replica(0).get(`${path}${below}`)).body.fogUuids;
      expect(links).toHaveLength((bodyOf(ROUNDS).fogUuids as string[]).length);
    }
    expect(await read(ref)).toMatchObject(edits.kubectl(ROUNDS));
  });

  test('an edit of a member that another writer changed meanwhile: kubectl gets a conflict, and REST writes the last value', async () => {
    const { path, ref } = await make();
    const [edit] = edits.edits as [Edit];
    const old = await read(ref);
    await send(replica(0), path, edit, 1);
    const stale = cluster.kube.replace(resource, { ...old, metadata: { ...old.metadata, labels: { stale: 'true' } } });
    await expect(stale).rejects.toSatisfy(isConflict);
    expect((await replica(1).get(path)).body).toMatchObject((edit.shows ?? edit.body)(1));
    await Promise.all([2, 3].map((n) => send(replica(n), path, edit, n)));
    const { body } = await replica(0).get(path);
    const last = [2, 3].map((n) => (edit.shows ?? edit.body)(n));
    expect(
      last.some((one) =>
        Object.entries(one).every(([member, value]) =>
          JSON.stringify(body[member]).includes(JSON.stringify(value).slice(1, -1)),
        ),
      ),
    ).toBe(true);
  });
});
