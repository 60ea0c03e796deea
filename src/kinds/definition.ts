import type { Condition, ObjectMeta, ResourceDefinition } from '../api/meta.ts';
import { customResource, type ResourceOf } from '../api/resources.ts';

/** What the objects of every kind have. */
export interface KindObject {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
  spec: { name?: string; uuid?: string; id?: number };
  status?: { observedGeneration: number; uuid?: string; id?: number; conditions?: Condition[] };
}

/** A function of an object. Its parameter is compared loosely, so that kinds of all objects fit into one list. */
type Of<T, R> = { of(object: T): R }['of'];

/**
 * A kind, as a value: everything that the layers above have to know of it. CRD, store and indexes, readiness, numbers,
 * look-ups, access rules, REST routes, support bundle and metrics are made from it.
 */
export interface Kind<T extends KindObject = KindObject, Key extends string = string, Index extends string = string> {
  /** name of the store, and of everything else that has a member for each kind */
  readonly key: Key;
  /** schema, names and columns */
  readonly definition: ResourceDefinition;
  /** where its objects live in the Kubernetes API */
  readonly resource: ResourceOf<T>;
  /** the kind in messages: `node` */
  readonly noun: string;
  readonly identity: KindIdentity<T>;
  /** under which further keys its objects are found in the store; name, uuid and id are there for every kind that has them */
  readonly indexes: Readonly<Record<Index, Of<T, Iterable<string>>>>;
}

/** By what, besides its v3 name, an object is known to v3 clients and machines; see domain/identity.ts. */
export interface KindIdentity<T> {
  uuid?: Of<T, string>;
  /** a number from the counter of the kind; undefined until it is given one */
  id?: Of<T, number | undefined>;
  /** whether a number is kept for another object */
  isReserved?: { of(object: T, id: number): boolean }['of'];
}

/** Names of the indexes that kinds share. */
export type IdentityIndex = 'name' | 'uuid' | 'id';

/** States a kind; its key and its indexes are inferred. */
export const defineKind =
  <T extends KindObject>() =>
  <const Key extends string, Index extends string = never>(
    kind: Omit<Kind<T, Key, Index>, 'resource'>,
  ): Kind<T, Key, Index> => ({ ...kind, resource: customResource<T>(kind.definition) });
