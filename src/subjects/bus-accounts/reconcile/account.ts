import type { BusAccount } from '../../../api/v3/bus-account.ts';
import type { Application, BusAccountRule } from '../../../api/v3/index.ts';
import { changesMoreThanStatus } from '../../../controllers/change-filter.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { createKindController } from '../../../controllers/kind.ts';
import { holderIn } from '../../../datastore/holder.ts';
import type { UserIndex } from '../../../datastore/use.ts';
import { both, type Controller, keyOf, refOf, watching } from '../../../kube/mod.ts';
import { TAKEN_ACCOUNT_NAMES } from '../../../rules/bus-accounts.ts';
import type { Findings, Progress } from '../../../rules/conditions.ts';
import { stalled } from '../../../rules/conditions.ts';
import { uuidOf } from '../../../rules/identity.ts';
import { namesShown } from '../../../rules/kind-status.ts';
import { v3Name } from '../../../rules/names.ts';
import { decodeToken } from '../../bus-rules/rules/tokens/decode.ts';
import { KINDS, RESOURCES } from '../../kinds.ts';
import { accessAskedBy } from '../rules/access.ts';
import { accountNameOf } from '../rules/account.ts';
import { accountSecretName, BUS_KEYS, operatorSecretName, userSecretName, uuidInName } from '../rules/secret.ts';
import { MOST_KEPT_REVOCATIONS, mayHoldFormer } from '../rules/signing-keys.ts';
import { isDelivered } from '../rules/user.ts';
import type { BusParts } from './parts.ts';
import { missingRule } from './rules.ts';

const kind = KINDS.busAccounts;
/** While users get another signing key, the end of the former one is looked for as often as this. */
const RETIRING_MS = 2_000;

/** BusAccount: its key, and its token, which says what the account may do and which users it refuses. */
export function createAccountController(
  deps: ControllerDependencies,
  { secrets, tokens, rules, operator, handOver }: BusParts,
): Controller {
  const { stores, client, clock } = deps;

  const applicationOf = ({ spec: { application } }: BusAccount): Application | undefined =>
    application === undefined
      ? undefined
      : holderIn(KINDS.applications, stores.applications.byIndex('name', application), 'name', application);

  /** The application that asks for the account. */
  function askerOf(account: BusAccount): Application | undefined {
    const application = applicationOf(account);
    return application && accessAskedBy(application) ? application : undefined;
  }

  const use: UserIndex<BusAccount> = {
    isUsed: (account) => deps.platform.isBusEnabled && askerOf(account) !== undefined,
    isUsedBySystem: () => false,
    users(account) {
      const application = askerOf(account);
      return application ? [`application ${v3Name(application)}`] : [];
    },
    first: (account) => ({ named: use.users(account), more: 0 }),
  };

  const usersOf = (account: BusAccount) => stores.busUsers.byIndex('account', accountNameOf(account));

  /** A name that belongs to an account of the system. */
  const isTakenName = (account: BusAccount) =>
    account.spec.system === undefined && TAKEN_ACCOUNT_NAMES.includes(accountNameOf(account));

  /** Another object has the name. */
  const isRival = (account: BusAccount) => {
    const name = accountNameOf(account);
    return (
      holderIn(kind, stores.busAccounts.byIndex('name', name), 'name', name)?.metadata.uid !== account.metadata.uid
    );
  };

  const isIdle = (account: BusAccount) =>
    isTakenName(account) || isRival(account) || !deps.platform.isBusEnabled || tokens.read(account).isTaken;

  async function prepare(account: BusAccount, signal: AbortSignal): Promise<void> {
    if (account.metadata.deletionTimestamp || isIdle(account)) return;
    const retiring = tokens.keysOf(account)?.retiring;
    if (retiring && !isAwaited(account, retiring.keys)) await tokens.dropRetiring(account, signal);
    else await tokens.keep(account, signal);
  }

  /** Whether users have tokens that one of these keys signed, or their machines may. */
  const isAwaited = (account: BusAccount, keys: readonly string[]) =>
    usersOf(account).some((user) => {
      const { texts } = secrets.read('user', userSecretName(uuidOf(user)));
      const token = decodeToken(texts[BUS_KEYS.token] ?? '');
      if (!token || !isDelivered(user, account.spec.system !== undefined)) return false;
      return keys.includes(token.iss) || !handOver.isDone(user, token.iat);
    });

  /** Refuses everybody first: a server that lost the account would keep their connections. Ends after its users. */
  async function release(account: BusAccount, signal: AbortSignal): Promise<'later' | undefined> {
    const users = usersOf(account);
    const times = users.map((user) => user.status?.issuedAt ?? 0);
    // Users see to it themselves that their tokens are not later.
    await tokens.end(account, Math.max(1, ...times), signal);
    for (const user of users)
      if (!user.metadata.deletionTimestamp) await client.delete(RESOURCES.busUsers, refOf(user), { signal });
    if (usersOf(account).length > 0) return 'later';
    await tokens.bury(account, signal);
    return undefined;
  }

  function obstacle(account: BusAccount): Progress | undefined {
    if (!deps.platform.isBusEnabled)
      return stalled({ reason: 'BusDisabled', message: 'the message bus is off (BUS_ENABLED of the controller)' });
    if (isTakenName(account))
      return stalled({
        reason: 'NameReserved',
        message: `the name "${accountNameOf(account)}" belongs to an account of the system: give the application another name`,
      });
    if (account.spec.application !== undefined && !applicationOf(account))
      return stalled({
        reason: 'ApplicationNotFound',
        message: `there is no application ${JSON.stringify(account.spec.application)}`,
      });
    if (tokens.read(account).isTaken)
      return stalled({
        reason: 'SecretTaken',
        message: `the Secret ${accountSecretName(uuidOf(account))} exists and belongs to something else: delete it`,
      });
    const keys = tokens.keysOf(account);
    const rule = rules.ofAccount(account);
    if (!rule.spec)
      return stalled({
        reason: 'BusRuleInvalid',
        message: `the rule "${rule.name}" cannot be used, as its condition Ready says: the last valid form of it applies`,
      });
    if (!keys) return { is: 'working', reason: 'BusKeyPending', message: 'its key is being made' };
    return undefined;
  }

  /** Names the users whose credentials end with the former keys of their account, and says how to end them. */
  function outdated(account: BusAccount): Findings {
    const former = isIdle(account) ? undefined : tokens.keysOf(account)?.former;
    if (!former) return {};
    const isOfSystem = account.spec.system !== undefined;
    const users = usersOf(account).filter(
      (user) =>
        !isDelivered(user, isOfSystem) &&
        !(Date.parse(user.spec.expiresAt ?? '') <= clock()) &&
        mayHoldFormer(former, user.metadata.creationTimestamp),
    );
    const patch = JSON.stringify({ spec: { endedKey: former.keys[0] } });
    const end = `kubectl patch ${kind.definition.singular} ${account.metadata.name} --type merge -p '${patch}'`;
    // The order comes first, since a long message is cut.
    const message =
      users.length === 0
        ? `nobody has credentials that a former key signed: end it with ${end}`
        : `a former key ends at ${MOST_KEPT_REVOCATIONS} revocations, or with ${end}: before, fetch the credentials again of ${namesShown(users.map(v3Name))}`;
    return { CredentialsOutdated: { status: 'True', reason: 'FormerKeyTrusted', message } };
  }

  return createKindController(deps, kind, {
    prepare,
    release,
    use,
    obstacle,
    conditions: (account) => ({
      ...outdated(account),
      ...(!isIdle(account) && missingRule('BusAccountRule', account.spec.rule, rules.ofAccount(account))),
    }),
    next: (account) => (tokens.keysOf(account)?.retiring ? clock() + RETIRING_MS : undefined),
    status(account) {
      const keys = isIdle(account) ? undefined : tokens.keysOf(account);
      if (!keys) return {};
      return {
        publicKey: keys.key,
        issuedAt: keys.token.iat,
        revocations: Object.keys(keys.token.nats.revocations ?? {}).length,
        rule: rules.ofAccount(account).name,
      };
    },
    watches: [
      watching(stores.secrets, ({ object: { metadata }, initial }) => {
        if (initial) return [];
        // Another operator signs all of them.
        if (metadata.name === operatorSecretName())
          return operator.signer() ? Array.from(stores.busAccounts.list(), keyOf) : [];
        const uuid = uuidInName('account', metadata.name);
        return uuid === undefined ? [] : stores.busAccounts.byIndex('uuid', uuid).map(keyOf);
      }),
      watching(stores.busAccountRules, (change) =>
        changesMoreThanStatus(change)
          ? both((rule: BusAccountRule) => stores.busAccounts.byIndex('rule', v3Name(rule)).map(keyOf))(change)
          : [],
      ),
      watching(stores.busUsers, ({ object, type }) =>
        type === 'delete'
          ? stores.busAccounts
              .byIndex('name', object.spec.account)
              .filter((account) => account.metadata.deletionTimestamp || hasFormerKeys(account))
              .map(keyOf)
          : [],
      ),
      watching(stores.applications, (change) =>
        changesMoreThanStatus(change) && !change.initial
          ? both((application: Application) => stores.busAccounts.byIndex('name', v3Name(application)).map(keyOf))(
              change,
            )
          : [],
      ),
    ],
  });
}

const hasFormerKeys = ({ status }: BusAccount): boolean =>
  status?.conditions?.some(({ type }) => type === 'CredentialsOutdated') === true;
