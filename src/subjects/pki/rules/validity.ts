import { hash } from 'node:crypto';
import { MONTHS_BELOW } from '../../../api/v3/issued.ts';

/** When certificates begin, end and are renewed. All times are Unix ms; X.509 counts seconds. */

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** A month of the v3 API has 30.44 days. */
const MONTH_MS = 30.44 * DAY_MS;
const DEFAULT_MONTHS = 60;
/** A shorter life is over before machines that are asleep have the next certificate. */
const SHORTEST_MS = HOUR_MS;
/** Certificates begin before they are made, for machines whose clock is slow. */
const EARLY_MS = HOUR_MS;
/** An object or an order that is older does not say when its certificate begins. */
const RECENT_MS = 10 * 60_000;
/** Time for machines to get the certificate of a new authority before anything that it signs. */
const HANDOVER_MS = DAY_MS;

export interface Validity {
  notBefore: number;
  notAfter: number;
}

/** Whether a certificate can be used at a time. */
export const isValid = ({ notBefore, notAfter }: Validity, now: number): boolean => notBefore <= now && now < notAfter;

/** The life that an `expiration` asks for, ms: months below 1000, else ms. */
export const lifeOf = (expiration = DEFAULT_MONTHS): number =>
  Math.floor(expiration < MONTHS_BELOW ? expiration * MONTH_MS : expiration);

/** Why no certificate can have this life. */
export const lifeProblem = (expiration?: number): string | undefined =>
  lifeOf(expiration) < SHORTEST_MS
    ? `expiration: ${expiration} is not valid: must be 1 to ${MONTHS_BELOW - 1} months, or at least ${SHORTEST_MS} ms`
    : undefined;

/** The validity of a certificate that is made at `from`. It ends with its authority at the latest. */
export function validityOf(from: number, life: number, authorityEnd = Number.POSITIVE_INFINITY): Validity {
  const start = toSecond(from);
  return { notBefore: start - EARLY_MS, notAfter: toSecond(Math.min(start + life, authorityEnd)) };
}

/** When a certificate was made. */
export const madeAt = ({ notBefore }: Pick<Validity, 'notBefore'>): number => notBefore + EARLY_MS;

/**
 * When the certificate of an object begins that needs one now: at the creation of the object, or at the order to renew it, if
 * that was just now, so that REST can tell both ends before the certificate is made.
 */
export function startOf(now: number, ...occasions: readonly (number | undefined)[]): number {
  const recent = occasions.filter((at) => at !== undefined && at <= now && now - at < RECENT_MS);
  return Math.max(...(recent as number[]), recent.length > 0 ? 0 : now);
}

/** When a certificate is renewed: with a third of its life left, and up to a tenth of that third earlier. */
export function renewalOf(validity: Validity, fingerprint: string): number {
  const third = (validity.notAfter - madeAt(validity)) / 3;
  return toSecond(validity.notAfter - third * (1 + jitterOf(fingerprint) / 10));
}

/** A number of 0 to 1 that stays the same for a certificate. */
export const jitterOf = (fingerprint: string): number =>
  Number.parseInt(hash('sha256', fingerprint).slice(0, 8), 16) / 2 ** 32;

/** When an authority begins to sign with a new key: its certificate must be everywhere before. */
export const handoverOf = (next: Validity, former: Validity): number =>
  madeAt(next) + Math.max(0, Math.min(HANDOVER_MS, (former.notAfter - madeAt(next)) / 2));

export const toSecond = (ms: number) => Math.floor(ms / 1_000) * 1_000;

/** Time of a text of RFC 3339, or undefined. */
export function timeOf(text: string | undefined): number | undefined {
  const at = Date.parse(text ?? '');
  return Number.isNaN(at) ? undefined : at;
}

/** A time as statuses and replies have it. */
export const textOfTime = (ms: number): string => new Date(ms).toISOString().replace('.000Z', 'Z');
