import type { Condition, ObjectMeta, ResourceDefinition } from '../api/meta.ts';
import { conditionsOf, joined, kstatus, type Progress } from './conditions.ts';
import type { Verdict } from './inputs.ts';

/** The inputs of the status of an object that machines do not report on. */
export interface KindStatusInputs {
  definition: Pick<ResourceDefinition, 'conditions' | 'identity'>;
  /** the kind in messages */
  noun: string;
  object: { metadata: ObjectMeta; status?: { conditions?: readonly Condition[] } };
  /** NameTaken, UuidTaken or IdTaken */
  identity?: Verdict;
  /** the number; ignored for kinds without numbers */
  id?: number;
  /** names of the users of the object */
  users: readonly string[];
  /** why the object cannot be used, when its identity is not the reason */
  obstacle?: Progress;
  /** RFC 3339 */
  now: string;
}

/** Status of an object. The same inputs give the same status. */
export const kindStatus = (inputs: KindStatusInputs): { observedGeneration: number; conditions: Condition[] } => ({
  observedGeneration: inputs.object.metadata.generation ?? 0,
  conditions: conditionsOf(inputs.definition, inputs.object, kstatus(progress(inputs)), inputs.now),
});

/** Greatest number of users that one message names. */
const NAMED_USERS = 20;

function progress({ definition, noun, object, identity, id, users, obstacle }: KindStatusInputs): Progress {
  if (object.metadata.deletionTimestamp !== undefined) {
    if (users.length === 0) return { is: 'working', reason: 'Deleting', message: `the ${noun} is being deleted` };
    // The object stays usable until its last user is removed, which only a person can do.
    const message = `the ${noun} goes once nobody uses it; used by ${named(users)}`;
    return { is: 'stalled', reason: 'Deleting', message };
  }
  if (identity) return stalledBy(identity);
  if ('id' in definition.identity.has && id === undefined)
    return { is: 'working', reason: 'IdNotAssigned', message: `the ${noun} has no id yet` };
  // The status does not name users, since each new or removed user would cause a write.
  return obstacle ?? { is: 'done', reason: 'Usable', message: `the ${noun} can be used` };
}

/** The progress of an object that must be changed first. */
export const stalledBy = ({ reason, message }: Pick<Verdict, 'reason' | 'message'>): Progress => ({
  is: 'stalled',
  reason,
  message,
});

function named(users: readonly string[]): string {
  const first = [...new Set(users)].sort();
  const more = first.length - NAMED_USERS;
  return joined(first.slice(0, NAMED_USERS)) + (more > 0 ? ` and ${more} more` : '');
}
