import type { VerdictReason } from '../api/conditions.ts';
import type { Condition, ObjectMeta, ResourceDefinition } from '../api/meta.ts';
import type { EdgeNode } from '../api/v3/index.ts';
import { conditionsOf, type Findings, joined, kstatus, type Progress } from './conditions.ts';
import type { Verdict } from './verdict.ts';

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
  /** conditions besides those that all kinds have */
  further?: Findings | undefined;
  /** RFC 3339 */
  now: string;
}

/** Status of an object. The same inputs give the same status. */
export const kindStatus = (inputs: KindStatusInputs): { observedGeneration: number; conditions: Condition[] } => ({
  observedGeneration: inputs.object.metadata.generation ?? 0,
  conditions: conditionsOf(
    inputs.definition,
    inputs.object,
    { ...kstatus(progress(inputs)), ...inputs.further },
    inputs.now,
  ),
});

/** Greatest number of users or nodes that one message names. */
const NAMED = 20;

function progress({ definition, noun, object, identity, id, users, obstacle }: KindStatusInputs): Progress {
  if (object.metadata.deletionTimestamp !== undefined) {
    if (users.length === 0) return { is: 'working', reason: 'Deleting', message: `the ${noun} is being deleted` };
    // The object stays usable until its last user is removed, which only a person can do.
    const message = `deletion is blocked: the ${noun} is used by ${namesShown(users)}`;
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

/** What is wrong with the links of an object to nodes, by their names or uuids: some do not exist, or `refusal` is of them. */
export function linkObstacle(
  links: readonly string[],
  nodeOf: (link: string) => EdgeNode | undefined,
  refusal?: { reason: VerdictReason; nodes: string; of(node: EdgeNode): boolean },
): Progress | undefined {
  const missing = links.filter((link) => !nodeOf(link));
  const refused = links.filter((link) => {
    const node = nodeOf(link);
    return node && refusal?.of(node);
  });
  const wrong: Pick<Verdict, 'reason' | 'message'>[] = [];
  if (missing.length > 0)
    wrong.push({ reason: 'NodeNotFound', message: `linked to nodes that do not exist: ${namesShown(missing)}` });
  if (refusal && refused.length > 0)
    wrong.push({ reason: refusal.reason, message: `linked to ${refusal.nodes}: ${namesShown(refused)}` });
  const [first] = wrong;
  return first && stalledBy({ ...first, message: wrong.map(({ message }) => message).join('; ') });
}

/** Names in a message: without duplicates, sorted, and at most 20 of them. */
export function namesShown(names: readonly string[]): string {
  const first = [...new Set(names)].sort();
  const more = first.length - NAMED;
  return joined(first.slice(0, NAMED)) + (more > 0 ? ` and ${more} more` : '');
}
