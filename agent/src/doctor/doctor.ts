import type { Check, Diagnosis } from './check.ts';
import { diagnose } from './check.ts';
import { CONTENT_CHECKS } from './content-checks.ts';
import { createDoctorContext, type DoctorContext } from './context.ts';
import { MACHINE_CHECKS } from './machine-checks.ts';
import { NETWORK_CHECKS } from './network-checks.ts';
import { SELF_CHECKS } from './self-checks.ts';

/** All checks of `skerry-agent doctor`, in their order. */
export const CHECKS: readonly Check<DoctorContext>[] = [
  ...MACHINE_CHECKS,
  ...SELF_CHECKS,
  ...CONTENT_CHECKS,
  ...NETWORK_CHECKS,
];

/**
 * Checks this machine, with or without a running agent. Changes nothing. For a user that may not read what the agent has it says that
 * alone: the other checks would take what they may not read for what is not there, or is damaged. With names: these checks alone.
 */
export async function examine(configFile: string, names?: readonly string[]): Promise<Diagnosis[]> {
  const context = createDoctorContext(configFile);
  if (names)
    return diagnose(
      CHECKS.filter(({ name }) => names.includes(name)),
      context,
    );
  const [user, ...others] = CHECKS;
  const may = await diagnose(user ? [user] : [], context);
  return isHealthy(may) ? [...may, ...(await diagnose(others, context))] : may;
}

export const isHealthy = (found: readonly Diagnosis[]) => found.every(({ status }) => status !== 'failed');
