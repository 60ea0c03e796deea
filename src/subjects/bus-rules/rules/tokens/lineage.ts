import { isDeepStrictEqual } from 'node:util';
import type { BusClaims } from './claims.ts';
import { decodeToken } from './decode.ts';

/**
 * Which of two tokens of one account counts. Servers keep the one with the later `iat`, in whole seconds, and exchange tokens by
 * their `jti`. A token that a clock put behind its predecessor would undo the revocations between both.
 */

/** `iat` of the next token of an account: the time, and in any case later than the former one. Unix s. */
export const nextIat = (nowSeconds: number, former: BusClaims | undefined): number =>
  Math.max(Math.floor(nowSeconds), former === undefined ? 0 : former.iat + 1);

/** Whether a token says the same as the former one, which then stays. */
export function isSameToken(former: BusClaims | undefined, next: BusClaims): boolean {
  if (!former) return false;
  const [before, after] = [former, next].map(({ iat: _iat, jti: _jti, ...content }) => content);
  return isDeepStrictEqual(before, after);
}

/**
 * The revocations with one more: servers refuse tokens of the user that were issued until then. The clock that issued the token
 * may be ahead of this one, so that the time alone would let the token live on.
 */
export function revoke(
  revocations: Readonly<Record<string, number>>,
  userPublicKey: string,
  iatOfUser: number,
  nowSeconds: number,
): Record<string, number> {
  const former = revocations[userPublicKey] ?? 0;
  return { ...revocations, [userPublicKey]: Math.max(former, iatOfUser, Math.floor(nowSeconds)) };
}

/**
 * The token that counts, of two of one account: the later one, or the greater `jti` where both have one second, so that all
 * who compare agree. It may lack revocations of the other one: `lostRevocations` has them, and a new token gets them.
 */
export function merge(a: string | undefined, b: string | undefined): string | undefined {
  const [first, second] = [a, b].map((jwt) => (jwt === undefined ? undefined : decodeToken(jwt)));
  if (!first || !second) return first ? a : second ? b : undefined;
  const isFirst = first.iat === second.iat ? first.jti >= second.jti : first.iat > second.iat;
  return isFirst ? a : b;
}

/** Revocations of another token of the account that the token that counts lacks, or has for an earlier time. */
export function lostRevocations(counts: BusClaims | undefined, other: BusClaims | undefined): Record<string, number> {
  const kept = counts?.nats.revocations ?? {};
  const revocations = Object.entries(other?.nats.revocations ?? {});
  return Object.fromEntries(revocations.filter(([key, time]) => time > (kept[key] ?? 0)));
}
