import type { ObjectMeta } from '../../api/meta.ts';
import type { Application } from '../../api/v3/index.ts';

/** Whether two versions are of one object; an object that is not stored yet has neither uid nor, perhaps, namespace. */
export const isSame = ({ metadata: a }: Application, { metadata: b }: Application) =>
  a.name === b.name && (!a.uid || !b.uid || a.uid === b.uid);

export const byAge = (a: { application: Application; name: string }, b: { application: Application; name: string }) =>
  byAgeOf(a.application, b.application) || compare(a.name, b.name);
export const byAgeOf = (a: { metadata: ObjectMeta }, b: { metadata: ObjectMeta }) =>
  compare(a.metadata.creationTimestamp, b.metadata.creationTimestamp) || compare(a.metadata.uid, b.metadata.uid);

/** An object that is not stored yet comes last. */
const LAST = '\uffff';
const compare = (a = LAST, b = LAST) => (a < b ? -1 : a > b ? 1 : 0);
