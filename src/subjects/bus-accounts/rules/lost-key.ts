import type { BusAccount } from '../../../api/v3/bus-account.ts';
import type { BusClaims } from '../../bus-rules/rules/tokens/claims.ts';

/**
 * The key of an account whose Secret is lost. Servers know an account by its public key alone, and the operator signs its token, so that
 * it keeps this key and all that servers have under it. Whoever the lost keys signed is refused.
 */
export interface LostKey {
  key: string;
  /** time of its last token, Unix s: servers take a later one alone */
  issuedAt: number;
}

/** What the Secret of an account has. */
interface FoundKey {
  key: string;
  token: BusClaims | undefined;
}

/** Whether servers are started with the account. Nobody can bring a running one the token that follows lost keys. */
const isOfServers = ({ spec: { system } }: BusAccount): boolean => system === 'system' || system === 'leaf';

/**
 * The key that an account continues with although its Secret does not have it; undefined: the Secret counts, or nothing is known.
 * `found`: absent where the Secret is. `started`: the token with which the servers of the hub are started, for the account of these.
 * The members of a hub keep the list of all their streams under that account, and delete every stream that the list lacks: another key
 * of it is an empty list.
 */
export function lostKey(account: BusAccount, found?: FoundKey, started?: BusClaims): LostKey | undefined {
  const { publicKey = started?.sub, issuedAt = 0 } = account.status ?? {};
  if (publicKey === undefined) return undefined;
  const known = { key: publicKey, issuedAt: Math.max(issuedAt, started?.sub === publicKey ? started.iat : 0) };
  if (!found) return known;
  // A copy of the Secret from before was put back: servers have later tokens, and refuse whom its keys sign.
  const isFormer = found.key !== publicKey || (found.token?.iat ?? 0) < issuedAt;
  return isOfServers(account) && isFormer ? known : undefined;
}
