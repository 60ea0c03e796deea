import type { Check, Diagnosis } from './check.ts';
import { diagnose } from './check.ts';
import { createDoctorContext, type DoctorContext } from './context.ts';
import { MACHINE_CHECKS } from './machine-checks.ts';
import { NETWORK_CHECKS } from './network-checks.ts';

/** Everything that has to be right for an agent to work: the table is the programme of `skerry-agent doctor`. */
export const CHECKS: readonly Check<DoctorContext>[] = [...MACHINE_CHECKS, ...NETWORK_CHECKS];

/** Looks at this machine, whether an agent runs on it or not. Leaves nothing behind. */
export function examine(configFile: string): Promise<Diagnosis[]> {
  return diagnose(CHECKS, createDoctorContext(configFile));
}

export const isHealthy = (found: readonly Diagnosis[]) => found.every(({ status }) => status !== 'failed');
