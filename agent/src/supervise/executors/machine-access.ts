import type { PolicyContext } from '../../domain/policy.ts';
import type { ReachLimits } from '../../domain/reach.ts';
import type { MachineAccess } from './executors.ts';
import { lookupName } from './extra-hosts.ts';
import { exchangedPath, pathRefusal } from './path-check.ts';

/** What executors ask this machine. The policy that is in force at the moment of a step counts. */
export function createMachineAccess(
  context: PolicyContext,
  {
    prepareMounts,
    whileVolumesStay,
    portTaken,
    cdiDevices,
    ownAddresses,
  }: Pick<MachineAccess, 'prepareMounts' | 'whileVolumesStay' | 'portTaken' | 'cdiDevices'> &
    Pick<ReachLimits, 'ownAddresses'>,
): MachineAccess {
  return {
    pathRefusal: (check) => pathRefusal(check, context),
    exchangedPath: (sources, pid) => exchangedPath(sources, pid, context),
    prepareMounts,
    whileVolumesStay,
    portTaken,
    cdiDevices,
    lookup: lookupName,
    reach: () => ({ policy: context.policy, ownAddresses }),
  };
}
