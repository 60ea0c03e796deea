import type { BusClaims } from '../../bus-rules/rules/tokens/claims.ts';
import { decodeToken } from '../../bus-rules/rules/tokens/decode.ts';
import { lostRevocations, merge } from '../../bus-rules/rules/tokens/lineage.ts';

/** What to do about the token of an account. */
interface Settled {
  /** the token that servers are to have now; undefined: nothing is known of the account */
  token: string | undefined;
  /** tokens of servers that the wanted one takes over, as the datastore is older than they are, or lacks a revocation */
  adopts?: readonly string[];
}

/**
 * The token of an account that counts, of the wanted one and those that servers have. A restored datastore has older tokens than the
 * servers, and so have the files of a server that was away: the latest counts, and what it lacks of the others is signed anew.
 */
export function settleToken(wanted: string | undefined, found: readonly string[]): Settled {
  const all = [wanted, ...found].filter((one) => one !== undefined);
  const token = all.reduce<string | undefined>((best, one) => merge(best, one), undefined);
  if (wanted === undefined) return { token };
  const claims = decodeToken(wanted);
  const adopts = found.filter((one) => one !== wanted && saysMore(decodeToken(one), claims));
  return { token, ...(adopts.length > 0 && { adopts }) };
}

/** An earlier token with a signing key that no longer counts has revocations of users whom that key signed: they ended with it. */
function saysMore(found: BusClaims | undefined, wanted: BusClaims | undefined): boolean {
  if (!found) return false;
  if (!wanted || found.iat >= wanted.iat) return true;
  const trusted = new Set(signingKeys(wanted));
  return signingKeys(found).every((key) => trusted.has(key)) && Object.keys(lostRevocations(wanted, found)).length > 0;
}

const signingKeys = ({ nats: { signing_keys } }: BusClaims): readonly unknown[] =>
  Array.isArray(signing_keys) ? signing_keys : [];
