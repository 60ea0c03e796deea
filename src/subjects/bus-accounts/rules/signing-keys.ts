/**
 * Which keys sign the users of an account, and which users it refuses. A revocation is needed as long as the account trusts the key
 * that signed the token: an account that trusts a key no longer refuses all of its tokens, so that no list grows without end.
 */

/** More revocations than this begin another signing key: servers and machines get the token at each change. */
export const MOST_REVOCATIONS = 512;

/** At this many revocations of users that hold their credentials themselves, the keys that signed these end without an order. */
export const MOST_KEPT_REVOCATIONS = 2_048;

/** Former keys that an account trusts until the tokens that they signed are replaced, or are to end. */
export interface FormerKeys {
  keys: readonly string[];
  /** when another key followed them, Unix s */
  since: number;
  /** keys of users that were revoked until then: these revocations end with the keys, and later ones do not */
  kept: readonly string[];
}

/** Keys are public keys. */
export interface SigningState {
  /** signs users whose credentials the controller hands out itself */
  signing: string;
  /** signed such users before, and are trusted until they all have other tokens */
  retiring?: FormerKeys | undefined;
  /** signs users that hold their credentials themselves */
  extra: string;
  /** signed those before, and are trusted until they are ended */
  former?: FormerKeys | undefined;
  /** by public key of a user, Unix s */
  revocations: Readonly<Record<string, number>>;
  /** revoked keys of users that `extra` signed */
  kept: readonly string[];
}

export interface SigningStep extends Pick<SigningState, 'retiring' | 'former' | 'revocations' | 'kept'> {
  /** another key follows `signing`, `extra` */
  renews: { signing: boolean; extra: boolean };
}

/** Every key that a token of the account trusts besides the key of the account. */
export const trustedKeys = ({
  signing,
  retiring,
  extra,
  former,
}: Pick<SigningState, 'signing' | 'retiring' | 'extra' | 'former'>) => [
  ...new Set([signing, ...(retiring?.keys ?? []), extra, ...(former?.keys ?? [])]),
];

/** The next state of the keys of an account. Who knows the same decides the same: the result is stored with the token in one write. */
export function nextSigningStep(
  state: SigningState,
  {
    now,
    drops = false,
    ended,
    servers,
  }: {
    /** Unix s */
    now: number;
    /** no token of `retiring` is in use any more */
    drops?: boolean;
    /** a former key that is to end, and all former keys with it */
    ended?: string | undefined;
    /** the signing keys in a later token that servers have: this datastore is older */
    servers?: readonly string[];
  },
): SigningStep {
  const trusted = trustedKeys(state);
  if (servers && (servers.length !== trusted.length || !trusted.every((key) => servers.includes(key))))
    // Keys that servers trust no longer have no list any more of the users that they signed: none of them may come back. Keys that
    // servers do trust have signed credentials that others hold, and their revocations are all that servers had.
    return {
      retiring: undefined,
      former: { keys: servers.toSorted(), since: now, kept: Object.keys(state.revocations).sort() },
      revocations: state.revocations,
      kept: [],
      renews: { signing: true, extra: true },
    };
  let { retiring, former, revocations, kept } = state;
  const renews = { signing: false, extra: false };
  if (former && isEnding({ former, kept }, ended)) {
    revocations = without(revocations, former);
    former = undefined;
  }
  if (!former && kept.length > MOST_REVOCATIONS) {
    former = { keys: [state.extra], since: now, kept };
    kept = [];
    renews.extra = true;
  }
  if (retiring && drops) {
    revocations = without(revocations, retiring);
    retiring = undefined;
  }
  const others = new Set([...kept, ...(former?.kept ?? [])]);
  const delivered = Object.keys(revocations).filter((user) => !others.has(user));
  if (!retiring && delivered.length > MOST_REVOCATIONS) {
    retiring = { keys: [state.signing], since: now, kept: delivered };
    renews.signing = true;
  }
  return { retiring, former, revocations, kept, renews };
}

function without(
  revocations: Readonly<Record<string, number>>,
  { kept }: FormerKeys,
): Readonly<Record<string, number>> {
  const gone = new Set(kept);
  return Object.fromEntries(Object.entries(revocations).filter(([user]) => !gone.has(user)));
}

const isEnding = (
  { former, kept }: { former: FormerKeys; kept: readonly string[] },
  ended: string | undefined,
): boolean =>
  (ended !== undefined && former.keys.includes(ended)) || former.kept.length + kept.length >= MOST_KEPT_REVOCATIONS;

/** Clocks of the API server, which dates objects, and of the controller differ. */
const CLOCKS_S = 60;

/** Whether a user that holds its credentials itself may have them from a time before another key followed the former ones. */
export const mayHoldFormer = ({ since }: FormerKeys, createdAt: string | undefined): boolean =>
  Date.parse(createdAt ?? '') / 1_000 <= since + CLOCKS_S;
