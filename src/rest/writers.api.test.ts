import { describe, expect, test } from 'vitest';
import type {} from '../../hack/testing/provided.ts';
import type { Edit } from '../../testing/example.ts';
import { LABELS } from '../api/names.ts';
import { structuralOf } from '../api/normal-form.ts';
import { CORE_RESOURCES } from '../api/resources.ts';
import { isConflict, type KubeObject, type Resource } from '../kube/mod.ts';
import type { Answer, TestClient } from './_client.ts';
import { startTestCluster } from './_cluster.ts';
import { editsOfKinds, itemPath, makeReferences } from './_edits.ts';

/** Several writers of one object, for every kind: two replicas of REST, and kubectl. */
const ROUNDS = 5;

const cluster = await startTestCluster();
const token = await cluster.token('admin');
const replicas = await Promise.all([0, 1].map(async () => (await cluster.startReplica()).client.as(token)));
await makeReferences(replicas[0] as TestClient);

const replica = (index: number) => replicas[index % replicas.length] as TestClient;
const expectDone = ({ status, body }: Answer) => expect(status, JSON.stringify(body)).toBeLessThan(300);
let count = 0;
const nameOf = (path: string) => path.slice(path.lastIndexOf('/') + 1);
const shownAfter = ({ shows, body }: Edit, n: number, path: string) => shows?.(n) ?? body(n, nameOf(path));

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
    expectDone(
      await client.request(edit.method?.(n) ?? 'PATCH', `${path}${edit.path ?? ''}`, {
        json: edit.body(n, nameOf(path)),
      }),
    );
  const read = (ref: { namespace: string; name: string }) => cluster.kube.get<KubeObject>(resource, ref);

  /** The status has the identity, as the leader writes it. */
  async function record(ref: { namespace: string; name: string }) {
    const { labels = {} } = (await read(ref)).metadata;
    const { [LABELS.uuid]: uuid, [LABELS.id]: id } = labels;
    const status = { ...(uuid && { uuid }), ...(id && { id: Number(id) }) };
    await cluster.kube.patch(resource, ref, { type: 'merge', body: { status } }, { subresource: 'status' });
  }

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
    for (const edit of edits.edits) expect(body).toMatchObject(shownAfter(edit, ROUNDS, path));
    for (const { path: below, body: bodyOf } of edits.edits.filter((edit) => edit.path === '/link')) {
      const links = (await replica(0).get(`${path}${below}`)).body.fogUuids;
      expect(links).toHaveLength((bodyOf(ROUNDS, nameOf(path)).fogUuids as string[]).length);
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
    expect((await replica(1).get(path)).body).toMatchObject(shownAfter(edit, 1, path));
    await Promise.all([2, 3].map((n) => send(replica(n), path, edit, n)));
    const { body } = await replica(0).get(path);
    const last = [2, 3].map((n) => shownAfter(edit, n, path));
    expect(
      last.some((one) =>
        Object.entries(one).every(([member, value]) =>
          JSON.stringify(body[member]).includes(JSON.stringify(value).slice(1, -1)),
        ),
      ),
    ).toBe(true);
  });

  test('another name, uuid or number is refused over REST and by kubectl', async () => {
    const { path, ref } = await make();
    const [edit] = edits.edits as [Edit];
    const { properties = {} } = structuralOf(kind.definition.spec);
    const { body: before } = await replica(0).get(path);
    if (resource.group !== '') await record(ref);
    for (const [member, value] of Object.entries(OTHERS)) {
      if (before[member] === undefined && !(member in properties)) continue;
      // A template can be renamed.
      if (kind.key === 'applicationTemplates' && member === 'name') continue;
      const { status, body } = await replica(0).patch(path, {
        json: { ...edit.body(1, nameOf(path)), [member]: value },
      });
      expect([status, body?.message]).toEqual([400, expect.stringMatching(REFUSALS(member))]);
      if (resource.group !== '' && member in properties)
        await expect(
          cluster.kube.patch(resource, ref, { type: 'merge', body: { spec: { [member]: value } } }),
        ).rejects.toThrow(`${member} is immutable`);
    }
    const { body: after } = await replica(1).get(path);
    for (const member of Object.keys(OTHERS)) expect(after[member]).toEqual(before[member]);
  });
});

const OTHERS = { name: 'other', uuid: '0d9e6f2a-3c4b-4d5e-8f60-718293a4b5c6', id: 4711 };
const REFUSALS = (member: string) => new RegExp(`^(${member}: .* is immutable|unknown field "${member}")`);

test('an immutable config map is changed neither over REST nor by kubectl', async () => {
  const name = `fixed-${++count}`;
  expectDone(await replica(0).post('/configmaps', { json: { name, data: { a: 'b' }, immutable: true } }));
  for (const change of [{ data: { a: 'c' } }, { immutable: false }]) {
    const { status, body } = await replica(1).patch(`/configmaps/${name}`, { json: change });
    expect([status, body.code]).toEqual([400, 'CONFIGMAP_IMMUTABLE']);
    await expect(
      cluster.kube.patch(
        CORE_RESOURCES.configMaps,
        { namespace: cluster.namespace, name },
        { type: 'merge', body: change },
      ),
    ).rejects.toThrow(/immutable/);
  }
});

test('PATCHes of disjoint members of one microservice by two replicas at the same time all hold', async () => {
  const images = [{ archId: 1, containerImage: 'a:1' }];
  const microservice = { name: 'shared', application: 'shop', agentName: 'gw', images };
  const made = await replica(0).post('/microservices', { json: microservice });
  expectDone(made);
  const path = `/microservices/${made.body.uuid}`;
  const edits = [
    (n: number) => ({ schedule: n }),
    (n: number) => ({ memoryLimit: 64 * n }),
    (n: number) => ({ env: [{ key: 'ROUND', value: `${n}` }] }),
  ];
  await Promise.all(
    edits.map(async (bodyOf, index) => {
      for (let n = 1; n <= ROUNDS; n++) expectDone(await replica(index).patch(path, { json: bodyOf(n) }));
    }),
  );
  const { body } = await replica(1).get(path);
  for (const bodyOf of edits) expect(body).toMatchObject(bodyOf(ROUNDS));
});
