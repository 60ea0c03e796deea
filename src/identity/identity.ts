import { ANNOTATIONS, IDENTITY_SECRETS, LABELS } from '../api/names.ts';
import { CORE_RESOURCES, type Secret } from '../api/resources.ts';
import type { AuthGroup } from '../api/v3/auth-group.ts';
import type { AuthPolicy } from '../api/v3/auth-policy.ts';
import type { AuthUser } from '../api/v3/auth-user.ts';
import { HttpError } from '../http/http-error.ts';
import type { KubeClient } from '../kube/client.ts';
import type { KubeMetrics } from '../kube/metrics.ts';
import { startReflector } from '../kube/reflector.ts';
import { createStore, type MutableStore, type Store } from '../kube/store.ts';
import { type Clock, systemClock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { v3Name } from '../rules/names.ts';
import { type Duties, mustEnroll } from '../subjects/identity/rules/duties.ts';
import { AUTH_POLICY, type LoginPolicy, loginPolicy } from '../subjects/identity/rules/policy.ts';
import { createArtefacts } from './artefacts.ts';
import { type BootstrapOptions, bootstrap, forgetGeneratedPassword } from './bootstrap.ts';
import { createPasswordChange } from './change-password.ts';
import type { LoginFacts } from './contract/facts.ts';
import type { SigningKeys } from './contract/keys.ts';
import type { LoginFigures, LoginMetrics } from './contract/metrics.ts';
import type { Artefacts, Once } from './contract/once.ts';
import type { LoginEvents, Strangers } from './contract/strangers.ts';
import type { TokenIssuer, TokenVerifier } from './contract/tokens.ts';
import type {
  AccountLockout,
  PasswordChange,
  Passwords,
  SecondFactor,
  StoredUser,
  UserStore,
} from './contract/users.ts';
import { createKeys, type KeysOptions } from './keys.ts';
import { createLeftBindings } from './left-bindings.ts';
import { createLockout } from './lockout.ts';
import { createOnce } from './once.ts';
import { createPasswords } from './passwords.ts';
import { createSecondFactor } from './second-factor.ts';
import { factsOf } from './secrets.ts';
import { createStrangers } from './strangers.ts';
import { createTokens } from './tokens.ts';
import { createUserStore } from './user-store.ts';
import { createTokenVerifier } from './verifier.ts';

export interface IdentityOptions {
  client: KubeClient;
  namespace: string;
  stores: { authUsers: Store<AuthUser>; authGroups: Store<AuthGroup>; authPolicies: Store<AuthPolicy> };
  /** URL of the provider, which tokens name */
  issuer: string;
  /** client of the provider, which tokens are for */
  audience: string;
  /** of names in role bindings */
  prefix: string;
  /** values of the environment in place of generated ones */
  given: KeysOptions['given'];
  /** TTLs of the environment, where the AuthPolicy says nothing */
  ttls: Pick<Partial<LoginPolicy>, 'accessTokenTtlSeconds' | 'refreshTokenTtlSeconds'>;
  bootstrap: Pick<BootstrapOptions, 'given' | 'maySayPassword'>;
  events: LoginEvents;
  /** the datastore may have been restored while no replica ran: every login of before ends */
  mayBeRestored?: boolean;
  /** active replicas, this one included */
  replicas(): number;
  log: Log;
  metrics?: KubeMetrics & LoginMetrics;
  clock?: Clock;
  /** Unix ms */
  now?(): number;
}

/** Users and logins of this process. */
export interface Logins {
  users: UserStore;
  passwords: Passwords;
  passwordChange: PasswordChange;
  keys: SigningKeys;
  tokens: TokenIssuer;
  verifier: TokenVerifier;
  lockout: AccountLockout;
  secondFactor: SecondFactor;
  artefacts: Artefacts;
  once: Once;
  strangers: Strangers;
  events: LoginEvents;
  policy(): LoginPolicy;
  duties(user: Dutiful): Duties;
  /** what statuses of users say of their logins */
  facts: LoginFacts;
  /** Ends every login: the datastore was restored from a snapshot. Resolves when that is written; never rejects. */
  restored(signal: AbortSignal): Promise<void>;
  figures(): LoginFigures;
  /** Follows the Secrets, and makes what the first start needs. Returns when the signal aborts; never rejects. */
  run(signal: AbortSignal): Promise<void>;
}

/** What decides the duties of a user. */
type Dutiful = Pick<StoredUser, 'isBootstrap' | 'groups' | 'mfaEnabled' | 'mustChangePassword'>;

export function createIdentity(options: IdentityOptions): Logins {
  const { client, namespace, stores, issuer, audience, prefix, given, ttls, events, log } = options;
  const { clock = systemClock, now = Date.now } = options;
  const secrets = createStore<Secret>({
    resource: CORE_RESOURCES.secrets,
    selection: { namespace, labels: { [LABELS.identity]: 'user' }, metadataOnly: true },
    log,
  });
  const keySecret = createStore<Secret>({
    resource: CORE_RESOURCES.secrets,
    selection: { namespace, name: IDENTITY_SECRETS.keys },
    log,
  });
  const interactions = createStore<Secret>({
    resource: CORE_RESOURCES.secrets,
    selection: {
      namespace,
      labels: { [LABELS.identity]: 'artefact', [LABELS.artefactModel]: 'Interaction' },
      metadataOnly: true,
    },
    log,
  });
  const policy = () => loginPolicy(stores.authPolicies.get(namespace, AUTH_POLICY), ttls);
  const keys = createKeys({
    client,
    namespace,
    store: keySecret,
    given,
    longestTokenMs: () => 1000 * Math.max(policy().refreshTokenTtlSeconds, policy().accessTokenTtlSeconds),
    now,
  });
  const users = createUserStore({
    client,
    namespace,
    users: stores.authUsers,
    groups: stores.authGroups,
    secrets,
    left: createLeftBindings({ client, prefix }),
    now,
  });
  const artefacts = createArtefacts({
    ...{ client, namespace, now },
    notBefore: () => keys.sessionsNotBefore,
    interactions: () => interactions.size,
  });
  const metrics = options.metrics && { metrics: options.metrics };
  const passwords = createPasswords({ policy, ...metrics });
  const strangers = createStrangers({ clock, replicas: options.replicas });

  const asksForMfa = (name: string) =>
    [...stores.authGroups.byIndex('name', name)].some((group) => v3Name(group) === name && group.spec.mfaRequired);
  const duties = (user: Dutiful): Duties => ({
    isExempt: user.isBootstrap && policy().bootstrapExemptFromMfa,
    mfaRequired: user.groups.some(asksForMfa),
    mfaEnabled: user.mfaEnabled,
    mustChangePassword: user.mustChangePassword,
  });
  const tokens = createTokens({
    ...{ issuer, audience, keys, users, policy, events, now, ...metrics },
    duty: (user) => (mustEnroll(duties(user)) ? enrollmentRequired() : undefined),
    endBrowserSessions: artefacts.ofAccount,
  });

  return {
    users,
    passwords,
    passwordChange: createPasswordChange({
      ...{ users, passwords, now },
      endAll: (uuid, signal) => tokens.endAll(uuid, 'password', signal),
    }),
    keys,
    tokens,
    verifier: createTokenVerifier({ issuer, audience, keys, users, prefix, presentGroup: users.presentGroup, now }),
    lockout: createLockout({ users, policy, strangers, events, now, ...metrics }),
    secondFactor: createSecondFactor({ users, now }),
    artefacts,
    once: createOnce({ client, namespace, now }),
    strangers,
    events,
    policy,
    duties,
    facts: {
      facts(uuid) {
        const facts = users.facts(uuid);
        return facts && { duties: duties(facts), passwordAt: facts.passwordAt, lockedUntil: facts.lockedUntil };
      },
      whenSynced: (signal) => secrets.whenSynced(signal),
      subscribe: (listener) =>
        secrets.subscribe(({ object, previous }) => {
          const uuid = object.metadata.labels?.[LABELS.uuid];
          if (uuid !== undefined && factsText(object) !== (previous && factsText(previous))) listener(uuid);
        }),
    },
    restored: endLogins,
    figures: () => ({
      hasFirstPassword: secrets.list().some((secret) => {
        const { bootstrap = false, mustChange = false } = factsOf(secret) ?? {};
        return bootstrap && mustChange;
      }),
      interactions: artefacts.interactions,
      sessions: secrets.list().reduce((sum, secret) => sum + (factsOf(secret)?.sessions ?? 0), 0),
      ...(keys.signsFrom !== undefined && { signingKeySeconds: Math.max(0, now() - keys.signsFrom) / 1000 }),
    }),
    async run(signal) {
      const follow = { client, log, ...metrics };
      // Before the Secrets are read: until then no refresh is answered.
      if (options.mayBeRestored) void endLogins(signal);
      using _ = client.observeWrites(CORE_RESOURCES.secrets, metadataOf(secrets));
      using __ = secrets.subscribe(({ type, object }) => {
        const facts = type === 'set' ? factsOf(object) : undefined;
        if (!facts?.bootstrap || facts.mustChange) return;
        forgetGeneratedPassword({ client, namespace }, object.metadata.labels?.[LABELS.uuid] ?? '', signal).catch(
          (err) => log.warn({ err }, 'The first password of the administrator, which has changed, is still stored'),
        );
      });
      await using reflectors = new AsyncDisposableStack();
      for (const store of [secrets, keySecret, interactions])
        reflectors.use(startReflector({ ...follow, store }, signal));
      await persist(keys.ensure, 'The keys of logins are not made yet', signal);
      await bootstrap(
        { client, namespace, users, groups: stores.authGroups, passwords, policy, log, ...options.bootstrap },
        signal,
      );
      if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    },
  };

  function endLogins(signal: AbortSignal): Promise<void> {
    log.warn({}, 'Every login of before ends: the datastore was restored from a backup, or no replica ran for minutes');
    return persist(keys.endSessions, 'The end of every login of before is not written yet', signal);
  }

  /** Writes the keys, again until that succeeds. */
  async function persist(write: (signal: AbortSignal) => Promise<void>, failure: string, signal: AbortSignal) {
    while (!signal.aborted) {
      try {
        return await write(signal);
      } catch (error) {
        if (signal.aborted) return;
        log.warn({ err: error }, `${failure}; the controller tries again`);
        await new Promise<void>((resolve) => clock.after(KEYS_RETRY_MS, resolve));
      }
    }
  }
}

const factsText = ({ metadata }: Secret) => metadata.annotations?.[ANNOTATIONS.identityFacts];

const KEYS_RETRY_MS = 2_000;

const enrollmentRequired = () =>
  new HttpError(
    401,
    'MFA_ENROLLMENT_REQUIRED',
    'a group of this user asks for a second factor: enrol one by a login in the browser',
  );

/** Own writes for a store that has metadata alone: the content of a Secret never gets into it. */
const metadataOf = (store: MutableStore<Secret>) => ({
  observe: ({ apiVersion, kind, metadata }: Secret) => store.observe({ apiVersion, kind, metadata }),
  observeGone: store.observeGone.bind(store),
});
