import type { ObjectMeta } from '../api/meta.ts';
import { ANNOTATIONS, LABELS } from '../api/names.ts';

/** What the admission policies are to know of an object's users. */
export interface UseFacts {
  inUse: boolean;
  /** the refusal of its deletion */
  refusal?: string | undefined;
  /** it decides what microservices of the system run */
  usedBySystem: boolean;
}

/**
 * The labels by which admission policies refuse the deletion of an object in use and the change of one that the system uses, and the
 * annotation with the words of the former, as a merge patch; undefined when the object has all of them.
 */
export function useMarks({ labels = {}, annotations = {} }: ObjectMeta, { inUse, refusal, usedBySystem }: UseFacts) {
  const wanted = [
    [LABELS.inUse, inUse],
    [LABELS.usedBySystem, usedBySystem],
  ] as const;
  const different = wanted.filter(([label, is]) => labels[label] !== (is ? 'true' : undefined));
  if (different.length === 0 && annotations[ANNOTATIONS.usedBy] === refusal) return undefined;
  return {
    ...(different.length > 0 && {
      labels: Object.fromEntries(different.map(([label, is]) => [label, is ? 'true' : null])),
    }),
    ...(annotations[ANNOTATIONS.usedBy] !== refusal && { annotations: { [ANNOTATIONS.usedBy]: refusal ?? null } }),
  };
}
