import { bindsOf } from '../domain/binds.ts';
import { POLICY_REFUSED } from '../domain/entry.ts';
import type { Desired } from '../domain/wanted.ts';
import type { Container } from '../engine-port/container.ts';
import type { MachineAccess } from './executors/executors.ts';
import { refusalOf, viewOf } from './plan/complete.ts';
import type { PlanInput } from './plan/context.ts';

/**
 * The desired entries under a policy with `stopRefused`: a refused entry is stopped, unless its container is one that the
 * policy allows, such as one of an earlier view.
 */
export function stopRefused(
  desired: Desired,
  input: Omit<PlanInput, 'desired'>,
  machine: Pick<MachineAccess, 'pathRefusal'>,
): Desired {
  if (!input.policy.stopRefused) return desired;
  const entries = desired.entries.map((entry) => {
    if (entry.kind !== 'hold' || entry.reason !== POLICY_REFUSED) return entry;
    const own = input.snapshot.containers.filter(({ uuid }) => uuid === entry.uuid);
    return { ...entry, stop: own.every((container) => isRefused(container, input, machine)) };
  });
  return { ...desired, entries };
}

function isRefused(
  container: Container,
  input: Omit<PlanInput, 'desired'>,
  machine: Pick<MachineAccess, 'pathRefusal'>,
): boolean {
  const view = viewOf(container, input);
  if (!view) return false;
  const refusal =
    refusalOf(view, input) ?? machine.pathRefusal({ asked: bindsOf(view), own: [], others: [], isNew: false });
  return refusal !== undefined;
}
