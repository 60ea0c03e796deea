import { randomUUID } from 'node:crypto';
import { expect } from 'vitest';
import type { Application, EdgeNode } from '../../src/api/v3/index.ts';
import type { KubeObject } from '../../src/kube/object.ts';
import type { Store } from '../../src/kube/store.ts';
import { entryUuid as derivedUuid, objectName } from '../../src/rules/names.ts';
import { type Json, makeDraft } from '../example.ts';
import { type InMemoryController, NAMESPACE } from '../in-memory-controller.ts';
import { LIVE_NODE, POOL } from './draw.ts';
import { objectOf } from './forms.ts';
import {
  countVersions,
  type Draft,
  type Entry,
  find,
  type Item,
  type Kind,
  of,
  type Refusal,
  RULES,
  type State,
} from './model.ts';

/** What the model says of an operation: why it is refused, or the status of success and what changes. */
interface Judgement {
  refused: readonly Refusal[];
  status: number;
  apply: (body: Json) => void;
  /** texts that a refusal must name */
  names?: readonly string[];
}

interface Request {
  method: string;
  path: string;
  body?: unknown;
  /** sent as a file */
  file?: unknown;
}

/** The entry that exists from the start: it uses one object of most kinds. */
const FIRST_ENTRY: Entry = {
  name: 'web',
  node: { name: POOL.nodes[0] },
  image: 'team/web:1',
  runtime: POOL.runtimeClasses[0],
  models: [POOL.models[0]],
  knowledge: [],
  mount: { name: POOL.volumeMounts[0], key: 'a' },
  env: { source: { to: 'configMaps', ref: POOL.configMaps[0] }, key: 'a' },
  isActivated: true,
  rebuilds: 0,
};

/** All names of these kinds exist from the start. */
const EXIST_WHOLLY: ReadonlySet<Kind> = new Set(['nodes', 'secrets', 'applicationTemplates']);

const BUILT_IN: readonly (readonly [Kind, readonly string[]])[] = [
  ['registries', ['remote', 'local']],
  ['catalogItems', ['router', 'bus', 'debug']],
  ['busAccountRules', ['default-system-account', 'default-account', 'controller-account']],
  ['busUserRules', ['default-user', 'default-mqtt-user', 'default-leaf-user', 'controller-user']],
  ['nodes', [LIVE_NODE]],
];

/** A controller in memory and a model of it, which the operations of one sequence change alike. */
export class Fleet {
  readonly controller: InMemoryController;
  readonly state: State = { items: [] };
  readonly #token: string;
  readonly #entryUuids = new Map<string, string>();
  #born = 0;

  constructor(controller: InMemoryController, token: string) {
    this.controller = controller;
    this.#token = token;
    for (const [kind, names] of BUILT_IN)
      for (const name of names) {
        const draft = { isHub: false, text: '', registry: { to: 'registries', ref: 1 } } as unknown as Draft;
        this.state.items.push({ ...this.fresh(kind, name, draft), isBuiltIn: true });
      }
    this.#learn();
  }

  /** Creates the first name of each pool, so that most operations find what they name. */
  async begin(): Promise<void> {
    const live = this.storeOf('nodes').get(NAMESPACE, LIVE_NODE) as EdgeNode;
    this.controller.cluster.edit(live, ({ spec }) => {
      for (const setting of ['routerMode', 'busMode', 'host', 'networkRouter'] as const) delete spec[setting];
    });
    for (const kind of Object.keys(POOL) as Kind[])
      for (const name of EXIST_WHOLLY.has(kind) ? POOL[kind] : POOL[kind].slice(0, 1)) {
        const draft = makeDraft({
          ...{ text: 'one', image: 'team/reader:1', data: { a: '1' }, source: { to: 'secrets', ref: 'db' } },
          registry: { to: 'registries', ref: kind === 'catalogItems' ? 'red' : 1 },
        });
        const item = this.fresh(kind, name, draft);
        if (kind === 'applications') item.entries = [FIRST_ENTRY];
        await this.createObject(item);
        this.state.items.push(item);
      }
    await this.settle();
  }

  /** Waits for the reconcilers, and compares what they assigned. */
  async settle(): Promise<void> {
    await this.controller.idle();
    this.#learn();
    countVersions(this.state);
  }

  /** A minute passes, in which the agent of the live node reports: a node may change its status so often and no more. */
  pass(): void {
    const { time, observe, stores } = this.controller;
    time.now += 60_000;
    const live = stores.nodes.get(NAMESPACE, LIVE_NODE);
    if (live) observe(live, { reportedAt: time.now, report: {} });
  }

  /** An item that is in no state yet. */
  fresh(kind: Kind, name: string, draft: Draft): Item {
    const object = objectName(name);
    const born = ++this.#born;
    return { kind, name, object, slot: name, born, draft, nodes: [], entries: [], rebuilds: {}, version: 1 };
  }

  /** The item that an operation names; REST gives registries names, so that an operation names a place in the pool. */
  named(kind: Kind, name: string): Item | undefined {
    return kind === 'registries' ? slot(this.state, kind, name) : find(this.state, { to: kind, ref: name });
  }

  storeOf(kind: Kind): Store<KubeObject> {
    return (this.controller.stores as unknown as Record<Kind, Store<KubeObject>>)[kind];
  }

  stored({ kind, object }: Item): KubeObject | undefined {
    return this.storeOf(kind).get(NAMESPACE, object);
  }

  /** A random uuid for an entry that has none. */
  entryUuid(application: Item, name: string): string {
    return this.#entryUuids.get(entryKey(application, name)) ?? randomUUID();
  }

  send({ method, path, body, file }: Request): Promise<{ status: number; body: Json }> {
    return this.controller.request(method, path, { token: this.#token, ...(file !== undefined ? { file } : { body }) });
  }

  /** Sends a request, and expects the response that the model says. */
  async over(request: Request, { refused, status, apply, names = [] }: Judgement): Promise<void> {
    const answer = await this.send(request);
    const shown = `${request.method} ${request.path} ${JSON.stringify(request.body ?? request.file)} -> ${answer.status} ${JSON.stringify(answer.body)}`;
    if (refused.length === 0) {
      expect(answer.status, shown).toBe(status);
      apply(answer.body ?? {});
    } else {
      expect(
        refused.map((one) => `${one.status} ${one.code}`),
        shown,
      ).toContain(`${answer.status} ${answer.body?.code}`);
      // Some refusals have the uuids of the users as well.
      const message = String(answer.body.message).replaceAll(/ \([0-9a-f-]{36}\)/g, '');
      if (names.length > 0) expect(message, shown).toContain(` by ${names.join(', ')}`);
    }
  }

  /** Creates the object of an item with kubectl. */
  async createObject(item: Item): Promise<void> {
    const object = objectOf(item);
    const metadata = { ...(object.metadata as Json), namespace: NAMESPACE };
    const { client } = this.controller.cluster;
    await client.create(this.storeOf(item.kind).resource, { ...object, metadata } as unknown as KubeObject);
  }

  /** Adds an item that REST has created with this response. */
  add(item: Item, body: Json = {}): void {
    if (item.kind === 'registries' && body.id) {
      item.object = `registry-${body.id}`;
      item.name = item.object;
    }
    // A template that was renamed keeps its object, so that another one with its former name has a longer name.
    if (item.kind === 'applicationTemplates')
      item.object = this.storeOf(item.kind).byIndex('name', item.name)[0]?.metadata.name ?? item.object;
    this.state.items.push(item);
  }

  drop(item: Item): void {
    this.state.items = this.state.items.filter((one) => one !== item);
  }

  /** The service accounts of an application are deleted with it. */
  dropWithAccounts(item: Item): void {
    this.drop(item);
    if (item.kind !== 'applications') return;
    for (const account of of(this.state, 'serviceAccounts'))
      if (account.name.startsWith(`${item.name}/`)) this.drop(account);
  }

  /** What the controller assigns exists once it has settled, is unique, and stays. */
  #learn(): void {
    for (const item of this.state.items) {
      const object = this.stored(item);
      expect(object, `${item.kind} ${item.name} is stored as ${item.object}`).toBeDefined();
      const { uuid, id } = (object?.status ?? {}) as { uuid?: string; id?: number };
      const known = { ...(item.uuid && { uuid: item.uuid }), ...(item.id && { id: item.id }) };
      expect({ uuid, id }, `identity of ${item.kind} ${item.name}`).toMatchObject(known);
      if (uuid) item.uuid = uuid;
      if (id) item.id = id;
      if (item.kind === 'applications') this.#learnEntries(item, object as Application);
    }
    for (const key of ['id', 'uuid'] as const)
      for (const kind of Object.keys(RULES) as Kind[]) {
        const all = of(this.state, kind).flatMap((one) => one[key] ?? []);
        expect(new Set(all).size, `every ${key} of ${kind} is its own`).toBe(all.length);
      }
  }

  #learnEntries(item: Item, object: Application): void {
    for (const { name, uuid: recorded } of object.status?.microservices ?? []) {
      // A line whose application has not got its name or uuid records none.
      const uuid = recorded ?? derivedUuid(object, { name });
      const key = entryKey(item, name);
      expect(this.#entryUuids.get(key) ?? uuid, `uuid of ${item.name}/${name}`).toBe(uuid);
      this.#entryUuids.set(key, uuid);
    }
  }
}

const entryKey = (application: Item, name: string) => `${application.born}/${name}`;

/** The item of a place in the pool of names. */
export const slot = (state: State, kind: Kind, name: string): Item | undefined =>
  of(state, kind).find((one) => one.slot === name);
