import type { ObjectMeta } from '../api/meta.ts';
import { type BuiltIn, isOneOf } from './built-in.ts';
import { firmness, type Identified } from './identity.ts';

/**
 * What a name, a uuid, a number or a place of a node is given by, when several ask for it (docs/spec/workloads.md#who-has-it): the
 * system comes first, then what has it already, then age. What has something already is said by statuses alone, so that all
 * replicas decide the same, also after a restart and under another leader.
 */
export interface Claim {
  isSystem: boolean;
  /** how firmly it has the thing already; 0 when it only asks for it */
  has: number;
  /** the object whose age counts; an object that is not stored yet comes last */
  of: { metadata: ObjectMeta };
}

/** The order of claims; the first one gets the thing. */
export const byPrecedence = (a: Claim, b: Claim): number =>
  Number(b.isSystem) - Number(a.isSystem) || b.has - a.has || byAge(a.of, b.of);

/** Older objects first; within one second, by uid. */
export const byAge = (a: { metadata: ObjectMeta }, b: { metadata: ObjectMeta }): number =>
  compareTexts(a.metadata.creationTimestamp, b.metadata.creationTimestamp) ||
  compareTexts(a.metadata.uid, b.metadata.uid);

/** An object that is not stored yet has neither time nor uid, and comes last. */
const LAST = '\uffff';
/** The order of texts by their code units; an absent one comes last. */
export const compareTexts = (a = LAST, b = LAST): number => (a < b ? -1 : a > b ? 1 : 0);

/** Whether an object belongs to the system: only the controller makes such objects. */
export const isOfSystem = ({ spec }: { spec?: unknown }): boolean =>
  (spec as { isSystem?: boolean } | undefined)?.isSystem === true;

interface Claimant {
  metadata: ObjectMeta;
  spec?: unknown;
  status?: unknown;
}

/** What several objects ask for. Names are immutable: an older object has had its name for longer, so age says who has a name. */
export interface Claimed<T> {
  uuid?: string | undefined;
  id?: number | undefined;
  /** objects of the system besides those whose spec says it */
  builtIns?: readonly BuiltIn[] | undefined;
  /** how firmly an object has a name that can be changed */
  has?: ((object: T) => number) | undefined;
}

/** Of several objects that claim one name, uuid or number, the one that has it; undefined without any. */
export function holder<T extends Claimant>(objects: readonly T[], claimed: Claimed<T> = {}): T | undefined {
  if (objects.length < 2) return objects[0];
  const { builtIns = [], has = (object) => firmness(object as Identified, claimed) } = claimed;
  const claims = objects.map((object) => ({
    object,
    isSystem: isOfSystem(object) || isOneOf(builtIns, object),
    has: has(object),
    of: object,
  }));
  return claims.reduce((first, claim) => (byPrecedence(claim, first) < 0 ? claim : first)).object;
}
