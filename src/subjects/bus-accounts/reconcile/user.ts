import type { BusAccount } from '../../../api/v3/bus-account.ts';
import type { BusUser } from '../../../api/v3/bus-user.ts';
import type { Application, BusAccountRule, BusUserRule, BusUserRuleSpec } from '../../../api/v3/index.ts';
import { changesMoreThanStatus } from '../../../controllers/change-filter.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { createKindController } from '../../../controllers/kind.ts';
import { holderIn } from '../../../datastore/holder.ts';
import type { UserIndex } from '../../../datastore/use.ts';
import { both, type Controller, keyOf, watching } from '../../../kube/mod.ts';
import type { Progress } from '../../../rules/conditions.ts';
import { stalled } from '../../../rules/conditions.ts';
import { uuidOf } from '../../../rules/identity.ts';
import { v3Name } from '../../../rules/names.ts';
import { onceEach } from '../../../rules/once-each.ts';
import { compareTexts } from '../../../rules/precedence.ts';
import { makeNkey, publicNkey, signJwt } from '../../../signer/nkeys.ts';
import { type BusClaims, userClaims } from '../../bus-rules/rules/tokens/claims.ts';
import { credentials } from '../../bus-rules/rules/tokens/credentials.ts';
import { decodeToken } from '../../bus-rules/rules/tokens/decode.ts';
import { isSameToken, nextIat } from '../../bus-rules/rules/tokens/lineage.ts';
import { KINDS } from '../../kinds.ts';
import { accessAskedBy } from '../rules/access.ts';
import { accountNameOf, accountRuleOf } from '../rules/account.ts';
import { mqttProblem } from '../rules/mqtt.ts';
import { BUS_KEYS, type BusTexts, parsedText, userSecretName, uuidInName } from '../rules/secret.ts';
import { grantOf, isDelivered, isForeignUser } from '../rules/user.ts';
import type { AccountKeys } from './account-tokens.ts';
import type { BusParts } from './parts.ts';
import { missingRule } from './rules.ts';
import type { BusSecret } from './secrets.ts';

const kind = KINDS.busUsers;

type Former = Readonly<Record<string, number>>;
/** Texts of a store never change: each token is read once. */
const tokenIn = onceEach((texts: BusTexts) => decodeToken(texts[BUS_KEYS.token] ?? ''));
const ownKeyIn = onceEach((texts: BusTexts) => publicNkey(texts[BUS_KEYS.seed] ?? ''));
const isFormer = (value: unknown) =>
  typeof value === 'object' && value !== null && Object.values(value).every((time) => typeof time === 'number');

/**
 * BusUser: its key, its token and its credentials. Another rule gives it another key, and its account refuses the former one once
 * the machine has the new credentials.
 */
export function createUserController(
  deps: ControllerDependencies,
  { secrets, tokens, rules, handOver }: BusParts,
): Controller {
  const { stores, clock } = deps;
  /** Unix ms of the next token of an account, by the uid of a user whose former key it is to refuse */
  const turns = new Map<string | undefined, number>();
  /** what the present run of a user wrote, which the store may not show yet */
  const written = new WeakMap<BusUser, BusTexts>();
  function secretOf(user: BusUser): BusSecret {
    const secret = secrets.read('user', userSecretName(uuidOf(user)));
    return { ...secret, texts: written.get(user) ?? secret.texts };
  }

  const accountOf = ({ spec: { account } }: BusUser): BusAccount | undefined =>
    holderIn(KINDS.busAccounts, stores.busAccounts.byIndex('name', account), 'name', account);

  /** The application whose microservice the user is for, while that asks for it. */
  function askerOf(user: BusUser): Application | undefined {
    const { microserviceUuid, account } = user.spec;
    if (microserviceUuid === undefined) return undefined;
    return stores.applications
      .byIndex('microservice', microserviceUuid)
      .find(
        (application) =>
          v3Name(application) === account &&
          accessAskedBy(application)?.users.some(
            (asked) => asked.microserviceUuid === microserviceUuid && asked.name === v3Name(user),
          ),
      );
  }

  const use: UserIndex<BusUser> = {
    isUsed: (user) => deps.platform.isBusEnabled && askerOf(user) !== undefined,
    isUsedBySystem: () => false,
    users(user) {
      const application = askerOf(user);
      return application ? [`microservice ${v3Name(application)}/${v3Name(user)}`] : [];
    },
    first: (user) => ({ named: use.users(user), more: 0 }),
  };

  const formerIn = (texts: BusTexts): Former => parsedText<Former>(texts[BUS_KEYS.former], {}, isFormer);

  function claimsOf(
    user: BusUser,
    rule: BusUserRuleSpec,
    account: { keys: AccountKeys; object: BusAccount },
    key: string,
    iat: number,
  ): BusClaims {
    const { keys, object } = account;
    const { isBearer, expiresAt } = user.spec;
    return userClaims({
      account: keys.key,
      issuer: isDelivered(user, object.spec.system !== undefined) ? keys.signing.key : keys.extra.key,
      key,
      name: v3Name(user),
      rule: grantOf(rule, user, object),
      isBearer: isBearer ?? false,
      iat,
      ...(expiresAt !== undefined && { exp: Math.floor(Date.parse(expiresAt) / 1_000) }),
    });
  }

  async function next(
    user: BusUser,
    account: { keys: AccountKeys; object: BusAccount },
    present: BusTexts,
  ): Promise<BusTexts | undefined> {
    const { keys } = account;
    const decoded = tokenIn(present);
    const ownSeed = present[BUS_KEYS.seed];
    const former = ownSeed !== undefined && decoded?.sub === ownKeyIn(present) ? decoded : undefined;
    const iat = nextIat(Math.floor(clock() / 1_000), former);
    const seedOf = (issuer: string) => (issuer === keys.extra.key ? keys.extra.seed : keys.signing.seed);
    const signed = async (seed: string, claims: BusClaims, more: BusTexts = {}): Promise<BusTexts> => {
      const jwt = await signJwt(claims, seedOf(claims.iss));
      return {
        [BUS_KEYS.seed]: seed,
        [BUS_KEYS.token]: jwt,
        [BUS_KEYS.creds]: credentials(jwt, seed),
        ...(present[BUS_KEYS.former] !== undefined && { [BUS_KEYS.former]: present[BUS_KEYS.former] }),
        ...more,
      };
    };
    const { spec: rule } = rules.ofUser(user);
    if (!rule) return former ? present : undefined;
    if (former && ownSeed !== undefined) {
      const same = claimsOf(user, rule, account, former.sub, iat);
      if (isSameToken(former, same)) return present;
      // Another key of the account signs it: the user is the same.
      const { issuer_account: _, ...grant } = former.nats;
      const { issuer_account } = same.nats;
      const resigned = { ...former, iss: same.iss, nats: { ...grant, ...(issuer_account && { issuer_account }) } };
      if (isSameToken(resigned as BusClaims, same)) return signed(ownSeed, same);
    }
    const { publicKey, seed } = await makeNkey('user');
    const claims = claimsOf(user, rule, account, publicKey, iat);
    const revokes = { ...formerIn(present), ...formerOf(user, former, keys.key) };
    const hasFormer = Object.keys(revokes).length > 0;
    return signed(seed, claims, hasFormer ? { [BUS_KEYS.former]: JSON.stringify(revokes) } : {});
  }

  /** The key that another one replaces, as its token or, where the Secret is lost, the status has it. Another account never knew it. */
  function formerOf({ status }: BusUser, token: BusClaims | undefined, account: string): Former {
    if (token) return [token.iss, token.nats.issuer_account].includes(account) ? { [token.sub]: token.iat } : {};
    const { publicKey, issuedAt } = status ?? {};
    return publicKey !== undefined && issuedAt !== undefined ? { [publicKey]: issuedAt } : {};
  }

  const revocations = (user: BusUser, object: BusAccount, keys: Former) =>
    isDelivered(user, object.spec.system !== undefined) ? { delivered: keys } : { kept: keys };

  async function prepare(user: BusUser, signal: AbortSignal): Promise<void> {
    turns.delete(user.metadata.uid);
    written.delete(user);
    const object = accountOf(user);
    const keys = object && tokens.keysOf(object);
    if (!object || !keys || user.metadata.deletionTimestamp || !deps.platform.isBusEnabled) return;
    if (isEnding(object) || isForeignUser(user, object) || holder(user) !== user.metadata.uid) return;
    const write = { of: 'user' as const, name: userSecretName(uuidOf(user)), owner: user };
    const texts = await secrets.write(write, (present) => next(user, { keys, object }, present), signal);
    if (texts) written.set(user, texts);
    const former = texts ? formerIn(texts) : {};
    if (Object.keys(former).length === 0) return handOver.forget(user);
    const issuedAt = (texts && tokenIn(texts))?.iat ?? 0;
    if (!handOver.isDone(user, issuedAt)) return;
    const waitMs = await tokens.revokeReplaced(object, revocations(user, object, former), signal);
    if (waitMs !== undefined) return void turns.set(user.metadata.uid, clock() + waitMs);
    await secrets.write(
      write,
      async (present) => {
        // Keys that were replaced meanwhile are revoked by the next run.
        const left = Object.entries(formerIn(present)).filter(([key]) => !(key in former));
        const { [BUS_KEYS.former]: _, ...rest } = present;
        return left.length > 0 ? { ...rest, [BUS_KEYS.former]: JSON.stringify(Object.fromEntries(left)) } : rest;
      },
      signal,
    );
    handOver.forget(user);
  }

  const holder = (user: BusUser) => {
    const name = kind.identity.name?.(user) ?? '';
    return holderIn(kind, stores.busUsers.byIndex('name', name), 'name', name)?.metadata.uid;
  };

  /** Revokes the user before its end; an account that ends refuses everybody. */
  async function release(user: BusUser, signal: AbortSignal): Promise<void> {
    turns.delete(user.metadata.uid);
    const object = accountOf(user);
    const { texts } = secretOf(user);
    const token = tokenIn(texts);
    if (object && token && isEnding(object)) {
      if (!tokens.refusesUntil(object, token.iat)) await tokens.end(object, token.iat, signal);
    } else if (object && token)
      await tokens.revoke(object, revocations(user, object, { ...formerIn(texts), [token.sub]: token.iat }), signal);
    await secrets.remove('user', userSecretName(uuidOf(user)), signal);
  }

  function obstacle(user: BusUser): Progress | undefined {
    if (!deps.platform.isBusEnabled)
      return stalled({ reason: 'BusDisabled', message: 'the message bus is off (BUS_ENABLED of the controller)' });
    const object = accountOf(user);
    if (!object || isEnding(object))
      return stalled({
        reason: 'BusAccountNotFound',
        message: `there is no bus account ${JSON.stringify(user.spec.account)}`,
      });
    if (isForeignUser(user, object))
      return stalled({
        reason: 'BusUserOfSystem',
        message:
          'the controller alone makes users of nodes and of accounts of the system: this one gets no key, delete it',
      });
    const { isTaken, name, texts } = secretOf(user);
    if (isTaken)
      return stalled({
        reason: 'SecretTaken',
        message: `the Secret ${name} exists and belongs to something else: delete it`,
      });
    const rule = rules.ofUser(user);
    if (!rule.spec)
      return stalled({
        reason: 'BusRuleInvalid',
        message: `the rule "${rule.name}" cannot be used, as its condition Ready says: the last valid form of it applies`,
      });
    const account = rules.ofAccount(object);
    const wrong = user.spec.isBearer && account.spec ? mqttProblem(account.spec) : undefined;
    if (wrong)
      return stalled({
        reason: 'BusMqttNotPossible',
        message: `${wrong.field}: the rule "${account.name}" of the account ${wrong.problem}`,
      });
    if (!texts[BUS_KEYS.token]) return { is: 'working', reason: 'BusKeyPending', message: 'its key is being made' };
    const { expiresAt } = user.spec;
    if (expiresAt !== undefined && Date.parse(expiresAt) <= clock())
      return stalled({
        reason: 'BusUserExpired',
        message: `its token ended at ${expiresAt}: delete it, and create another one`,
      });
    return undefined;
  }

  return createKindController(deps, kind, {
    prepare,
    release,
    use,
    obstacle,
    conditions: (user) =>
      deps.platform.isBusEnabled ? missingRule('BusUserRule', user.spec.rule, rules.ofUser(user)) : {},
    next(user, began) {
      const { expiresAt } = user.spec;
      const end = expiresAt === undefined ? undefined : Date.parse(expiresAt);
      const times = [
        end !== undefined && end > began ? end : undefined,
        turns.get(user.metadata.uid) ?? handOver.dueAt(user),
      ];
      const ahead = times.filter((time) => time !== undefined);
      return ahead.length > 0 ? Math.min(...ahead) : undefined;
    },
    status(user) {
      const token = tokenIn(secretOf(user).texts);
      return token ? { publicKey: token.sub, issuedAt: token.iat, rule: rules.ofUser(user).name } : {};
    },
    watches: [
      watching(stores.secrets, ({ object, previous, initial }) => {
        if (initial) return [];
        const { name } = object.metadata;
        const user = uuidInName('user', name);
        if (user !== undefined) return secrets.isOwn(object) ? [] : stores.busUsers.byIndex('uuid', user).map(keyOf);
        const account = uuidInName('account', name);
        if (account === undefined) return [];
        // Other revocations concern no user.
        const isSameKey = SIGNERS.every((key) => object.data?.[key] === previous?.data?.[key]);
        const isFirst = !previous?.data?.[BUS_KEYS.token];
        if (isSameKey && !isFirst) return [];
        return stores.busAccounts.byIndex('uuid', account).flatMap(usersOf);
      }),
      watching(stores.busAccounts, ({ object, previous, type, initial }) => {
        if (initial) return [];
        if (
          type === 'delete' ||
          previous?.metadata.deletionTimestamp !== object.metadata.deletionTimestamp ||
          !previous
        )
          return usersOf(object);
        return accountRuleOf(previous) === accountRuleOf(object) ? [] : mqttUsersOf(object);
      }),
      // Users of MQTT alone need something of the rule of their account; it signs nobody again.
      watching(stores.busAccountRules, (change) =>
        changesMoreThanStatus(change) && !change.initial
          ? both((rule: BusAccountRule) => stores.busAccounts.byIndex('rule', v3Name(rule)).flatMap(mqttUsersOf))(
              change,
            )
          : [],
      ),
      watching(stores.busUserRules, (change) =>
        changesMoreThanStatus(change) && !change.initial
          ? [...new Set(both((rule: BusUserRule) => [v3Name(rule)])(change))].flatMap(usersByRule)
          : [],
      ),
      watching(stores.applications, (change) =>
        changesMoreThanStatus(change) && !change.initial
          ? both((application: Application) => stores.busUsers.byIndex('access', v3Name(application)).map(keyOf))(
              change,
            )
          : [],
      ),
    ],
  });

  function usersOf(account: BusAccount): readonly string[] {
    return stores.busUsers.byIndex('account', accountNameOf(account)).map(keyOf);
  }

  /** Users of one account follow each other, so that it refuses the former keys of many with one token. */
  function usersByRule(rule: string): string[] {
    const account = ({ spec }: BusUser) => spec.account;
    const users = stores.busUsers.byIndex('rule', rule);
    return users.toSorted((a, b) => compareTexts(account(a), account(b))).map(keyOf);
  }

  function mqttUsersOf(account: BusAccount): readonly string[] {
    return stores.busUsers.byIndex('mqtt', accountNameOf(account)).map(keyOf);
  }
}

const SIGNERS = [BUS_KEYS.seed, BUS_KEYS.signing, BUS_KEYS.extra] as const;
const isEnding = (account: BusAccount | undefined) => account?.metadata.deletionTimestamp !== undefined;
