import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Chain, EVERY_KIND, SYSTEM_APPLICATION, stored, systemChains } from '../../testing/system-references.ts';
import { API_VERSION } from '../api/names.ts';
import { createRoutes } from '../assembly/routes.ts';
import { storeOf } from '../datastore/stores.ts';
import type { Kind } from '../kinds/definition.ts';
import type { KubeObject } from '../kube/object.ts';
import type { MutableStore } from '../kube/store.ts';
import { CORE_KINDS } from '../subjects/content/kinds/core-objects.ts';
import { KINDS } from '../subjects/kinds.ts';
import type { Answer, TestClient } from './_client.ts';
import { editsOfKinds, makeReferences } from './_edits.ts';
import { createMemoryDependencies } from './_memory.ts';
import { startInMemory } from './_server.ts';

/** Who may change over REST what microservices of the system use, by every reference and every operation that there is. */
const NAMESPACE = 'test';
const chains = await systemChains();
const routes = createRoutes(KINDS);
/** The number of objects that are referred to by name. */
const ID = 112;

type Link = Chain['links'][number];
const lastOf = ({ links }: Chain) => links.at(-1) as Link;
const isCore = ({ key }: Kind) => Object.hasOwn(CORE_KINDS, key);
const rowOf = ({ key }: Kind) =>
  editsOfKinds().find(({ kind }) => kind.key === key)?.edits as ReturnType<typeof editsOfKinds>[number]['edits'];

/** REST over the objects of a chain. */
async function start(chain: Chain) {
  const { ref } = lastOf(chain);
  const numbers = { next: 200 };
  const deps = createMemoryDependencies({ ids: { next: async () => numbers.next++ } });
  const { client, stop } = await startInMemory({ deps });
  const put = (kind: Kind, object: object) =>
    (storeOf(deps.stores, kind) as unknown as MutableStore<KubeObject>).set(
      stored(object as never, NAMESPACE, deps.version.next++),
    );
  await makeReferences(client.as('admin'));
  const [gateway] = deps.nodes.find('name', 'gw');
  put(EVERY_KIND.nodes as Kind, { ...gateway, status: { availableRuntimes: ['crun'] } });
  const remote = { kind: 'Registry', metadata: { name: 'remote' }, spec: { id: 1, url: 'hub.example' } };
  put(EVERY_KIND.registries as Kind, { apiVersion: API_VERSION, ...remote });
  for (const { kind, object, ref } of chain.links) {
    const isNumbered = 'id' in kind.definition.identity.has && !isCore(kind);
    put(kind, { ...object, ...(isNumbered && { status: { id: typeof ref === 'number' ? ref : ID } }) });
  }
  // The next object gets the number that the system names.
  if (typeof ref === 'number') numbers.next = ref;
  const { application } = chain;
  const setSystem = (isSystem: boolean) =>
    put(EVERY_KIND.applications as Kind, { ...application, spec: { ...application.spec, isSystem } });
  return {
    setSystem,
    removeLast() {
      const { kind, object } = lastOf(chain);
      const store = storeOf(deps.stores, kind) as unknown as MutableStore<KubeObject>;
      store.remove(stored(object, NAMESPACE, deps.version.next++));
    },
    developer: client.as('developer'),
    admin: client.as('admin'),
    [Symbol.asyncDispose]: stop,
  };
}

const scopeOf = ({ rest: { crud } }: Kind, ref: number | string) =>
  crud?.scope ? { [crud.scope.field]: String(ref).split('/')[0] } : {};

function create({ kind, ref }: Link, client: TestClient) {
  const name = typeof ref === 'number' ? 'another' : (ref.split('/').at(-1) as string);
  const { path, create } = rowOf(kind);
  return client.post(path, { json: { ...create(name), ...scopeOf(kind, ref) } });
}

/** Every operation that changes or deletes the last object of a chain; its deletion comes last. */
function operationsOn({ kind, ref }: Link) {
  const row = rowOf(kind);
  const name = String(ref).split('/').at(-1) as string;
  const value = kind.rest.key === 'name' || typeof ref === 'number' ? String(ref) : String(ID);
  const operations = routes.flatMap(({ method, path, access, body }) => {
    const isAbout = typeof access === 'object' && access.resource === kind.definition.plural && path.includes('{');
    if (!isAbout || method === 'GET') return [];
    const isWhole = method === 'PUT' || kind.rest.crud?.scope;
    const edited = isWhole ? { ...row.create(name), ...scopeOf(kind, ref) } : row.edits[0]?.body(1, name);
    const json = path.endsWith('/link') ? { fogUuids: ['gw'] } : edited;
    const file = body?.kind === 'file' && { yaml: JSON.stringify(documentOf(kind, name, json)) };
    const send = (client: TestClient) =>
      client.request(method, path.replace(/\{.*\}/, value), file || (body ? { json } : {}));
    return [{ what: `${method} ${path}`, send, isLast: method === 'DELETE' && !path.endsWith('/link') }];
  });
  return operations.sort((a, b) => Number(a.isLast) - Number(b.isLast));
}

function documentOf(kind: Kind, name: string, { name: _, ...spec }: { name?: string; data?: object } = {}) {
  const head = { kind: kind.definition.kind, metadata: { name } };
  if (!isCore(kind)) return { ...head, apiVersion: API_VERSION, spec };
  return { ...head, apiVersion: 'v1', [kind.key === 'secrets' ? 'stringData' : 'data']: spec.data };
}

/** What a caller gets, by operation. */
async function answers(chain: Chain, client: TestClient): Promise<readonly [string, Answer][]> {
  const found: [string, Answer][] = [];
  for (const { what, send } of operationsOn(lastOf(chain))) found.push([what, await send(client)]);
  return found;
}

const isForTheSystem = ({ status, body }: Answer) =>
  status === 403 &&
  body.code === 'FORBIDDEN' &&
  body.message.includes(`the application "${SYSTEM_APPLICATION}" of the system uses it`);

describe.each(chains)('of $title', (chain) => {
  let rest: Awaited<ReturnType<typeof start>>;
  beforeAll(async () => {
    rest = await start(chain);
  });
  afterAll(() => rest?.[Symbol.asyncDispose]());

  test('every change is refused to a developer and carried out for an admin', async () => {
    rest.setSystem(true);
    const ofDeveloper = await answers(chain, rest.developer);
    expect(ofDeveloper.length).toBeGreaterThan(1);
    expect(ofDeveloper.filter(([, answer]) => !isForTheSystem(answer))).toEqual([]);
    const refused = (await answers(chain, rest.admin)).filter(
      // Nobody deletes what is in use.
      ([what, { status, body }]) => status >= 300 && !(what.startsWith('DELETE') && /in.use/i.test(body.code)),
    );
    expect(refused).toEqual([]);
  });

  test('a developer does not create what the system names and what does not exist yet', async () => {
    rest.removeLast();
    rest.setSystem(true);
    expect(await create(lastOf(chain), rest.developer)).toSatisfy(isForTheSystem);
  });

  test('nothing is refused to a developer when the application is not of the system', async () => {
    rest.removeLast();
    rest.setSystem(false);
    const { status, body } = await create(lastOf(chain), rest.developer);
    expect(status, JSON.stringify(body)).toBeLessThan(300);
    expect((await answers(chain, rest.developer)).filter(([, { status }]) => status === 403)).toEqual([]);
  });
});
