import type { ObjectMeta } from '../api/meta.ts';
import { ANNOTATIONS, LABELS } from '../api/names.ts';

/**
 * The label by which the admission policy refuses the deletion of an object in use, and the annotation with its words, as a merge patch;
 * undefined when the object has both.
 */
export function inUseMarks({ labels = {}, annotations = {} }: ObjectMeta, inUse: boolean, refusal: string | undefined) {
  const isMarked = labels[LABELS.inUse] === 'true';
  if (isMarked === inUse && annotations[ANNOTATIONS.usedBy] === refusal) return undefined;
  return {
    ...(isMarked !== inUse && { labels: { [LABELS.inUse]: inUse ? 'true' : null } }),
    ...(annotations[ANNOTATIONS.usedBy] !== refusal && { annotations: { [ANNOTATIONS.usedBy]: refusal ?? null } }),
  };
}
