import type { Condition, ObjectMeta } from '../api/meta.ts';

/** The members that the objects of every kind have. */
export interface KindObject {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
  spec: { name?: string; uuid?: string; id?: number; nodes?: readonly string[] | undefined };
  status?: { observedGeneration: number; uuid?: string; id?: number; conditions?: Condition[] };
}

/** A reference to an object: the key of its kind, and its number or its v3 name. */
export interface Reference {
  to: string;
  ref: number | string;
}

/** The oldest object that a reference may mean. */
export type FindReferenced = (reference: Reference) => KindObject | undefined;
