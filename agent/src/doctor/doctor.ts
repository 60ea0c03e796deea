import type { Check, Diagnosis } from './check.ts';
import { diagnose } from './check.ts';
import { CONTENT_CHECKS } from './content-checks.ts';
import { createDoctorContext, type DoctorContext } from './context.ts';
import { MACHINE_CHECKS } from './machine-checks.ts';
import { NETWORK_CHECKS } from './network-checks.ts';

/** All checks of `skerry-agent doctor`, in their order. */
export const CHECKS: readonly Check<DoctorContext>[] = [...MACHINE_CHECKS, ...CONTENT_CHECKS, ...NETWORK_CHECKS];

/** Checks this machine, with or without a running agent. Changes nothing. */
export function examine(configFile: string): Promise<Diagnosis[]> {
  return diagnose(CHECKS, createDoctorContext(configFile));
}

export const isHealthy = (found: readonly Diagnosis[]) => found.every(({ status }) => status !== 'failed');
