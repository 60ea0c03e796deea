import { type Policy, policySchema } from './policy.ts';
import type { ReachLimits } from './reach.ts';

/** The limits of a machine with a policy of these rules, and with these addresses. */
export function limitsOf(policy: Partial<Policy> = {}, ownAddresses: readonly string[] = []): ReachLimits {
  return { policy: policySchema.parse(policy), ownAddresses: () => ownAddresses };
}

/** Those of a machine without a policy. */
export const ANYWHERE = limitsOf();
