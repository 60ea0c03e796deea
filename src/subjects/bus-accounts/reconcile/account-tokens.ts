import type { BusAccount } from '../../../api/v3/bus-account.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { refOf } from '../../../kube/mod.ts';
import { systemClock } from '../../../lib/clock.ts';
import { createTokenBuckets } from '../../../lib/token-bucket.ts';
import { uuidOf } from '../../../rules/identity.ts';
import { onceEach } from '../../../rules/once-each.ts';
import { makeNkey, publicNkey, signJwt } from '../../../signer/nkeys.ts';
import { accountClaims, type BusClaims } from '../../bus-rules/rules/tokens/claims.ts';
import { decodeToken } from '../../bus-rules/rules/tokens/decode.ts';
import { isSameToken, nextIat, revoke } from '../../bus-rules/rules/tokens/lineage.ts';
import { RESOURCES } from '../../kinds.ts';
import { accountNameOf } from '../rules/account.ts';
import { type LostKey, lostKey } from '../rules/lost-key.ts';
import { accountSecretName, BUS_KEYS, type BusTexts, HUB_SECRET, parsedText } from '../rules/secret.ts';
import { type FormerKeys, nextSigningStep, type SigningState, trustedKeys } from '../rules/signing-keys.ts';
import type { OperatorKeys } from './operator-keys.ts';
import type { BusRules } from './rules.ts';
import type { BusSecrets } from './secrets.ts';

/** The keys of an account, and its token. */
export interface AccountKeys {
  key: string;
  /** the key that signs users whose credentials the controller hands out itself */
  signing: { key: string; seed: string };
  /** keys that signed such users before, and that the token trusts still */
  retiring: FormerKeys | undefined;
  /** the key that signs users that hold their credentials themselves */
  extra: { key: string; seed: string };
  /** keys that signed those before, and that the token trusts until they are ended */
  former: FormerKeys | undefined;
  token: BusClaims;
}

/** Users that an account is to refuse: the time in the token of each, by public key. */
interface RefusedUsers {
  /** users whose credentials the controller hands out itself */
  delivered?: Readonly<Record<string, number>>;
  /** users whose credentials others have */
  kept?: Readonly<Record<string, number>>;
}

/** The texts of the Secret of an account that count; where its keys are `lost`, none does. */
interface Counting {
  present: BusTexts;
  lost?: LostKey;
}

interface Waiting {
  revocations: RefusedUsers[];
  done: Promise<void>;
}

/**
 * An account gets this many tokens at once that refuse replaced keys of users, then one a second: an edit of a rule replaces the keys of all its
 * users, and each token of the account goes to all servers.
 */
const REPLACED = { burst: 2, perSecond: 1 };

const merged = (all: readonly RefusedUsers[]): Required<RefusedUsers> => ({
  delivered: Object.assign({}, ...all.map(({ delivered }) => delivered)),
  kept: Object.assign({}, ...all.map(({ kept }) => kept)),
});

/** Whether a token refuses all these users. */
const refuses = (token: BusClaims | undefined, { delivered, kept }: RefusedUsers): boolean =>
  token !== undefined &&
  Object.entries({ ...delivered, ...kept }).every(([user, time]) => (token.nats.revocations?.[user] ?? 0) >= time);

/** The claims as if both tokens had been one: the later time, and the later time of each revocation. */
function withRevocations(claims: BusClaims, other: BusClaims): BusClaims {
  const revocations = { ...claims.nats.revocations };
  for (const [user, time] of Object.entries(other.nats.revocations ?? {}))
    revocations[user] = Math.max(revocations[user] ?? 0, time);
  return { ...claims, iat: Math.max(claims.iat, other.iat), nats: { ...claims.nats, revocations } };
}

/** Every key of the account, in the map of revocations. */
const EVERYBODY = '*';

const publicKeyIn = ({ [BUS_KEYS.key]: key, [BUS_KEYS.seed]: seed }: BusTexts): string | undefined =>
  key ?? (seed === undefined ? undefined : publicNkey(seed));

/** Whether the servers of the hub are started with the account. */
const isOfHub = ({ spec: { system } }: BusAccount): boolean => system === 'system';

const isTexts = (value: unknown) => Array.isArray(value) && value.every((one) => typeof one === 'string');
const isFormer = (value: unknown) => {
  const { keys, since, kept } = (value ?? {}) as Partial<FormerKeys>;
  return isTexts(keys) && isTexts(kept) && typeof since === 'number';
};
const newSeed = async () => (await makeNkey('account')).seed;

/**
 * Signs the tokens of accounts. The Secret of an account has the one truth: revocations and the time of the last signature are read from
 * the former token, so that neither a lost race, nor a clock that was set, nor another leader undoes a revocation.
 */
export function createAccountTokens(
  { clock, client }: Pick<ControllerDependencies, 'clock' | 'client'>,
  { secrets, operator, rules }: { secrets: BusSecrets; operator: OperatorKeys; rules: BusRules },
) {
  const waiting = new Map<string, Waiting>();
  /** Replaced keys whose accounts wait for their turn, by Secret. Secrets of the users have them too, for another leader. */
  const replaced = new Map<string, RefusedUsers>();
  const turns = createTokenBuckets({ clock: systemClock, ...REPLACED });

  const nameOf = (account: BusAccount) => accountSecretName(uuidOf(account));

  // Each user that is signed asks for them, and they would be most of the work.
  const keysIn = onceEach((texts: BusTexts): AccountKeys | undefined => {
    const { [BUS_KEYS.signing]: signing, [BUS_KEYS.extra]: extra } = texts;
    const token = decodeToken(texts[BUS_KEYS.token] ?? '');
    const key = publicKeyIn(texts);
    if (!key || !signing || !extra || !token) return undefined;
    return {
      ...{ key, token },
      signing: { key: publicNkey(signing), seed: signing },
      retiring: formerIn(texts, BUS_KEYS.retiring),
      extra: { key: publicNkey(extra), seed: extra },
      former: formerIn(texts, BUS_KEYS.formerKeys),
    };
  });
  const formerIn = (texts: BusTexts, key: string) =>
    parsedText<FormerKeys | undefined>(texts[key], undefined, isFormer);

  /** What counts of the Secret of an account. */
  async function countIn(account: BusAccount, stored: BusTexts, signal: AbortSignal): Promise<Counting> {
    const key = publicKeyIn(stored);
    if (stored[BUS_KEYS.ended] !== undefined || (key !== undefined && account.spec.system === undefined))
      return { present: stored };
    const found = key === undefined ? undefined : { key, token: decodeToken(stored[BUS_KEYS.token] ?? '') };
    const { [BUS_KEYS.systemToken]: started = '' } = isOfHub(account) ? secrets.read('server', HUB_SECRET).texts : {};
    const lostOf = (one: BusAccount) => lostKey(one, found, decodeToken(started));
    let lost = lostOf(account);
    // After a restore of the datastore the stores show some objects of before for a while: an older Secret alone is a copy.
    if (lost && found) lost = lostOf((await client.find(RESOURCES.busAccounts, refOf(account), { signal })) ?? account);
    return lost ? { present: {}, lost } : { present: stored };
  }

  const read = (account: BusAccount) => secrets.read('account', nameOf(account));

  /** The token with these revocations besides, signed by the operator of now; the present texts when nothing differs. */
  async function next(
    account: BusAccount,
    { present, lost }: Counting,
    { delivered = {}, kept = {} }: RefusedUsers,
    {
      isEnd = false,
      drops = false,
      adopts = [],
    }: { isEnd?: boolean; drops?: boolean; adopts?: readonly BusClaims[] } = {},
  ): Promise<BusTexts | undefined> {
    const signer = operator.signer();
    if (!signer || present[BUS_KEYS.ended] !== undefined) return undefined;
    const made: Record<string, string> = { ...present };
    if (lost) made[BUS_KEYS.key] = lost.key;
    else if (!made[BUS_KEYS.key]) made[BUS_KEYS.seed] ??= await newSeed();
    made[BUS_KEYS.signing] ??= await newSeed();
    made[BUS_KEYS.extra] ??= await newSeed();
    const publicKeyOf = (key: string) => publicNkey(made[key] as string);
    const key = made[BUS_KEYS.key] ?? publicKeyOf(BUS_KEYS.seed);
    const decoded = decodeToken(present[BUS_KEYS.token] ?? '');
    // A token of another key says nothing about this account.
    const known = decoded?.sub === key ? decoded : undefined;
    const found = known ? adopts.filter(({ sub }) => sub === key) : [];
    const former = known && found.reduce(withRevocations, known);
    const now = Math.floor(clock() / 1_000);
    let revocations: Record<string, number> = former?.nats.revocations ?? {};
    for (const [user, iat] of Object.entries({ ...delivered, ...kept }))
      if ((revocations[user] ?? 0) < iat) revocations = revoke(revocations, user, iat, now);
    const state: SigningState = {
      signing: publicKeyOf(BUS_KEYS.signing),
      retiring: formerIn(present, BUS_KEYS.retiring),
      extra: publicKeyOf(BUS_KEYS.extra),
      former: formerIn(present, BUS_KEYS.formerKeys),
      revocations,
      kept: [
        ...new Set([...parsedText<readonly string[]>(present[BUS_KEYS.kept], [], isTexts), ...Object.keys(kept)]),
      ].sort(),
    };
    // The last token of an account refuses everybody: no other key follows.
    const step = isEnd
      ? { ...state, renews: { signing: false, extra: false } }
      : nextSigningStep(state, { now, drops, ended: account.spec.endedKey, ...laterKeys(known, found) });
    if (step.renews.signing) made[BUS_KEYS.signing] = await newSeed();
    if (step.renews.extra) made[BUS_KEYS.extra] = await newSeed();
    for (const name of [BUS_KEYS.retiring, BUS_KEYS.kept, BUS_KEYS.formerKeys]) delete made[name];
    if (step.retiring) made[BUS_KEYS.retiring] = JSON.stringify(step.retiring);
    if (step.kept.length > 0) made[BUS_KEYS.kept] = JSON.stringify(step.kept);
    if (step.former) made[BUS_KEYS.formerKeys] = JSON.stringify(step.former);
    const { spec: rule } = rules.ofAccount(account);
    // Nothing is known that the account may do.
    if (!rule && !former) return undefined;
    const ruled = accountClaims({
      operator: signer.key,
      key,
      name: accountNameOf(account),
      rule: rule ?? {},
      revocations: step.revocations,
      signingKeys: trustedKeys({
        ...step,
        signing: publicKeyOf(BUS_KEYS.signing),
        extra: publicKeyOf(BUS_KEYS.extra),
      }),
      iat: Math.max(nextIat(now, former), (lost?.issuedAt ?? 0) + 1),
    });
    if (lost) made[BUS_KEYS.renewed] = String(ruled.iat);
    const claims = rule || !former ? ruled : withGrantOf(former, ruled);
    if (former && former === known && isSameToken(former, claims)) return made;
    return { ...made, [BUS_KEYS.token]: await signJwt(claims, signer.seed) };
  }

  const write = (
    account: BusAccount,
    change: (counting: Counting) => Promise<BusTexts | undefined>,
    signal: AbortSignal,
  ): Promise<BusTexts | undefined> =>
    secrets.write(
      { of: 'account', name: nameOf(account), owner: account },
      async (stored) => change(await countIn(account, stored, signal)),
      signal,
    );

  /**
   * Has the account refuse these users from now on. Callers at the same time share a write. Resolves once the Secret says so; an
   * account without a token has nothing to refuse.
   */
  async function refuse(account: BusAccount, revocations: RefusedUsers, signal: AbortSignal): Promise<void> {
    const key = nameOf(account);
    const joined = waiting.get(key);
    if (joined) {
      joined.revocations.push(revocations);
      return joined.done;
    }
    const batch: Waiting = { revocations: [revocations], done: Promise.resolve() };
    waiting.set(key, batch);
    batch.done = (async () => {
      // Users whose reconciles begin now join.
      await new Promise((resolve) => setImmediate(resolve));
      waiting.delete(key);
      const all = merged([replaced.get(key) ?? {}, ...batch.revocations]);
      replaced.delete(key);
      await write(
        account,
        async (counting) => (counting.present[BUS_KEYS.token] ? next(account, counting, all) : undefined),
        signal,
      );
    })();
    return batch.done;
  }

  const keysOf = (account: BusAccount): AccountKeys | undefined => keysIn(read(account).texts);

  return {
    read,
    /** undefined while the account has no token */
    keysOf,
    /** Makes the account have a token by its rule, of the present operator. */
    keep: (account: BusAccount, signal: AbortSignal) =>
      write(account, (counting) => next(account, counting, {}), signal),
    /** Ends the keys that signed users before, with all that was revoked of them. */
    dropRetiring: (account: BusAccount, signal: AbortSignal) =>
      write(account, (counting) => next(account, counting, {}, { drops: true }), signal),
    revoke: refuse,
    /**
     * Has the account refuse keys of users that others replaced. While it is not the turn of the account, these keys are added to its next token, and
     * the result is the time in ms until the caller looks again; undefined: the account refuses them.
     */
    async revokeReplaced(
      account: BusAccount,
      revocations: RefusedUsers,
      signal: AbortSignal,
    ): Promise<number | undefined> {
      if (refuses(keysOf(account)?.token, revocations)) return undefined;
      const key = nameOf(account);
      if (turns.take(key)) {
        await refuse(account, revocations, signal);
        return undefined;
      }
      replaced.set(key, merged([replaced.get(key) ?? {}, revocations]));
      return turns.waitMs(key);
    },
    /**
     * Signs the token of an account anew, later than these and with their revocations: servers have them, and the datastore, which
     * may have been restored, does not. Tokens of another key say nothing.
     */
    async adopt(account: BusAccount, found: readonly BusClaims[], signal: AbortSignal): Promise<void> {
      await write(
        account,
        async (counting) =>
          counting.present[BUS_KEYS.token] ? next(account, counting, {}, { adopts: found }) : undefined,
        signal,
      );
    },
    /** Whether the account refuses everybody with a token of that time (Unix s). */
    refusesUntil: (account: BusAccount, time: number): boolean =>
      (keysIn(read(account).texts)?.token.nats.revocations?.[EVERYBODY] ?? 0) >= time,
    /**
     * Has the account refuse everybody: those who have a token of it, by the greatest time in one of them (Unix s). The account of the
     * servers of the hub does not: it is made again with the same key, and nobody would be let in who could bring servers its next token.
     */
    async end(account: BusAccount, latest: number, signal: AbortSignal): Promise<void> {
      if (isOfHub(account)) return;
      await write(
        account,
        async (counting) =>
          counting.present[BUS_KEYS.token] || counting.lost
            ? next(account, counting, { delivered: { [EVERYBODY]: latest } }, { isEnd: true })
            : undefined,
        signal,
      );
    },
    /**
     * Keeps the last token of an account that ends, for servers that do not have it yet, and nothing that could sign another one.
     * The Secret has no owner from then on. Of the account of the servers of the hub nothing is kept.
     */
    async bury(account: BusAccount, signal: AbortSignal): Promise<void> {
      if (isOfHub(account)) return secrets.remove('account', nameOf(account), signal);
      const ended = String(clock());
      const change = async ({ [BUS_KEYS.token]: token, [BUS_KEYS.ended]: at = ended }: BusTexts) =>
        token === undefined ? undefined : { [BUS_KEYS.token]: token, [BUS_KEYS.ended]: at };
      await secrets.write({ of: 'account', name: nameOf(account) }, change, signal);
    },
  };
}

/** The claims with what a former token grants: its rule cannot be read any more, and users are revoked all the same. */
function withGrantOf(former: BusClaims, claims: BusClaims): BusClaims {
  const { revocations: _r, signing_keys: _s, ...granted } = former.nats;
  const { revocations, signing_keys } = claims.nats;
  return {
    ...claims,
    nats: { ...granted, ...(revocations && { revocations }), ...(signing_keys !== undefined && { signing_keys }) },
  };
}

/** The signing keys in the latest token of an account that servers have, where it is later than the known one. */
function laterKeys(known: BusClaims | undefined, found: readonly BusClaims[]): { servers?: readonly string[] } {
  const latest = found.reduce<BusClaims | undefined>(
    (last, token) => (last && last.iat >= token.iat ? last : token),
    undefined,
  );
  if (!known || !latest || latest.iat <= known.iat) return {};
  const { signing_keys } = latest.nats;
  return { servers: isTexts(signing_keys) ? (signing_keys as readonly string[]) : [] };
}
