import { randomUUID } from 'node:crypto';
import { expect } from 'vitest';
import { type InMemoryController, NAMESPACE } from './_in-memory-controller.ts';
import {
  bodyOf,
  coreData,
  documentOf,
  entrySpec,
  FORMS,
  flatEntry,
  objectOf,
  TEMPLATE_NODE,
} from './_sequence-forms.ts';
import {
  countVersions,
  type Draft,
  type Entry,
  find,
  type Item,
  type Kind,
  of,
  type Ref,
  type Refusal,
  RULES,
  type State,
  usersOf,
  wrongWith,
} from './_sequence-model.ts';
import {
  type LinkableKind,
  type Operation,
  POOL,
  type RawDraft,
  type RawEntry,
  type Surface,
} from './_sequence-operations.ts';
import { LABELS } from './api/names.ts';
import type { Application } from './api/v3/index.ts';
import type { KubeObject } from './kube/object.ts';
import type { Store } from './kube/store.ts';
import { entryUuid as derivedUuid, objectName } from './rules/names.ts';

/** Carries out operations at a controller in memory and in the model, and compares every answer. */

type Json = Record<string, unknown>;

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

/** The entry that is there from the start: it uses one object of most kinds. */
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

/** All names of these kinds are there from the start. */
const THERE_WHOLLY: ReadonlySet<Kind> = new Set(['nodes', 'secrets', 'applicationTemplates']);

/** An id that nothing has. */
const NO_ID = 99_999;
const isMissing = (kind: Kind): Refusal => ({ status: 404, code: RULES[kind].notFound });
const IS_TAKEN: Refusal = { status: 409, code: 'DUPLICATE_NAME' };

export interface Sequence {
  state: State;
  /** Makes what sequences begin with. */
  begin(): Promise<void>;
  perform(operation: Operation): Promise<void>;
  storeOf(kind: Kind): Store<KubeObject>;
  stored(item: Item): KubeObject | undefined;
  entryUuid(application: Item, entry: string): string;
  send(request: Request): Promise<{ status: number; body: Json }>;
}

/** One function for each operation. */
export function startSequence(fleet: InMemoryController, token: string): Sequence {
  const state: State = { items: [] };
  let born = 0;
  const stores = fleet.stores as unknown as Record<Kind, Store<KubeObject>>;
  const entryUuids = new Map<string, string>();

  const storeOf = (kind: Kind) => stores[kind];
  const stored = ({ kind, object }: Item) => storeOf(kind).get(NAMESPACE, object);
  const slot = (kind: Kind, name: string) => of(state, kind).find((one) => one.slot === name);
  const entryKey = (application: Item, name: string) => `${application.born}/${name}`;
  const entryUuid = (application: Item, name: string) => entryUuids.get(entryKey(application, name)) ?? randomUUID();

  for (const [kind, builtIns] of Object.entries({
    registries: ['remote', 'local'],
    catalogItems: ['router', 'bus', 'debug'],
    nodes: ['gateway-0'],
  }) as [Kind, string[]][])
    for (const name of builtIns) {
      const draft = { isHub: false, text: '', registry: { to: 'registries', ref: 1 } } as unknown as Draft;
      state.items.push({ ...fresh(kind, name, draft), isBuiltIn: true });
    }
  learn();

  function fresh(kind: Kind, name: string, draft: Draft): Item {
    const object = objectName(name);
    return { kind, name, object, slot: name, born: ++born, draft, nodes: [], entries: [], rebuilds: {}, version: 1 };
  }

  /** What the controller has assigned: it must be there once it has settled, be unique, and stay. */
  function learn() {
    for (const item of state.items) {
      const object = stored(item);
      expect(object, `${item.kind} ${item.name} is stored as ${item.object}`).toBeDefined();
      const { uuid, id } = (object?.status ?? {}) as { uuid?: string; id?: number };
      const known = { ...(item.uuid && { uuid: item.uuid }), ...(item.id && { id: item.id }) };
      expect({ uuid, id }, `identity of ${item.kind} ${item.name}`).toMatchObject(known);
      if (uuid) item.uuid = uuid;
      if (id) item.id = id;
      if (item.kind !== 'applications') continue;
      const lines = (object?.status as { microservices?: { name: string; uuid?: string }[] } | undefined)
        ?.microservices;
      for (const { name, uuid: recorded } of lines ?? []) {
        // A line whose application has not got its name or uuid records none.
        const uuid = recorded ?? derivedUuid(object as Application, { name });
        const known = entryUuids.get(entryKey(item, name));
        expect(known ?? uuid, `uuid of ${item.name}/${name}`).toBe(uuid);
        entryUuids.set(entryKey(item, name), uuid);
      }
    }
    for (const key of ['id', 'uuid'] as const)
      for (const kind of Object.keys(RULES) as Kind[]) {
        const all = of(state, kind).flatMap((one) => one[key] ?? []);
        expect(new Set(all).size, `every ${key} of ${kind} is its own`).toBe(all.length);
      }
  }

  const registryRef = (name: string, surface: Surface): Ref => {
    const known = name === 'remote' ? find(state, { to: 'registries', ref: 1 }) : slot('registries', name);
    // Names are for those who know the objects.
    if (surface === 'kubectl') return { to: 'registries', ref: known?.name ?? name };
    return { to: 'registries', ref: known?.id ?? NO_ID };
  };

  const resolved = (raw: RawDraft, surface: Surface): Draft => ({
    ...raw,
    registry: registryRef(raw.registry, surface),
    source: { to: raw.source.to, ref: raw.source.name },
    isActivated: true,
  });

  function entryOf(name: string, raw: RawEntry, surface: Surface): Entry {
    const { node, byUuid, catalog, registry, template, env, ...rest } = raw;
    // A uuid may be that of a younger node of the name.
    const at = of(state, 'nodes').findLast(({ name }) => name === node);
    const item = catalog === undefined ? undefined : find(state, { to: 'catalogItems', ref: catalog });
    const ofTemplate = template && find(state, { to: 'microserviceTemplates', ref: template });
    return {
      ...rest,
      name,
      node: byUuid && at?.uuid ? { uuid: at.uuid } : { name: node },
      ...(ofTemplate && { image: ofTemplate.draft.image }),
      ...(catalog !== undefined &&
        template === undefined && {
          catalog: { to: 'catalogItems', ref: surface === 'json' ? (item?.id ?? NO_ID) : catalog } as Ref,
        }),
      ...(registry !== undefined &&
        catalog === undefined &&
        template === undefined && { registry: registryRef(registry, surface) }),
      ...(env && { env: { source: { to: env.source.to, ref: env.source.name }, key: env.key } }),
      isActivated: true,
      rebuilds: 0,
    };
  }

  function setEntries(application: Item, entries: readonly Entry[]): void {
    for (const { name, rebuilds } of application.entries) application.rebuilds[name] = rebuilds;
    application.entries = entries.map((entry) => ({
      ...entry,
      rebuilds: Math.max(entry.rebuilds, application.rebuilds[entry.name] ?? 0),
    }));
  }

  /** kubectl names no template in these sequences. */
  const templateOf = (raw: RawEntry, surface: Surface) => (surface === 'kubectl' ? undefined : raw.template);
  const templateMissing = (raw: RawEntry, surface: Surface): Refusal[] => {
    const name = templateOf(raw, surface);
    return name !== undefined && !find(state, { to: 'microserviceTemplates', ref: name })
      ? [isMissing('microserviceTemplates')]
      : [];
  };
  const withoutTemplate = (raw: RawEntry, surface: Surface): RawEntry => {
    if (surface !== 'kubectl') return raw;
    const { template: _, ...rest } = raw;
    return rest;
  };

  async function send({ method, path, body, file }: Request) {
    return fleet.request(method, path, { token, ...(file !== undefined ? { file } : { body }) });
  }

  async function over(request: Request, { refused, status, apply, names = [] }: Judgement): Promise<void> {
    const answer = await send(request);
    const shown = `${request.method} ${request.path} ${JSON.stringify(request.body ?? request.file)} -> ${answer.status} ${JSON.stringify(answer.body)}`;
    if (refused.length === 0) {
      expect(answer.status, shown).toBe(status);
      apply(answer.body ?? {});
    } else {
      expect(
        refused.map((one) => `${one.status} ${one.code}`),
        shown,
      ).toContain(`${answer.status} ${answer.body?.code}`);
      if (names.length > 0) expect(String(answer.body.message), shown).toContain(` by ${names.join(', ')}`);
    }
  }

  const add = (item: Item) => (body: Json) => {
    if (item.kind === 'registries' && body.id) {
      item.object = `registry-${body.id}`;
      item.name = item.object;
    }
    // A template that was renamed keeps its object, so that another one with its former name has a longer name.
    if (item.kind === 'applicationTemplates')
      item.object = storeOf(item.kind).byIndex('name', item.name)[0]?.metadata.name ?? item.object;
    state.items.push(item);
  };
  const drop = (item: Item) => {
    state.items = state.items.filter((one) => one !== item);
  };

  /** The service accounts of an application go with it. */
  const dropWithAccounts = (item: Item) => {
    drop(item);
    if (item.kind !== 'applications') return;
    for (const account of of(state, 'serviceAccounts')) if (account.name.startsWith(`${item.name}/`)) drop(account);
  };

  const pathOf = (kind: Kind, item: Item | undefined, name: string) => {
    const { path, key } = FORMS[kind];
    if (key === 'id') return `${path}/${item?.id ?? NO_ID}`;
    return `${path}/${key === 'uuid' ? (item?.uuid ?? randomUUID()) : encoded(name)}`;
  };

  const wrong = (item: Item) => RULES[item.kind].wrong?.(item, state) ?? [];

  async function create(kind: Kind, name: string, draft: Draft, surface: Surface) {
    const item = fresh(kind, name, draft);
    const { path, part } = FORMS[kind];
    const exists = kind === 'registries' ? slot(kind, name) : find(state, { to: kind, ref: name });
    if (surface === 'kubectl') {
      if (storeOf(kind).get(NAMESPACE, item.object)) return;
      await fleet.cluster.client.create(storeOf(kind).resource, inNamespace(objectOf(item)));
      add(item)({});
      return;
    }
    // REST gives registries names.
    if (kind === 'registries' && exists) return;
    await over(
      {
        method: 'POST',
        path: surface === 'yaml' && part ? `${path}/yaml` : path,
        ...(surface === 'yaml' && part ? { file: documentOf(item) } : { body: bodyOf(item) }),
      },
      {
        refused: [...(exists ? [IS_TAKEN] : []), ...wrong(item)],
        status: RULES[kind].created,
        apply: (body) => {
          add(item)(body);
        },
      },
    );
  }

  async function change(kind: Kind, name: string, draft: Draft, surface: Surface) {
    const { part, update, change: changed, spec } = FORMS[kind];
    const item = kind === 'registries' ? slot(kind, name) : find(state, { to: kind, ref: name });
    const isFile = surface === 'yaml' && part !== undefined;
    const after = { ...(item ?? fresh(kind, name, draft)), draft };
    // Only a PATCH of an application template leaves the template as it is.
    if (item && kind === 'applicationTemplates' && surface === 'json')
      after.draft = { ...item.draft, text: draft.text };
    const apply = () => {
      if (item) item.draft = after.draft;
      else add(after)({});
    };
    if (surface === 'kubectl') {
      const object = item && stored(item);
      if (!object || !item) return;
      fleet.cluster.edit(object, (copy) => {
        if (kind === 'secrets' || kind === 'configMaps') Object.assign(copy, { data: coreData(after) });
        else copy.spec = { ...(copy.spec as Json), ...spec(draft, name) };
        if (kind === 'volumeMounts') copy.spec = withOtherSource(copy.spec as Json, after.draft);
        if (!draft.files && (kind === 'models' || kind === 'knowledge')) delete (copy.spec as Json).files;
      });
      apply();
      return;
    }
    const creates = isFile && update === 'PUT';
    const base = pathOf(kind, item, name);
    await over(
      isFile
        ? {
            method: update ?? 'PUT',
            path: base.replace(FORMS[kind].path, `${FORMS[kind].path}/yaml`),
            file: documentOf(after),
          }
        : { method: 'PATCH', path: base, body: (changed ?? spec)(draft, name) },
      {
        refused: item || creates ? wrong(after) : [isMissing(kind)],
        status: kind === 'applicationTemplates' && isFile ? 200 : RULES[kind].changed,
        apply,
      },
    );
  }

  async function remove(kind: Kind, name: string, by: 'rest' | 'kubectl' | 'force') {
    const item = kind === 'registries' ? slot(kind, name) : find(state, { to: kind, ref: name });
    const object = item && stored(item);
    const users = item && RULES[kind].inUse ? usersOf(state, item) : [];
    if (by === 'rest') {
      const { inUse, deleted } = RULES[kind];
      await over(
        { method: 'DELETE', path: pathOf(kind, item, name) },
        {
          refused: item ? (users.length > 0 && inUse ? [inUse] : []) : [isMissing(kind)],
          names: users,
          status: deleted,
          apply: () => {
            for (const mount of of(state, 'volumeMounts'))
              if (item && find(state, mount.draft.source) === item) drop(mount);
            if (item) dropWithAccounts(item);
          },
        },
      );
      return;
    }
    if (!item || !object) return;
    // The admission policy of the cluster refuses by this label.
    if (by === 'kubectl' && RULES[kind].inUse)
      expect(object.metadata.labels?.[LABELS.inUse] === 'true', `${kind} ${name} is in use by ${users}`).toBe(
        users.length > 0,
      );
    if (by === 'kubectl' && users.length > 0) return;
    if (by === 'force')
      fleet.cluster.edit(object, (copy) => {
        copy.metadata.finalizers = [];
      });
    await fleet.cluster.client.delete(storeOf(kind).resource, { namespace: NAMESPACE, name: item.object });
    // Without its finalizer an application is gone before its accounts are.
    if (by === 'force') drop(item);
    else dropWithAccounts(item);
  }

  async function link(
    kind: LinkableKind,
    name: string,
    { node, byUuid, surface, isLink }: { node: string; byUuid: boolean; surface: 'rest' | 'kubectl'; isLink: boolean },
  ) {
    const item = find(state, { to: kind, ref: name });
    const at = find(state, { to: 'nodes', ref: node });
    const text = byUuid && at?.uuid ? at.uuid : node;
    if (surface === 'kubectl') {
      const object = item && stored(item);
      if (!item || !object) return;
      const others = item.nodes.filter((one) => one !== text);
      item.nodes = isLink ? [...others, text] : others;
      fleet.cluster.edit(object, (copy) => {
        (copy.spec as Json).nodes = item.nodes;
      });
      return;
    }
    const names = at ? [at.uuid, at.name] : [];
    const isLinked = item?.nodes.some((one) => names.includes(one));
    const users = item && at && !isLink ? usersOf(state, item, at) : [];
    const refused: Refusal[] = item ? [] : [isMissing(kind)];
    if (!at && (isLink || !item?.nodes.includes(text))) refused.push({ status: 404, code: 'NOT_FOUND_AGENT_NAME' });
    // These nodes have reported no runtime.
    if (isLink && kind === 'runtimeClasses' && item && at && !isLinked)
      refused.push({ status: 400, code: 'RUNTIME_CLASS_LINK_NOT_AVAILABLE' });
    if (users.length > 0) refused.push({ status: 409, code: RULES[kind].unlink ?? '' });
    await over(
      { method: isLink ? 'POST' : 'DELETE', path: `${pathOf(kind, item, name)}/link`, body: { fogUuids: [text] } },
      {
        refused,
        names: users,
        status: 200,
        apply: () => {
          if (!item) return;
          if (!isLink) item.nodes = item.nodes.filter((one) => one !== text && !names.includes(one));
          else if (!isLinked) item.nodes = [...item.nodes, at?.uuid ?? ''];
        },
      },
    );
  }

  /** The state with another state of one application. */
  const stateWith = (application: Item, after: Item): State => ({
    items: [...state.items.filter((one) => one !== application), after],
  });

  /** The refusals of the entries that a write adds or changes; one that it only stops is not judged. */
  function refusalsOf(before: Item | undefined, after: Item): Refusal[] {
    const next = stateWith(before ?? after, after);
    const form = (entry: Entry | undefined) => entry && JSON.stringify({ ...entrySpec(entry), isActivated: true });
    return after.entries.flatMap((entry) => {
      const old = before?.entries.find(({ name }) => name === entry.name);
      const isStarted = entry.isActivated && old && !old.isActivated;
      return form(old) === form(entry) && !isStarted ? [] : wrongWith(next, after, entry, { writing: true });
    });
  }

  async function apply({ verb, name, entries: given, surface }: Extract<Operation, { do: 'apply' }>) {
    const raws = given.map((one) => withoutTemplate(one, surface));
    const before = find(state, { to: 'applications', ref: name });
    const made = raws.map((raw, index) => entryOf(given[index]?.name ?? '', raw, surface));
    const kept = made.map((entry) => {
      const old = before?.entries.find((one) => one.name === entry.name);
      return old ? { ...entry, isActivated: old.isActivated, rebuilds: old.rebuilds } : entry;
    });
    const draft = { text: '', isActivated: true } as unknown as Draft;
    const sent = made.map((entry, index) => ({ ...entry, template: templateOf(raws[index] as RawEntry, surface) }));
    const after = before ? { ...before, entries: kept } : { ...fresh('applications', name, draft), entries: made };
    if (surface === 'kubectl') {
      const object = before && stored(before);
      if (verb === 'create' && !before) {
        await fleet.cluster.client.create(storeOf('applications').resource, inNamespace(objectOf(after)));
        state.items.push(after);
      } else if (verb === 'replace' && object && before) {
        fleet.cluster.edit(object, (copy) => {
          (copy.spec as Json).microservices = kept.map((entry) => entrySpec(entry));
        });
        setEntries(before, kept);
      }
      return;
    }
    const templates = raws.flatMap((raw) => templateMissing(raw, surface));
    const isFile = surface === 'yaml';
    const spec = {
      microservices: sent.map((entry) => withoutActivation(isFile ? entrySpec(entry) : flatEntry(entry))),
    };
    const content = isFile ? { file: documentOf(after, spec) } : { body: { name, ...spec } };
    const root = `/application${isFile ? '/yaml' : ''}`;
    if (verb === 'create')
      await over(
        { method: 'POST', path: root, ...content },
        {
          refused: [...(before ? [IS_TAKEN] : []), ...templates, ...refusalsOf(undefined, { ...after, entries: made })],
          status: 201,
          apply: () => state.items.push(after),
        },
      );
    else
      await over(
        { method: 'PUT', path: `${root}/${name}`, ...content },
        {
          refused: [...(before ? refusalsOf(before, after) : [isMissing('applications')]), ...templates],
          status: 204,
          apply: () => {
            if (before) setEntries(before, kept);
          },
        },
      );
  }

  async function instantiate({ name, template, image }: Extract<Operation, { do: 'instantiate' }>) {
    const exists = find(state, { to: 'applications', ref: name });
    const found = find(state, { to: 'applicationTemplates', ref: template });
    const draft = { text: '', isActivated: true } as unknown as Draft;
    const entry: Entry = {
      name: 'web',
      node: { name: TEMPLATE_NODE },
      image,
      models: [],
      knowledge: [],
      isActivated: true,
      rebuilds: 0,
    };
    const after = { ...fresh('applications', name, draft), entries: [entry] };
    await over(
      { method: 'POST', path: '/application', body: { name, template: { name: template, variables: { image } } } },
      {
        refused: [
          ...(exists ? [IS_TAKEN] : []),
          ...(found ? refusalsOf(undefined, after) : [isMissing('applicationTemplates')]),
        ],
        status: 201,
        apply: () => state.items.push(after),
      },
    );
  }

  async function edit(
    name: string,
    request: {
      application: string;
      method: string;
      path: (uuid: string) => string;
      body?: unknown;
      file?: unknown;
      status?: number;
      more?: readonly Refusal[];
    },
    change: (entry: Entry) => Entry | undefined,
  ) {
    const application = find(state, { to: 'applications', ref: request.application });
    const entry = application?.entries.find((one) => one.name === name);
    const next = entry && change(entry);
    const entries = application?.entries.flatMap((one) => (one === entry ? (next ?? []) : one)) ?? [];
    const uuid = application && entry ? entryUuid(application, name) : randomUUID();
    await over(
      { method: request.method, path: request.path(uuid), body: request.body, file: request.file },
      {
        refused:
          application && entry
            ? [...(request.more ?? []), ...refusalsOf(application, { ...application, entries })]
            : [{ status: 404, code: 'INVALID_MICROSERVICE_UUID' }],
        status: request.status ?? 204,
        apply: () => {
          if (application) setEntries(application, entries);
        },
      },
    );
  }

  async function addEntry({
    application: owner,
    name,
    entry: given,
    surface,
  }: Extract<Operation, { do: 'add' }> & { do: 'add' | 'set' }) {
    const raw = withoutTemplate(given, surface);
    const application = find(state, { to: 'applications', ref: owner });
    const entry = entryOf(name, raw, surface);
    const sent = { ...entry, template: templateOf(raw, surface) };
    const after = application && { ...application, entries: [...application.entries, entry] };
    const exists = application?.entries.some((one) => one.name === name);
    if (surface === 'kubectl') {
      const object = application && stored(application);
      if (!object || exists || !application) return;
      setEntries(application, [...application.entries, entry]);
      fleet.cluster.edit(object, (copy) => {
        const spec = copy.spec as { microservices?: unknown[] };
        spec.microservices = [...(spec.microservices ?? []), entrySpec(entry)];
      });
      return;
    }
    const isFile = surface === 'yaml';
    const file = { kind: 'Microservice', metadata: { name: `${owner}/${name}` }, spec: entrySpec(sent) };
    await over(
      {
        method: 'POST',
        path: `/microservices${isFile ? '/yaml' : ''}`,
        ...(isFile ? { file } : { body: { ...flatEntry(sent), application: owner } }),
      },
      {
        refused: [
          ...(after ? [] : [isMissing('applications')]),
          ...templateMissing(raw, surface),
          ...(exists ? [IS_TAKEN] : after ? refusalsOf(application, after) : []),
        ],
        status: 201,
        apply: () => {
          if (application && after) setEntries(application, after.entries);
        },
      },
    );
  }

  async function setEntry({
    application: owner,
    name,
    entry: given,
    surface,
  }: Extract<Operation, { do: 'set' }> & { do: 'add' | 'set' }) {
    const raw = withoutTemplate(given, surface);
    const made = entryOf(name, raw, surface);
    const application = find(state, { to: 'applications', ref: owner });
    const changed = (old: Entry): Entry => ({ ...made, isActivated: old.isActivated, rebuilds: old.rebuilds });
    if (surface === 'kubectl') {
      const object = application && stored(application);
      if (!object || !application) return;
      application.entries = application.entries.map((one) => (one.name === name ? changed(one) : one));
      fleet.cluster.edit(object, (copy) => {
        (copy.spec as Json).microservices = application.entries.map((one) => entrySpec(one));
      });
      return;
    }
    const sent = { ...made, template: templateOf(raw, surface) };
    const file = {
      kind: 'Microservice',
      metadata: { name: `${owner}/${name}` },
      spec: withoutActivation(entrySpec(sent)),
    };
    await edit(
      name,
      {
        application: owner,
        method: 'PATCH',
        path: (uuid) => `/microservices${surface === 'yaml' ? '/yaml' : ''}/${uuid}`,
        ...(surface === 'yaml' ? { file } : { body: flatEntry(sent, null) }),
        more: templateMissing(raw, surface),
      },
      changed,
    );
  }

  const entryRoute = (
    operation: { application: string; name: string },
    method: string,
    path: string,
    change: (entry: Entry) => Entry | undefined,
    more: { body?: unknown; status?: number; more?: readonly Refusal[] } = {},
  ) =>
    edit(
      operation.name,
      { application: operation.application, method, path: (uuid) => `/microservices/${uuid}${path}`, ...more },
      change,
    );

  function carryOut(one: Operation): Promise<void> {
    const application = 'application' in one ? find(state, { to: 'applications', ref: one.application }) : undefined;
    switch (one.do) {
      case 'create':
        return create(one.kind, one.name, resolved(one.draft, one.surface), one.surface);
      case 'change':
        return change(one.kind, one.name, resolved(one.draft, one.surface), one.surface);
      case 'delete':
        return remove(one.kind, one.name, one.by);
      case 'link':
      case 'unlink':
        return link(one.kind, one.name, { ...one, isLink: one.do === 'link' });
      case 'duplicate':
        return duplicate(one);
      case 'rename': {
        const item = find(state, { to: 'applicationTemplates', ref: one.name });
        const taken = one.to !== one.name && find(state, { to: 'applicationTemplates', ref: one.to });
        return over(
          { method: 'PATCH', path: `/applicationTemplate/${one.name}`, body: { name: one.to } },
          {
            refused: item ? (taken ? [IS_TAKEN] : []) : [isMissing('applicationTemplates')],
            status: 204,
            apply: () => {
              if (item) item.name = one.to;
            },
          },
        );
      }
      case 'apply':
        return apply(one);
      case 'instantiate':
        return instantiate(one);
      case 'activate':
        return activate(one);
      case 'add':
        return addEntry(one as never);
      case 'set':
        return setEntry(one as never);
      case 'start':
        return entryRoute(one, 'PATCH', '/start', (entry) => ({ ...entry, isActivated: true }), {
          more: application?.draft.isActivated === false ? [{ status: 400, code: 'APPLICATION_NOT_ACTIVATED' }] : [],
        });
      case 'stop':
        return entryRoute(one, 'PATCH', '/stop', (entry) => ({ ...entry, isActivated: false }));
      case 'rebuild':
        return entryRoute(one, 'PATCH', '/rebuild', (entry) => ({ ...entry, rebuilds: entry.rebuilds + 1 }));
      case 'remove':
        return entryRoute(one, 'DELETE', '', () => undefined);
      case 'bind':
        return entryRoute(one, 'PATCH', `/${one.kind}`, (entry) => ({ ...entry, [one.kind]: one.items }), {
          body: one.items.length > 0 ? { bindPath: `/${one.kind}`, items: one.items.map((name) => ({ name })) } : {},
        });
      case 'publish': {
        const mapped = application?.entries.find(({ name }) => name === one.name)?.port !== undefined;
        return entryRoute(one, 'POST', '/port-mapping', (entry) => ({ ...entry, port: one.port }), {
          body: { internal: 80, external: one.port },
          status: 201,
          more: mapped ? [{ status: 400, code: 'PORT_MAPPING_ALREADY_EXISTS' }] : [],
        });
      }
      case 'withdraw': {
        const entry = application?.entries.find(({ name }) => name === one.name);
        return entryRoute(one, 'DELETE', '/port-mapping/80', ({ port: _, ...rest }) => rest, {
          more: entry && entry.port === undefined ? [{ status: 404, code: 'INVALID_PORT_MAPPING' }] : [],
        });
      }
    }
  }

  /** Another object with a name that is taken, which only kubectl can make. */
  async function duplicate({ kind, name, draft, entry }: Extract<Operation, { do: 'duplicate' }>) {
    const known = kind === 'registries' ? slot(kind, name) : find(state, { to: kind, ref: name });
    const item = fresh(kind, known?.name ?? name, resolved(draft, 'kubectl'));
    item.object = `${objectName(name).toLowerCase()}-again`;
    item.slot = name;
    if (kind === 'applications') item.entries = [entryOf('web', withoutTemplate(entry, 'kubectl'), 'kubectl')];
    if (storeOf(kind).get(NAMESPACE, item.object)) return;
    await fleet.cluster.client.create(storeOf(kind).resource, inNamespace(objectOf(item)));
    state.items.push(item);
  }

  async function activate({ name, isActivated, surface }: Extract<Operation, { do: 'activate' }>) {
    const application = find(state, { to: 'applications', ref: name });
    const set = () => {
      if (application) application.draft = { ...application.draft, isActivated };
    };
    const object = application && stored(application);
    if (surface === 'kubectl') {
      if (!object) return;
      fleet.cluster.edit(object, (copy) => {
        (copy.spec as Json).isActivated = isActivated;
      });
      set();
      return;
    }
    await over(
      { method: 'PATCH', path: `/application/${name}`, body: { isActivated } },
      { refused: application ? [] : [isMissing('applications')], status: 204, apply: set },
    );
  }

  /** The first name of each pool is there from the start, so that most operations find what they name. */
  async function begin() {
    for (const kind of Object.keys(POOL) as Kind[])
      for (const name of THERE_WHOLLY.has(kind) ? POOL[kind] : POOL[kind].slice(0, 1)) {
        const draft = {
          ...{ text: 'one', isHub: false, files: false, image: 'team/reader:1', data: { a: '1' } },
          ...{ role: 'microservice', isActivated: true },
          registry: { to: 'registries', ref: kind === 'catalogItems' ? 'red' : 1 },
          source: { to: 'secrets', ref: 'db' },
        } as const;
        const item = fresh(kind, name, draft);
        if (kind === 'applications') item.entries = [FIRST_ENTRY];
        await fleet.cluster.client.create(storeOf(kind).resource, inNamespace(objectOf(item)));
        state.items.push(item);
      }
    await fleet.idle();
    learn();
    countVersions(state);
  }

  return {
    begin,
    state,
    storeOf,
    stored,
    entryUuid,
    send,
    async perform(operation) {
      await carryOut(operation);
      await fleet.idle();
      learn();
      countVersions(state);
    },
  };
}

const withoutActivation = ({ isActivated: _, ...entry }: Json): Json => entry;

/** A volume mount has one source. */
function withOtherSource(spec: Json, { source }: Draft): Json {
  const { secretName: _s, configMapName: _c, ...rest } = spec;
  return { ...rest, [source.to === 'secrets' ? 'secretName' : 'configMapName']: source.ref };
}

const inNamespace = (object: Json) =>
  ({ ...object, metadata: { ...(object.metadata as Json), namespace: NAMESPACE } }) as unknown as KubeObject;

const encoded = (name: string) => name.split('/').map(encodeURIComponent).join('/');
