/** How long credentials last that a caller asks for, as v3 spells it. */

const HOUR_MS = 3_600_000;
const UNITS = {
  h: { ms: HOUR_MS, most: 26_280 },
  d: { ms: 24 * HOUR_MS, most: 1_095 },
  m: { ms: 30 * 24 * HOUR_MS, most: 36 },
} as const;

const EXPIRES_IN_PATTERN = /^[0-9]+[hdm]$/;
export const EXPIRES_IN_EXPECTS =
  'a number with h (hours, 1 to 26280), d (days, 1 to 1095) or m (months of 30 days, 1 to 36)';

/** Milliseconds of a text such as `30d`; undefined when it is none, or beyond its bounds. */
export function lifeOfUser(expiresIn: string): number | undefined {
  if (!EXPIRES_IN_PATTERN.test(expiresIn)) return undefined;
  const { ms, most } = UNITS[expiresIn.at(-1) as keyof typeof UNITS];
  const count = Number(expiresIn.slice(0, -1));
  return count >= 1 && count <= most ? count * ms : undefined;
}
