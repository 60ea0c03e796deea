import { beforeEach, describe, expect, test } from 'vitest';
import { createMemoryDependencies } from '../_memory.ts';
import { serveInMemory } from '../_server.ts';

/** Links to nodes by the example of the runtime class; every linkable kind has these routes. */
let uuids: Record<string, string>;

const deps = createMemoryDependencies();
const admin = (await serveInMemory({ deps })).as('admin');

/** The object as a later version, which the store accepts. */
let version = 1_000_000;
const next = <T extends { metadata: object }>(object: T): T => ({
  ...object,
  metadata: { ...object.metadata, resourceVersion: String(++version) },
});

let serial = 0;
let crun: string;
beforeEach(async () => {
  serial++;
  crun = `crun-${serial}`;
  uuids = {};
  for (const name of ['a', 'b']) {
    const { body } = await admin.post('/node', { json: { name: `${name}${serial}`, archId: 1 } });
    uuids[name] = body.uuid;
    withRuntimes(`${name}${serial}`, ['crun', 'runc']);
  }
  await admin.post('/runtimeClasses', { json: { name: crun, handler: 'crun' } });
});

function withRuntimes(name: string, availableRuntimes: string[]) {
  const [node] = deps.nodes.find('name', name);
  if (!node) throw new Error(`no node ${name}`);
  deps.stores.nodes.set(next({ ...node, status: { observedGeneration: 1, availableRuntimes } }));
}

const link = (...nodes: (string | undefined)[]) =>
  admin.post(`/runtimeClasses/${crun}/link`, { json: { fogUuids: nodes } });
const unlink = (...nodes: (string | undefined)[]) =>
  admin.delete(`/runtimeClasses/${crun}/link`, { json: { fogUuids: nodes } });
const links = async () => (await admin.get(`/runtimeClasses/${crun}/link`)).body.fogUuids;

/** An application with an entry that asks for the class; verdicts on it are another matter. */
async function useOn(node: string) {
  await admin.post('/application', { json: { name: `shop-${serial}` } });
  const [application] = deps.applications.find('name', `shop-${serial}`);
  if (!application) throw new Error('no application');
  const microservices = [{ name: 'm', agent: { name: `${node}${serial}` }, container: { runtime: crun } }];
  deps.stores.applications.set(next({ ...application, spec: { ...application.spec, microservices } }));
}

describe('a link', () => {
  test('names nodes by uuid or name, and is listed by uuid', async () => {
    expect((await link(uuids.a, `b${serial}`)).body).toEqual({ fogUuids: [uuids.a, uuids.b] });
    expect(await links()).toEqual([uuids.a, uuids.b].sort());
  });

  test('that is made twice exists once', async () => {
    await link(uuids.a, uuids.a);
    await link(`a${serial}`);
    expect(await links()).toEqual([uuids.a]);
    expect(deps.runtimeClasses.find('linked', uuids.a ?? '')).toHaveLength(1);
  });

  test('that is removed twice is gone', async () => {
    await link(uuids.a, uuids.b);
    await unlink(uuids.a);
    expect((await unlink(uuids.a)).status).toBe(200);
    expect(await links()).toEqual([uuids.b]);
  });

  test('to a node that was deleted can be removed by the name that the object has', async () => {
    const [stored] = deps.runtimeClasses.find('name', crun);
    if (!stored) throw new Error('no runtime class');
    const named = { ...stored, spec: { ...stored.spec, nodes: ['gone'] } };
    await deps.runtimeClasses.replace(named, AbortSignal.timeout(1_000));
    expect((await unlink('gone')).status).toBe(200);
    expect(deps.runtimeClasses.find('linked', 'gone')).toEqual([]);
    expect((await unlink('never')).status).toBe(404);
  });

  test('to a node that does not exist gets 404 that names it, and changes nothing', async () => {
    const { status, body } = await link(uuids.a, 'nowhere');
    expect([status, body.code, body.message]).toEqual([
      404,
      'NOT_FOUND_AGENT_NAME',
      'fogUuids: there is no node "nowhere"',
    ]);
    expect(await links()).toEqual([]);
  });

  test('is made by a body that names nodes, under the same rules, and a change without nodes leaves it', async () => {
    const path = `/runtimeClasses/made-${serial}`;
    const body = { name: `made-${serial}`, handler: 'crun', nodes: [`a${serial}`] };
    expect((await admin.post('/runtimeClasses', { json: body })).status).toBe(200);
    await admin.patch(path, { json: { handler: 'crun' } });
    expect((await admin.get(`${path}/link`)).body.fogUuids).toEqual([uuids.a]);
    const missing = await admin.patch(path, { json: { nodes: [uuids.a, 'nowhere'] } });
    expect([missing.status, missing.body.message]).toEqual([404, 'nodes: there is no node "nowhere"']);
    withRuntimes(`b${serial}`, ['runc']);
    expect((await admin.patch(path, { json: { nodes: [uuids.b] } })).body.code).toBe(
      'RUNTIME_CLASS_LINK_NOT_AVAILABLE',
    );
    await admin.patch(path, { json: { nodes: null } });
    expect((await admin.get(`${path}/link`)).body.fogUuids).toEqual([]);
  });

  test('without a node gets 400', async () => {
    expect((await admin.post(`/runtimeClasses/${crun}/link`, { json: { fogUuids: [] } })).status).toBe(400);
    expect((await admin.post(`/runtimeClasses/${crun}/link`, { json: {} })).status).toBe(400);
  });

  test('to a node whose engine lacks the runtime gets 400', async () => {
    withRuntimes(`b${serial}`, ['runc']);
    const { status, body } = await link(uuids.b);
    expect([status, body.code]).toEqual([400, 'RUNTIME_CLASS_LINK_NOT_AVAILABLE']);
    expect(body.message).toBe(`fogUuids: the node b${serial} has no runtime crun; it has runc`);
  });
});

describe('an entry that uses an object', () => {
  test('counts as a link of its node', async () => {
    await useOn('b');
    expect(await links()).toEqual([uuids.b]);
  });

  test('prevents that its node is unlinked, and no other', async () => {
    await link(uuids.a, uuids.b);
    await useOn('b');
    const { status, body } = await unlink(uuids.b);
    expect([status, body.code]).toEqual([409, 'RUNTIME_CLASS_UNLINK_IN_USE']);
    expect(body.message).toBe(`runtime class ${crun} is used on the node b${serial} by shop-${serial}/m`);
    expect((await unlink(uuids.a)).status).toBe(200);
  });

  test('prevents that the object is deleted', async () => {
    await useOn('a');
    const { status, body } = await admin.delete(`/runtimeClasses/${crun}`);
    expect([status, body.code]).toEqual([409, 'RUNTIME_CLASS_IN_USE']);
    expect(body.message).toContain(`shop-${serial}/m`);
  });
});

describe('a runtime class', () => {
  test('is read and listed without its links', async () => {
    await link(uuids.a);
    const { body } = await admin.get(`/runtimeClasses/${crun}`);
    expect(body).toEqual({ uuid: body.uuid, name: crun, handler: 'crun' });
    expect((await admin.get('/runtimeClasses')).body.runtimeClasses).toContainEqual(body);
  });
});

describe('a body of a kind with closed bodies', () => {
  test('that has an unknown member gets 400 that names it', async () => {
    const { status, body } = await admin.post('/runtimeClasses', {
      json: { name: 'x', handler: 'crun', colour: 'red' },
    });
    expect(status).toBe(400);
    expect(body.message).toContain('colour');
  });

  test('keeps its links when it is changed', async () => {
    await link(uuids.a);
    expect((await admin.patch(`/runtimeClasses/${crun}`, { json: { handler: 'runc' } })).body.handler).toBe('runc');
    expect(await links()).toEqual([uuids.a]);
  });
});

describe('a file', () => {
  const file = (name: string, rest: string) => ({
    form: { part: 'runtimeClass', text: `kind: RuntimeClass\nmetadata: {name: ${name}}\n${rest}` },
  });

  test('may have members of the spec at its top', async () => {
    expect((await admin.post('/runtimeClasses/yaml', file(`wasm-${serial}`, 'handler: wasmtime'))).body).toMatchObject({
      name: `wasm-${serial}`,
      handler: 'wasmtime',
    });
  });

  test('with a member at its top and in the spec gets 400', async () => {
    const { status, body } = await admin.post('/runtimeClasses/yaml', file('x', 'handler: a\nspec: {handler: b}'));
    expect([status, body.message]).toEqual([400, 'handler: is given at the top and in spec; give it once']);
  });

  test('that is PUT creates what does not exist, and keeps the links of what exists', async () => {
    const put = (handler: string) =>
      admin.put(`/runtimeClasses/yaml/made-${serial}`, file(`made-${serial}`, `spec: {handler: ${handler}}`));
    expect((await put('crun')).status).toBe(200);
    await admin.post(`/runtimeClasses/made-${serial}/link`, { json: { fogUuids: [uuids.a] } });
    expect((await put('runc')).body.handler).toBe('runc');
    expect((await admin.get(`/runtimeClasses/made-${serial}/link`)).body.fogUuids).toEqual([uuids.a]);
  });

  test('of another API group gets 400', async () => {
    const { status } = await admin.post('/runtimeClasses/yaml', file('x', 'apiVersion: apps/v1\nhandler: a'));
    expect(status).toBe(400);
  });
});
