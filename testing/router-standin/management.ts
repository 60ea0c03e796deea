import { attributeProblems, roleProblem } from '../../src/router-schema/check.ts';
import { type EntityKind, isEntityKind, ROUTER_SCHEMA, typeOfKind } from '../../src/router-schema/schema.ts';
import { normalValue } from '../../src/router-schema/values.ts';

/** An entity of the stand-in, with the attributes that nobody asked for. */
export interface StandInEntity {
  kind: EntityKind;
  name: string;
  attributes: Record<string, unknown>;
}

/** What the entities of a router do. Each may throw a `Refusal`. */
export interface Effects {
  made(entity: StandInEntity): void;
  updated(entity: StandInEntity): void;
  ended(entity: StandInEntity): void;
  /** what else the entity shows now */
  statusOf(entity: StandInEntity): Record<string, unknown>;
}

/** An answer that is no success, with the status that the real program gives. */
export class Refusal extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

export interface ManagementRequest {
  properties: Record<string, unknown>;
  body: unknown;
}

export interface ManagementAnswer {
  status: number;
  description: string;
  body: unknown;
}

const NO_MANAGEMENT_NAME = 'self';

/** The management of a stand-in, as strict as the schema, and with the answers of the real program. */
export class StandInManagement {
  readonly #entities = new Map<string, StandInEntity>();
  readonly #effects: Effects;
  #mode = 'standalone';

  constructor(effects: Effects) {
    this.#effects = effects;
  }

  named(name: string): StandInEntity | undefined {
    return this.#entities.get(name);
  }

  /** A pair of the configuration. */
  start(kind: EntityKind, attributes: Record<string, unknown>): void {
    if (kind === 'router') this.#mode = String(attributes.mode ?? 'standalone');
    this.#make(kind, attributes);
  }

  answer({ properties, body }: ManagementRequest): ManagementAnswer {
    try {
      const operation = String(properties.operation ?? '').toUpperCase();
      const act = { QUERY: this.#query, CREATE: this.#create, UPDATE: this.#update, DELETE: this.#delete }[operation];
      if (!act) {
        this.#find(properties.type, properties.name);
        throw new Refusal(501, `Operation '${operation}' not implemented`);
      }
      return act.call(this, properties, (body ?? {}) as Record<string, unknown>);
    } catch (error) {
      const status = error instanceof Refusal ? error.status : 500;
      return { status, description: (error as Error).message, body: {} };
    }
  }

  #query({ entityType }: Record<string, unknown>, { attributeNames = [] }: Record<string, unknown>): ManagementAnswer {
    const kind = kindOf(entityType);
    const all = Object.keys(ROUTER_SCHEMA[kind].attributes);
    const asked = attributeNames as string[];
    const unknown = asked.filter((name) => !all.includes(name));
    if (unknown.length > 0) throw new Refusal(404, `Unknown attributes ${unknown.join(', ')}`);
    const names = asked.length > 0 ? asked : all;
    const results = [...this.#entities.values()]
      .filter((entity) => entity.kind === kind)
      .map((entity) => {
        const shown: Record<string, unknown> = { ...entity.attributes, ...this.#effects.statusOf(entity) };
        return names.map((name) => shown[name] ?? null);
      });
    return { status: 200, description: 'OK', body: { attributeNames: names, results } };
  }

  #create({ type, name }: Record<string, unknown>, body: Record<string, unknown>): ManagementAnswer {
    const kind = kindOf(type ?? body.type);
    requireOperation(kind, 'create');
    const { attributes } = this.#make(kind, { ...body, ...(name !== undefined && { name }) });
    return { status: 201, description: 'Created', body: attributes };
  }

  #update({ type, name }: Record<string, unknown>, body: Record<string, unknown>): ManagementAnswer {
    const entity = this.#find(type, name);
    requireOperation(entity.kind, 'update');
    const changed = Object.entries(body).filter(([key, value]) => {
      const form = ROUTER_SCHEMA[entity.kind].attributes[key];
      return !form || normalValue(form, value) !== normalValue(form, entity.attributes[key]);
    });
    const [problem] = attributeProblems(entity.kind, Object.fromEntries(changed), 'update');
    if (problem) throw new Refusal(400, problem);
    // As the program, it shows the new attributes even when it does not take them.
    Object.assign(entity.attributes, normalised(entity.kind, Object.fromEntries(changed)));
    if (Number(entity.attributes.ordinal ?? 0) < Number(entity.attributes.oldestValidOrdinal ?? 0))
      throw new Refusal(500, 'ordinal must be >= oldestValidOrdinal');
    this.#effects.updated(entity);
    return { status: 200, description: 'OK', body: entity.attributes };
  }

  #delete({ type, name }: Record<string, unknown>): ManagementAnswer {
    const entity = this.#find(type, name);
    requireOperation(entity.kind, 'delete');
    if (entity.attributes.http === true) throw new Refusal(400, 'HTTP listeners cannot be deleted');
    this.#entities.delete(entity.name);
    this.#effects.ended(entity);
    return { status: 204, description: 'No Content', body: {} };
  }

  #find(type: unknown, name: unknown): StandInEntity {
    const kind = kindOf(type);
    const found = this.#entities.get(String(name));
    if (!found) throw new Refusal(404, `No entity with name=${String(name)}`);
    if (found.kind !== kind) throw new Refusal(400, `Entity type does not extend requested type ${kind}`);
    return found;
  }

  #make(kind: EntityKind, given: Record<string, unknown>): StandInEntity {
    const [problem] = attributeProblems(kind, given, 'file').filter(
      (one) => one !== 'address and port are required' && !/is no port/.test(one),
    );
    if (problem) throw new Refusal(400, problem);
    const name = String(given.name ?? `${kind}/${this.#entities.size}`);
    if (this.#entities.has(name)) throw new Refusal(400, `duplicates unique attribute 'name' from existing ${name}`);
    const wrongRole = kind === 'listener' || kind === 'connector' ? roleProblem(kind, given, this.#mode) : undefined;
    if (wrongRole) throw new Refusal(400, wrongRole);
    if (
      (kind === 'tcpListener' || kind === 'tcpConnector') &&
      (given.address === undefined || given.port === undefined)
    )
      throw new Refusal(500, `CError: Python: KeyError: ('${given.port === undefined ? 'port' : 'address'}',)`);
    const profile = given.sslProfile;
    if (profile !== undefined && this.#entities.get(String(profile))?.kind !== 'sslProfile')
      throw new Refusal(500, `CError: Not found: sslProfile '${String(profile)}' not found`);
    const attributes = { ...defaults(kind), ...normalised(kind, given), name, type: typeOfKind(kind) };
    const entity = { kind, name, attributes: { ...attributes, identity: identityOf(kind, attributes) } };
    this.#effects.made(entity);
    this.#entities.set(name, entity);
    return entity;
  }
}

const PLACED: ReadonlySet<EntityKind> = new Set(['listener', 'connector', 'tcpListener', 'tcpConnector']);

const identityOf = (kind: EntityKind, { name, host, port }: Record<string, unknown>): string =>
  PLACED.has(kind) ? `${kind}/${host}:${port}:${name}` : `${kind}/${name}`;

function kindOf(type: unknown): EntityKind {
  const kind = Object.keys(ROUTER_SCHEMA).find((one) => isEntityKind(one) && typeOfKind(one) === type);
  if (kind === undefined || !isEntityKind(kind))
    throw new Refusal(400, `No such entity type '${String(type ?? NO_MANAGEMENT_NAME)}'`);
  return kind;
}

function requireOperation(kind: EntityKind, operation: 'create' | 'update' | 'delete'): void {
  if (ROUTER_SCHEMA[kind].operations.includes(operation)) return;
  throw new Refusal(501, `Operation '${operation.toUpperCase()}' not implemented for '${typeOfKind(kind)}'`);
}

const normalised = (kind: EntityKind, attributes: Record<string, unknown>) =>
  Object.fromEntries(
    Object.entries(attributes).map(([name, value]) => {
      const form = ROUTER_SCHEMA[kind].attributes[name];
      return [name, form ? normalValue(form, value) : value];
    }),
  );

/** What an entity has without being asked for it, as of the latest version. */
const defaults = (kind: EntityKind) =>
  Object.fromEntries(
    Object.entries(ROUTER_SCHEMA[kind].attributes).flatMap(([name, { absent }]) =>
      absent ? [[name, absent.at(-1)]] : [],
    ),
  );
