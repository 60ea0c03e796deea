import type { Condition, ObjectMeta, ResourceDefinition } from '../api/meta.ts';
import { conditionsOf, joined, kstatus, type Progress } from './conditions.ts';
import type { Verdict } from './inputs.ts';

/** What the status of an object is computed from that machines do not report on. */
export interface KindStatusInputs {
  definition: Pick<ResourceDefinition, 'conditions' | 'identity'>;
  /** the kind in messages */
  noun: string;
  object: { metadata: ObjectMeta; status?: { conditions?: readonly Condition[] } };
  /** NameTaken, UuidTaken or IdTaken */
  identity?: Verdict;
  /** its number; of no account for kinds without one */
  id?: number;
  /** names of what uses it */
  users: readonly string[];
  /** what keeps it from being used, when its identity does not */
  obstacle?: Progress;
  /** RFC 3339 */
  now: string;
}

/** Status of an object. Stable: the same facts give the same status. */
export const kindStatus = (inputs: KindStatusInputs): { observedGeneration: number; conditions: Condition[] } => ({
  observedGeneration: inputs.object.metadata.generation ?? 0,
  conditions: conditionsOf(inputs.definition, inputs.object, kstatus(progress(inputs)), inputs.now),
});

/** How many users a message names. */
const NAMED_USERS = 20;

function progress({ definition, noun, object, identity, id, users, obstacle }: KindStatusInputs): Progress {
  if (object.metadata.deletionTimestamp !== undefined) {
    if (users.length === 0) return { is: 'working', reason: 'Deleting', message: `the ${noun} is being deleted` };
    // It serves until its last user is gone, and no user goes by itself.
    const message = `the ${noun} goes once nobody uses it; used by ${named(users)}`;
    return { is: 'stalled', reason: 'Deleting', message };
  }
  if (identity) return stalledBy(identity);
  if ('id' in definition.identity.has && id === undefined)
    return { is: 'working', reason: 'IdNotAssigned', message: `the ${noun} has no id yet` };
  // Its users are not named here: each that comes or goes would be a write.
  return obstacle ?? { is: 'done', reason: 'Usable', message: `the ${noun} can be used` };
}

/** An object that has to be changed first. */
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
