import type { VerdictReason } from '../api/conditions.ts';
import type { RestErrorCode } from '../api/error-codes.ts';
import type { ResourceDefinition } from '../api/meta.ts';
import { customResource, type ResourceOf } from '../api/resources.ts';
import type { EdgeNode } from '../api/v3/edge-node.ts';
import { type BuiltIn, isReservedFor } from '../rules/built-in.ts';
import { DomainError } from '../rules/errors.ts';
import { idOf, uuidOf } from '../rules/identity.ts';
import type { Lookups, ReferencedObjects } from '../rules/inputs.ts';
import { v3Name } from '../rules/names.ts';
import type { Verdict } from '../rules/verdict.ts';
import type { FindReferenced, KindObject, Reference } from './object.ts';
import type { KindRest } from './rest.ts';

/** A function of an object. Its parameter is bivariant, so that definitions of all kinds fit into one list. */
type Of<T, R> = { of(object: T): R }['of'];

/**
 * A kind as a value, with everything that the layers above need. CRD, store and indexes, readiness, numbers,
 * lookups, access rules, REST routes, support document and metrics are made from it.
 */
export interface Kind<T extends KindObject = KindObject, Key extends string = string, Index extends string = string> {
  /** name of the store and of other members by kind */
  readonly key: Key;
  /** schema, names and columns */
  readonly definition: ResourceDefinition;
  /** where its objects live in the Kubernetes API */
  readonly resource: ResourceOf<T>;
  /** the kind in messages: `node` */
  readonly noun: string;
  /** made from the identity of the definition; the numbers of built-in objects are theirs */
  readonly identity: KindIdentity<T>;
  /** objects that exist from the start: the reconciler creates them, and users can neither change nor delete them */
  readonly builtIns?: readonly BuiltIn<T['spec']>[];
  /** its objects can be renamed, so that `status.name` records which one has a name */
  readonly recordsName?: true;
  /** references of an object to others */
  readonly references?: Of<T, Iterable<Reference>>;
  /** whether a reference of its objects means an object of that kind, where a name may mean one of several kinds; always when absent */
  readonly means?: { of(reference: Reference, find: FindReferenced): boolean }['of'];
  /** parts of an object that have one of these references, for messages; the object itself when absent */
  readonly referrers?: { of(object: T, to: string, refs: readonly (number | string)[]): readonly string[] }['of'];
  /**
   * Whether an object is one of the system's own, which decides who may change what it refers to
   * (docs/spec/identity-and-access.md#what-the-system-uses). Objects of kinds without it never are.
   */
  readonly isOfSystem?: Of<T, boolean>;
  /** the error of REST for the deletion of an object that others refer to */
  readonly inUse?: { status: 400 | 409; code: RestErrorCode<400 | 409> };
  /** its objects can be linked to nodes: `spec.nodes` names them */
  readonly links?: KindLinks<T>;
  /** what desired states make of the status of its objects, besides the identity; the lookups are those of now */
  readonly readOfStatus?: { of(object: T, lookups: Pick<Lookups, 'secret' | 'configMap'>): unknown }['of'];
  /** rules look its objects up (`ReferencedObjects`): agents are served from its store, and a change of an object reaches nodes */
  readonly lookedUp?: true;
  /** the row of the roles for its objects (src/rest/access/roles.ts) */
  readonly access: 'workloads' | 'infrastructure' | 'installation' | 'identity';
  /** the support document has the members of its spec without their values */
  readonly withholdsTexts?: true;
  readonly rest: KindRest<T>;
  /** the verdict on an object by the objects that it refers to */
  readonly verdict?: { of(object: T, find: FindReferenced): Verdict | undefined }['of'];
  /** further indexes of its store; name, uuid, id, ref, systemRef and linked exist for every kind that has them */
  readonly indexes: Readonly<Record<Index, Of<T, Iterable<string>>>>;
}

/** How the objects of a kind are linked to nodes. What an entry on a node uses counts as linked to it without a link. */
export interface KindLinks<T> {
  /** body of a response to link and unlink: the object, or the nodes */
  reply: 'object' | 'nodes';
  /** code of the refusal to unlink what an entry on the node uses */
  inUse: RestErrorCode<409>;
  refusal?: {
    /** why the object cannot be linked to a node */
    of(object: T, node: EdgeNode): DomainError | undefined;
    /** reason of the condition Ready of an object with such a link */
    reason: VerdictReason;
    /** such nodes in messages */
    nodes: string;
  };
}

/** A reference as a key of the index `ref`: `registries/id:12`, `registries/name:team`. */
export const referenceKey = ({ to, ref }: Reference): string =>
  `${to}/${typeof ref === 'number' ? 'id' : 'name'}:${ref}`;

/** The v3 name of an object among those of its kind. */
export const nameIn = <T extends KindObject>({ identity }: Pick<Kind<T>, 'identity'>, object: T): string =>
  identity.name?.(object) ?? v3Name(object);

/** The references that may mean an object: its number and its v3 name. */
export const refsTo = <T extends KindObject>(kind: Kind<T>, object: T): readonly (number | string)[] => {
  const id = kind.identity.id?.(object);
  return [...(id === undefined ? [] : [id]), nameIn(kind, object)];
};

/** Users that a message names. */
export const NAMED_USERS = 10;

/** The users of an object as a message has them. */
export interface Users {
  named: readonly string[];
  more: number;
  /** there may be further ones */
  isAtLeast?: boolean;
}

export const usersOf = (names: Iterable<string>): Users => {
  const sorted = [...names].sort();
  return { named: sorted.slice(0, NAMED_USERS), more: Math.max(0, sorted.length - NAMED_USERS) };
};

/** Control characters of names would end a message of the API server. */
export function usersText({ named, more, isAtLeast }: Users): string {
  const names = named.join(', ').replaceAll(/\p{C}+/gu, ' ');
  if (more === 0) return names;
  return `${names} and ${isAtLeast ? `at least ${roughly(more)}` : more} more`;
}

/** The number down to its first digit, so that few new users change a text about many. */
const roughly = (count: number) => {
  const digit = 10 ** Math.floor(Math.log10(count));
  return Math.floor(count / digit) * digit;
};

/** The refusal to delete an object that others refer to; kubectl gets the same words by an annotation. */
export function inUseError<T extends KindObject>(kind: Kind<T>, object: T, users: Users): DomainError {
  const { status, code } = kind.inUse ?? { status: 409, code: 'IN_USE' };
  const called = nameIn(kind, object);
  const name = kind.rest.key === 'id' ? `${kind.identity.id?.(object) ?? ''} (${called})` : called;
  return new DomainError(status, code, `${kind.noun} ${name} is used by ${usersText(users)}`);
}

/** The identity of an object for v3 clients and machines besides its v3 name; see src/rules/identity.ts. */
interface KindIdentity<T> {
  /** the v3 name, where it is not that of the object alone */
  name?: Of<T, string>;
  uuid?: Of<T, string>;
  /** a number from the counter of the kind; undefined until it is assigned */
  id?: Of<T, number | undefined>;
  /** whether a number is reserved for another object */
  isReserved?: { of(object: T, id: number): boolean }['of'];
}

/** Names of the indexes that kinds share. */
export type IdentityIndex = 'name' | 'uuid' | 'id' | 'ref' | 'systemRef' | 'linked';

/** A kind says that it is looked up exactly when rules have the type of its objects. */
type LookedUp<Key> = Key extends keyof ReferencedObjects ? { lookedUp: true } : { lookedUp?: never };

/** Defines a kind; its key and its indexes are inferred. */
export const defineKind =
  <T extends KindObject>() =>
  <const Key extends string, Index extends string = never>(
    kind: Omit<Kind<T, Key, Index>, 'resource' | 'identity' | 'lookedUp'> & {
      identity?: Pick<KindIdentity<T>, 'name'>;
    } & LookedUp<Key>,
  ): Kind<T, Key, Index> => {
    const { has } = kind.definition.identity;
    const { builtIns = [] } = kind;
    const isReserved = (object: T, id: number) => isReservedFor(builtIns, object, id);
    const ownId = (object: T) => {
      const id = idOf(object);
      return id !== undefined && isReserved(object, id) ? undefined : id;
    };
    return {
      ...kind,
      resource: customResource<T>(kind.definition),
      identity: {
        ...('uuid' in has && { uuid: uuidOf }),
        ...('id' in has && { id: ownId, isReserved }),
        ...kind.identity,
      },
    };
  };
