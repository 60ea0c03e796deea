import { PLAIN_PLACES } from '../../domain/_places.ts';
import { OPEN_POLICY } from '../../domain/policy.ts';
import type { Step } from '../../domain/step.ts';
import { type Ended, type ExecutorDependencies, execute } from './executors.ts';
import { createMachineAccess } from './machine-access.ts';
import { createPullSlots } from './pull-slots.ts';

/** Carries out one step, on a machine that refuses nothing unless `deps` says otherwise. */
export function executeAlone(
  step: Step,
  deps: Pick<ExecutorDependencies, 'engine'> & Partial<ExecutorDependencies>,
): Promise<Ended> {
  const all: ExecutorDependencies = {
    machine: createMachineAccess(
      { policy: OPEN_POLICY, protectedPaths: [], places: PLAIN_PLACES },
      {
        prepareMounts: ({ mounts }) => mounts,
        whileVolumesStay: (make) => make(),
        cdiDevices: () => [],
        ownAddresses: () => [],
      },
    ),
    slots: createPullSlots(),
    pullBegins: () => () => {},
    pulled: () => {},
    mayUse: () => true,
    ...deps,
  };
  return execute(step, all, () => {}, new AbortController().signal);
}
