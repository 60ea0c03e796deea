import type { VerdictReason } from '../../../api/conditions.ts';
import type { Progress } from '../../../rules/conditions.ts';
import { stalledBy } from '../../../rules/kind-status.ts';
import { textOfTime, type Validity } from '../rules/validity.ts';

/** What both kinds say of their Secret and of their certificate. */

export const SECRET_TAKEN = (name: string) => ({
  reason: 'SecretTaken' as const,
  message: `the Secret ${name} exists and belongs to something else: delete it, or choose another name`,
});

export const expired = ({ notAfter }: Validity, reason: VerdictReason, now: number): Progress | undefined =>
  notAfter <= now ? stalledBy({ reason, message: `its certificate expired at ${textOfTime(notAfter)}` }) : undefined;

/** The first of these times that is to come. */
export function nextOf(times: readonly (number | undefined)[], now: number): number | undefined {
  const ahead = times.filter((at): at is number => at !== undefined && at > now);
  return ahead.length > 0 ? Math.min(...ahead) : undefined;
}
