import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { BOUNDS } from '../../api/bounds.ts';
import { API_VERSION } from '../../api/names.ts';
import { holderIn } from '../../datastore/holder.ts';
import { inUseError, type Kind, nameIn, usersOf } from '../../kinds/definition.ts';
import type { KindObject } from '../../kinds/object.ts';
import { type KindCrud, type Operation, replyShape, type Write } from '../../kinds/rest.ts';
import { fileMembers, uploadBody } from '../../kinds/upload.ts';
import { requireName, requireUnchanged } from '../../rules/document.ts';
import { conflict, invalid, verdictError } from '../../rules/errors.ts';
import { identityLabels } from '../../rules/identity.ts';
import { objectName, v3Name } from '../../rules/names.ts';
import type { Kinds } from '../../subjects/kinds.ts';
import { requireMayChange } from '../access/system.ts';
import type { Caller } from '../contract/access.ts';
import { objectsByKey, objectsOf, type RestDependencies } from '../contract/dependencies.ts';
import { forbidden } from '../contract/errors.ts';
import { type Call, grouped, route, type TaggedRoute } from '../contract/route.ts';
import { createNamed, deleteObject, isPresent, requireUnprotected } from '../objects/deletion.ts';
import { edit, withChanges } from '../objects/edit.ts';
import { listReply } from '../objects/list-reply.ts';
import { accessByKey, findObject, keyValue, presentObject } from '../objects/lookup.ts';
import { linkRoutes, requireLinkable } from './links.ts';
import * as shapes from './shapes.ts';

/** Operations of one kind that differ from those of all kinds; an absent one does not differ. */
export interface CrudHooks<T, W extends Write<T>> {
  /** Stores a new object. */
  create?(deps: RestDependencies, object: T, write: W, signal: AbortSignal): Promise<T>;
  /** Resolves with the object to store, after a change of its spec; `before` is the former object. */
  change?(deps: RestDependencies, before: T, write: W, signal: AbortSignal, caller: Caller): Promise<T>;
  /** Runs after a change was stored; resolves with a warning when the caller has to know of something. */
  changed?(deps: RestDependencies, before: T, after: T, signal: AbortSignal): Promise<string | undefined>;
  /** The read of a key without an object; undefined for 404. */
  readAbsent?(deps: RestDependencies, value: string, signal: AbortSignal): Promise<Record<string, unknown> | undefined>;
  /** Refuses what the caller or this installation may not write although the route allows it; `before` is absent for a new object. */
  permit?(caller: Caller, after: T, before: T | undefined, deps: RestDependencies): Promise<void>;
  read?(deps: RestDependencies, object: T, caller: Caller, signal: AbortSignal): Promise<Record<string, unknown>>;
  /** What in a spec takes no effect, for the header `Warning`; runs before the spec is stored. */
  warning?(call: Changing, spec: W['spec']): Promise<string | undefined>;
  /** Names of users that do not refer to the object themselves. */
  users?(deps: RestDependencies, object: T): readonly string[];
  /** Refuses callers that may not delete the object, before the refusal that names its users. */
  permitDeletion?(deps: RestDependencies, object: T, caller: Caller): Promise<void>;
  /** Runs before an object is deleted that nothing uses. */
  deleting?(deps: RestDependencies, object: T, caller: Caller, signal: AbortSignal): Promise<void>;
}

/** What a write needs of its request; warnings are of the response. */
type Changing = Pick<Call, 'deps' | 'caller' | 'signal' | 'document' | 'warnings'>;

type Params = Record<string, string | number>;
const scopeName = z.string().min(1).max(BOUNDS.anyName);
const paramsOf = (key: keyof typeof PARAMS, scope: { param: string } | undefined) =>
  (scope ? PARAMS[key].extend({ [scope.param]: scopeName }) : PARAMS[key]) as unknown as z.ZodType<Params>;
const PARAMS = { uuid: shapes.uuidParam, name: shapes.nameParam, id: shapes.idParam };
const DONE = shapes.anyObject;

/** The routes of a kind, from its definition. Longer than a hundred lines: a table, one value per operation. */
export function crudRoutes<T extends KindObject, W extends Write<T>>(
  kind: Kind<T>,
  crud: KindCrud<T, W>,
  hooks: CrudHooks<T, W> = {},
): TaggedRoute[] {
  const { definition, noun, rest } = kind;
  const { path, replies, upload } = crud;
  const { key } = rest;
  const resource = definition.plural;
  const operations = createOperations(kind, crud, hooks);
  const { scope } = crud;
  const item = { params: paramsOf(key, scope) };
  const keyPath = scope ? `{${scope.param}}/{${key}}` : `{${key}}`;
  const itemPath = `${path}/${keyPath}`;
  // A permission for some names has no place for two.
  const byKey = scope ? {} : accessByKey(kind);
  const value = (params: Params) => (scope ? `${params[scope.param]}/${params[key]}` : String(params[key]));
  const a = /^[aeiou]/.test(noun) ? `an ${noun}` : `a ${noun}`;
  const text = (operation: Operation, summary: string) => ({ summary, ...crud.texts?.[operation] });
  const createdShape = { object: crud.shapes.read, key: keyShape(key, crud.idIsText), idAndName: ID_AND_NAME }[
    replies.create.body
  ];
  const changeReply =
    replies.change.status === 200
      ? { status: replies.change.status, schema: crud.shapes.read }
      : { status: replies.change.status };
  const replaceReply = replies.replace ? { status: replies.replace.status, schema: ID_AND_NAME } : changeReply;
  const missingReference = kind.references || kind.links || crud.namesOthers ? [404] : [];
  const list = capital(crud.listed ?? crud.list);
  const items = z.array(crud.shapes.listed ?? crud.shapes.read);
  const { templated = true } = crud;
  const members = fileMembers(kind);
  const routes = [
    route({
      method: 'POST',
      path,
      operation: `create${definition.kind}`,
      ...text('create', `Create ${a}`),
      access: { resource, verb: 'create' },
      body: shapes.objectBody({ templated, documents: crud.shapes.create, shows: crud.shapes.read }),
      reply: { status: replies.create.status, schema: createdShape },
      errors: [400, ...missingReference, 409],
      handler: (call) => operations.create(call, call.body),
    }),
    route({
      method: 'GET',
      path: crud.listPath ?? path,
      operation: `list${list}`,
      ...text('list', `All ${crud.list}`),
      access: { resource, verb: 'list' },
      ...(scope && { query: z.strictObject({ [scope.field]: scopeName.optional() }) as z.ZodType<Params> }),
      reply: { status: 200, schema: crud.isBareList ? items : replyShape({ [crud.list]: items }) },
      handler: ({ deps, query }) => operations.list(deps, scope && (query as Params)[scope.field]),
    }),
    route({
      method: 'GET',
      path: itemPath,
      operation: `get${definition.kind}`,
      ...text('get', `One ${noun}`),
      access: { resource: crud.readPermission ?? resource, verb: 'get', ...byKey },
      ...item,
      reply: { status: 200, schema: crud.shapes.read },
      handler: ({ deps, params, caller, signal }) => operations.get(deps, value(params), caller, signal),
    }),
    route({
      method: 'PATCH',
      path: itemPath,
      operation: `update${definition.kind}`,
      ...text('change', `Change ${a}`),
      access: { resource, verb: 'patch', ...byKey },
      ...item,
      body: shapes.objectBody({ templated, documents: crud.shapes.change, shows: crud.shapes.read }),
      reply: changeReply,
      handler: (call) => operations.patch(call, value(call.params), call.body),
    }),
    route({
      method: 'DELETE',
      path: itemPath,
      operation: `delete${definition.kind}`,
      ...text('delete', `Delete ${a}${kind.inUse ? ' that nothing uses' : ''}`),
      access: { resource, verb: 'delete', ...byKey },
      ...item,
      reply: { status: replies.delete.status, ...(replies.delete.status !== 204 && { schema: DONE }) },
      handler: ({ deps, params, caller, signal }) => operations.delete(deps, value(params), caller, signal),
    }),
    ...(upload
      ? [
          route({
            method: 'POST',
            path: `${path}/yaml`,
            operation: `create${definition.kind}FromYaml`,
            summary: `Create ${a} from a file`,
            description: `A document of kind ${definition.kind}.`,
            access: { resource, verb: 'create' },
            body: { kind: 'file', part: upload.part, templated, ...members },
            reply: { status: replies.create.status, schema: createdShape },
            errors: [400, ...missingReference, 409],
            handler: (call) => operations.create(call, operations.readFile(call.document)),
          }),
          route({
            method: upload.update,
            path: `${path}/yaml/${keyPath}`,
            operation: `${upload.update === 'PUT' ? 'replace' : 'update'}${definition.kind}FromYaml`,
            summary: `${upload.update === 'PUT' ? 'Create or change' : 'Change'} ${a} from a file`,
            access: { resource, verb: upload.update === 'PUT' ? 'update' : 'patch', ...byKey },
            ...item,
            body: { kind: 'file', part: upload.part, templated, ...members },
            reply: upload.update === 'PUT' ? replaceReply : changeReply,
            errors: [400, 404, 409],
            handler(call) {
              const body = operations.readFile(call.document, value(call.params));
              if (upload.update === 'PUT') return operations.upsert(call, value(call.params), body);
              return (upload.replaces ? operations.replace : operations.patch)(call, value(call.params), body);
            },
          }),
        ]
      : []),
    ...(crud.hasPut
      ? [
          route({
            method: 'PUT',
            path: itemPath,
            operation: `replace${definition.kind}`,
            summary: `Create or change ${a}`,
            access: { resource, verb: 'update', ...byKey },
            ...item,
            body: shapes.objectBody({ templated, documents: crud.shapes.create, shows: crud.shapes.read }),
            reply: replaceReply,
            handler(call) {
              const { params, body } = call;
              const name = body.name ?? value(params);
              requireName(String(name), value(params), 'name');
              return operations.upsert(call, value(params), { ...body, name });
            },
          }),
        ]
      : []),
  ];
  const all = [...routes, ...(kind.links ? linkRoutes(kind, kind.links, crud, operations.get) : [])];
  return grouped(
    rest.tag,
    all.map((one) => ({ ...one, needs: (kinds) => needsOf(kind, kinds) })),
  );
}

/** Kinds whose objects an operation on this one reads: those that name it, and those that it names. */
const needsOf = <T extends KindObject>(kind: Kind<T>, kinds: Kinds): readonly string[] => [
  kind.key,
  ...Object.values(kinds)
    .filter((other) => kind.references || (kind.inUse && other.references))
    .map(({ key }) => key),
];

/** The operations of a kind. Longer than a hundred lines: one function per operation over the same definition. */
function createOperations<T extends KindObject, W extends Write<T>>(
  kind: Kind<T>,
  crud: KindCrud<T, W>,
  hooks: CrudHooks<T, W>,
) {
  const { definition, noun, rest, identity } = kind;
  const { replies, upload } = crud;

  async function get(deps: RestDependencies, value: string, caller: Caller, signal: AbortSignal) {
    const absent = hooks.readAbsent && !(await findObject(deps, kind, value, signal));
    const shown = absent && (await hooks.readAbsent?.(deps, value, signal));
    return shown || read(deps, await presentObject(deps, kind, value, signal), caller, signal);
  }

  async function read(deps: RestDependencies, object: T, caller: Caller, signal: AbortSignal) {
    return withKeys(
      object,
      (await hooks.read?.(deps, object, caller, signal)) ?? crud.read(object, deps.references.find),
    );
  }

  const shownId = (id: number) => (crud.idIsText ? String(id) : id);
  const withKeys = (object: T, shown: Record<string, unknown>) => {
    const [uuid, id] = [identity.uuid?.(object), identity.id?.(object)];
    return { ...(uuid !== undefined && { uuid }), ...(id !== undefined && { id: shownId(id) }), ...shown };
  };

  async function create(call: Changing, body: unknown) {
    const { deps, caller, signal } = call;
    const created = await store(call, crud.fromBody(body));
    if (replies.create.body === 'object') return read(deps, created, caller, signal);
    if (replies.create.body === 'idAndName') return idAndName(created);
    const value = keyValue(kind, created);
    return { [rest.key]: rest.key === 'id' ? shownId(Number(value)) : value };
  }

  const idAndName = (object: T) => ({ id: identity.id?.(object), name: v3Name(object) });

  async function store(call: Changing, write: W): Promise<T> {
    const { deps, caller, signal, warnings } = call;
    const warning = await hooks.warning?.(call, write.spec);
    if (warning !== undefined) warnings.push(warning);
    const objects = objectsOf(deps, kind);
    const { name, spec } = write as Write<KindObject>;
    let object: T;
    const make = async () => {
      const id = identity.id && (spec.id ?? (await deps.ids.next(definition.kind, signal)));
      const uuid = identity.uuid && (spec.uuid ?? randomUUID());
      const isTaken = (one: number) =>
        objects.find('id', String(one)).length > 0 ||
        identity.isReserved?.({ metadata: { name: name ?? '' }, spec } as T, one) === true;
      if (id !== undefined && isTaken(id))
        throw conflict('DUPLICATE_ID', `id: ${id} belongs to another ${noun}; leave it out`, 'id');
      const called = name === undefined ? `${definition.singular}-${id}` : objectName(name);
      object = {
        apiVersion: API_VERSION,
        kind: definition.kind,
        metadata: { name: called, labels: identityLabels({ uuid, id }) },
        spec: { ...spec, ...(name !== undefined && name !== called && !crud.scope && { name }) },
      } as T;
      await requireMayChange({ deps, caller }, kind, object);
      await requireLinkable(deps, kind, { after: object }, signal);
      await hooks.permit?.(caller, object, undefined, deps);
      await requireVerdict(deps, object, signal);
      return object;
    };
    const save = async (made: T) => hooks.create?.(deps, made, write, signal) ?? objects.create(made, signal);
    return createNamed(objects, { kind: noun, name: name ?? spec.name }, make, signal, save);
  }

  function list(deps: RestDependencies, within?: string | number) {
    const objects = objectsOf(deps, kind);
    const isWithin = ({ spec }: T) =>
      within === undefined || (spec as Record<string, unknown>)[crud.scope?.field ?? ''] === within;
    // An object without a key cannot be named yet; of several objects with the same key one has it.
    const keyed = objects.list().flatMap((object) => {
      const value = keyValue(kind, object);
      return isPresent(object) &&
        isWithin(object) &&
        value !== undefined &&
        holderIn(kind, objects.find(rest.key, value), rest.key, value) === object
        ? [{ value, object }]
        : [];
    });
    const inOrder = rest.key === 'id' ? byNumber : byText;
    const sorted = keyed.toSorted((a, b) => inOrder(a.value, b.value)).map(({ object }) => object);
    const read = (object: T) => [withKeys(object, crud.read(object, deps.references.find))];
    return crud.isBareList
      ? listReply<T, Record<string, unknown>>(undefined, sorted, read)
      : listReply(crud.list, sorted, read);
  }

  async function change(call: Changing, value: string, writeOf: (object: T) => W): Promise<T> {
    const { deps, caller, signal, warnings } = call;
    let before: T | undefined;
    let warning: string | undefined;
    const edited = await edit(
      objectsOf(deps, kind),
      () => presentObject(deps, kind, value, signal),
      async (object) => {
        before = object;
        await requireMayChange({ deps, caller }, kind, object);
        const write = writeOf(object);
        const changed =
          (await hooks.change?.(deps, object, write, signal, caller)) ?? withChanges(object, { spec: write.spec });
        // With another name it may be what the system uses.
        if (nameIn(kind, changed) !== nameIn(kind, object)) await requireMayChange({ deps, caller }, kind, changed);
        await requireLinkable(deps, kind, { before: object, after: changed }, signal);
        await hooks.permit?.(caller, changed, object, deps);
        await requireVerdict(deps, changed, signal);
        warning = await hooks.warning?.(call, changed.spec as W['spec']);
        return changed;
      },
      signal,
    );
    const after = before && (await hooks.changed?.(deps, before, edited, signal));
    warnings.push(...[warning, after].filter((one) => one !== undefined));
    return edited;
  }

  const changed = (deps: RestDependencies, object: T, caller: Caller, signal: AbortSignal) =>
    replies.change.status === 200 ? read(deps, object, caller, signal) : undefined;
  const replaceReply = (deps: RestDependencies, object: T, caller: Caller, signal: AbortSignal) =>
    replies.replace ? idAndName(object) : changed(deps, object, caller, signal);

  async function patch(call: Changing, value: string, body: unknown) {
    const after = await change(call, value, (object) => crud.patch(object, body));
    return changed(call.deps, after, call.caller, call.signal);
  }

  async function replace(call: Changing, value: string, body: unknown) {
    const after = await replaced(call, value, body);
    return changed(call.deps, after, call.caller, call.signal);
  }

  /** Replaces the spec by that of a body; name and identity stay, and the links that it does not name. */
  const replaced = (call: Changing, value: string, body: unknown) =>
    change(call, value, (object) => {
      const write = crud.fromBody(body);
      for (const member of ['uuid', 'id'] as const)
        requireUnchanged(member, (body as Record<string, unknown>)[member], identity[member]?.(object));
      const { uuid, id, name, nodes } = object.spec;
      const kept = Object.fromEntries(
        Object.entries({ uuid, id, name, nodes: (write.spec as typeof object.spec).nodes ?? nodes }).filter(
          ([, one]) => one !== undefined,
        ),
      );
      return { ...write, spec: { ...write.spec, ...kept } };
    });

  /** Replaces an object, or creates it, which needs the permission to create. */
  async function upsert(call: Changing, value: string, body: unknown) {
    const { deps, caller, signal } = call;
    const create = { resource: definition.plural, verb: 'create' } as const;
    if (rest.key !== 'name' || (await findObject(deps, kind, value, signal)))
      return replaceReply(deps, await replaced(call, value, body), caller, signal);
    if (!(await caller.may(create))) throw forbidden(`${noun} "${value}" does not exist, and you may not create it`);
    return replaceReply(deps, await store(call, crud.fromBody(body)), caller, signal);
  }

  async function remove(deps: RestDependencies, value: string, caller: Caller, signal: AbortSignal) {
    const object = await presentObject(deps, kind, value, signal);
    const refused = crud.undeletable?.(object);
    if (refused) throw refused;
    await requireMayChange({ deps, caller }, kind, object);
    await hooks.permitDeletion?.(deps, object, caller);
    const users = new Set([
      ...(kind.inUse ? deps.references.users(kind, object) : []),
      ...(hooks.users?.(deps, object) ?? []),
    ]);
    if (users.size > 0) throw inUseError(kind, object, usersOf(users));
    requireUnprotected(object);
    await hooks.deleting?.(deps, object, caller, signal);
    await deleteObject(objectsOf(deps, kind), object, signal);
    return replies.delete.status === 204 ? undefined : {};
  }

  /** Refuses what the reconciler would refuse; objects that another replica has just created are read. */
  async function requireVerdict(deps: RestDependencies, object: T, signal: AbortSignal) {
    const judge = () => kind.verdict?.(object, deps.references.find);
    if (!judge()) return;
    const targets = new Set(Array.from(kind.references?.(object) ?? [], ({ to }) => to));
    for (const to of targets) {
      await objectsByKey(deps, to)?.refresh(signal);
    }
    const verdict = judge();
    if (verdict) throw verdictError(verdict);
  }

  /** The JSON body of a file; its name must be that of the path. */
  function readFile(document: unknown, path?: string): Record<string, unknown> {
    if (!upload) throw new TypeError(`${noun} has no files`);
    const body = uploadBody(kind, upload, document);
    const { scope } = crud;
    if (scope && path !== undefined && !body[scope.field]) throw invalid(`${scope.field}: is required`, scope.field);
    const whole = scope ? `${body[scope.field]}/${body.name}` : String(body.name);
    if (rest.key === 'name') requireName(whole, path, 'metadata.name');
    return body;
  }

  return { create, get, list, patch, replace, upsert, delete: remove, readFile };
}

const ID_AND_NAME = replyShape({ id: z.number().int(), name: z.string() });
const keyShape = (key: 'uuid' | 'name' | 'id', idIsText = false) =>
  replyShape({ [key]: key === 'id' && !idIsText ? z.number().int() : z.string() });
const capital = (word: string) => word.charAt(0).toUpperCase() + word.slice(1);
const byNumber = (a: string, b: string) => Number(a) - Number(b);
const byText = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);
