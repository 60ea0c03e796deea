import { LABELS } from '../../api/names.ts';
import { RBAC_RESOURCES } from '../../api/rbac.ts';
import { CORE_RESOURCES } from '../../api/resources.ts';
import { decodeData, isOwnedBy } from '../../datastore/keyed-text.ts';
import { createLookups } from '../../datastore/lookups.ts';
import { createProvisioningKeys } from '../../datastore/provisioning-keys.ts';
import {
  allSynced,
  byKey,
  type EssentialStores,
  essentialStores,
  type Stores,
  storeOf,
} from '../../datastore/stores.ts';
import { trackUsage } from '../../datastore/usage.ts';
import { createReferences } from '../../datastore/use.ts';
import type { Verifiers } from '../../identity/contract/tokens.ts';
import type { KubeClient } from '../../kube/client.ts';
import { createReplicas } from '../../replicas/replicas.ts';
import { budgetsOf, DEFAULT_BUDGETS } from '../../rules/budget.ts';
import type { Lookups } from '../../rules/inputs.ts';
import { DEFAULT_GROUPS_PREFIX } from '../../subjects/access/rules/names.ts';
import { isShareable } from '../../subjects/content/rules/core-objects/form.ts';
import { KINDS, type Kinds } from '../../subjects/kinds.ts';
import { createDispatch } from '../access/dispatch.ts';
import { createGrants } from '../access/grants.ts';
import { createAccessReviewAuthorizer, createTokenReviewAuthenticator, type Reviewer } from '../access/reviews.ts';
import type { Authenticator, Authorizer, Grants } from '../contract/access.ts';
import type {
  KindsObjects,
  LiveObservations,
  ReadinessCheck,
  RestDependencies,
  Self,
  WriteBudgets,
} from '../contract/dependencies.ts';
import type { RestMetrics } from '../contract/limits.ts';
import { createWriteBudgets } from '../objects/budgets.ts';
import { createBusSecretReader } from './bus-secrets.ts';
import { createConfigMaps, createSecrets } from './core-objects.ts';
import { createObjects, selectorsOf } from './objects.ts';
import { createRegistryPasswords } from './registry-passwords.ts';

export interface ClusterDependenciesOptions {
  client: KubeClient;
  namespace: string;
  stores: Stores;
  kinds?: Kinds;
  lookups?: Lookups;
  ids: RestDependencies['ids'];
  observations: LiveObservations;
  self: Self;
  provisioning: RestDependencies['provisioning'];
  sentConfig?: RestDependencies['sentConfig'];
  /** that of the process, which writes what waits when it ends; one that keeps nothing when absent */
  audit?: RestDependencies['audit'];
  /** those of the process; the default ones when absent */
  budgets?: WriteBudgets;
  templates: RestDependencies['templates'];
  /** what the names of users and groups begin with in the cluster */
  groupsPrefix?: string | undefined;
  /** of bearer tokens; an empty one also accepts tokens for the API server itself */
  tokenAudience?: string;
  /** who verifies tokens that name an issuer of ours */
  issuers?: Pick<Verifiers, 'byIssuer'>;
  /** users and logins; absent: there are none */
  identity?: RestDependencies['identity'];
  metrics?: RestMetrics;
  /** Unix ms */
  clock?: RestDependencies['clock'];
  /** For tests; default: TokenReview and SubjectAccessReview. */
  authenticator?: Authenticator;
  authorizer?: Authorizer;
}

/** The core objects that REST reads at all. */
const SHAREABLE = { only: { labelSelector: `${LABELS.shareable}=true`, has: isShareable } } as const;

/** The dependencies of the REST API over the cluster. */
export function createClusterDependencies(options: ClusterDependenciesOptions): RestDependencies {
  const { client, namespace, stores, metrics, kinds = KINDS } = options;
  const rbac = {
    roles: createObjects({ client, namespace, resource: RBAC_RESOURCES.roles, store: stores.roles }),
    roleBindings: createObjects({
      client,
      namespace,
      resource: RBAC_RESOURCES.roleBindings,
      store: stores.roleBindings,
    }),
    subjects: { prefix: options.groupsPrefix ?? DEFAULT_GROUPS_PREFIX, namespace },
  };
  const reviewer: Reviewer = { post: (path, body, signal) => client.request('POST', path, body, { signal }) };
  return {
    ...(Object.fromEntries(
      Object.entries(kinds).map(([key, kind]) => [
        key,
        createObjects({
          client,
          namespace,
          resource: kind.resource,
          selects: selectorsOf(kind),
          store: storeOf(stores, kind),
        }),
      ]),
    ) as KindsObjects),
    kinds,
    references: createReferences(stores, kinds),
    secrets: createSecrets(
      createObjects({ client, namespace, ...SHAREABLE, resource: CORE_RESOURCES.secrets, store: stores.secrets }),
    ),
    configMaps: createConfigMaps(
      createObjects({ client, namespace, ...SHAREABLE, resource: CORE_RESOURCES.configMaps, store: stores.configMaps }),
    ),
    ...rbac,
    lookups: options.lookups ?? createLookups(stores),
    registryPasswords: createRegistryPasswords({ client, namespace }),
    ownedSecrets: {
      async read(owner, name, signal) {
        const secret = await client.find(CORE_RESOURCES.secrets, { namespace, name }, { signal });
        return secret && isOwnedBy(secret, owner) ? decodeData(secret.data) : undefined;
      },
    },
    busSecrets: createBusSecretReader(stores.secrets, namespace),
    provisioningKeys: createProvisioningKeys({ client, namespace, secrets: stores.secrets }),
    provisioning: options.provisioning,
    sentConfig: options.sentConfig,
    ids: options.ids,
    observations: options.observations,
    replicas: createReplicas({ client, namespace }),
    budgets:
      options.budgets ?? createWriteBudgets({ usage: trackUsage(byKey(stores)), budgets: budgetsOf(DEFAULT_BUDGETS) }),
    audit: options.audit ?? NO_AUDIT,
    readiness: createReadinessCheck(client, essentialStores(stores, options.self ?? {})),
    templates: options.templates,
    authenticator:
      options.authenticator ??
      createDispatch({
        byIssuer: options.issuers?.byIssuer ?? (() => undefined),
        cluster: createTokenReviewAuthenticator({
          reviewer,
          metrics,
          ...(options.tokenAudience
            ? { audience: options.tokenAudience }
            : { acceptApiServerTokens: options.tokenAudience === '' }),
        }),
      }),
    identity: withGrants(options.identity, createGrants(rbac)),
    authorizer: options.authorizer ?? createAccessReviewAuthorizer({ reviewer, metrics, namespace }),
    self: options.self,
    clock: options.clock ?? Date.now,
  };
}

const withGrants = (door: RestDependencies['identity'], grants: Grants): RestDependencies['identity'] =>
  door && door.off === undefined ? { ...door, grants } : door;

/** For an installation without an audit log. */
const NO_AUDIT: RestDependencies['audit'] = {
  record() {},
  read: async ({ limit, offset }) => ({ events: [], total: 0, limit, offset }),
  removeBefore: async () => 0,
};

/** How long a check of the API server is cached, since thousands of agents lead to one. */
const REACHABLE_MS = 1_000;

/** Ready: each of these stores has been complete once, and the API server responds. */
export function createReadinessCheck(client: KubeClient, stores: EssentialStores): ReadinessCheck {
  let asked: { at: number; answer: Promise<boolean> } | undefined;
  const isReachable = () => {
    const now = performance.now();
    if (!asked || asked.at + REACHABLE_MS < now) {
      const answer = client.request('GET', '/version', undefined, { timeoutMs: 2_000 }).then(
        () => true,
        () => false,
      );
      asked = { at: now, answer };
    }
    return asked.answer;
  };
  return {
    async check() {
      if (!allSynced(stores))
        return { code: 'CONTROLLER_NOT_READY', message: 'the controller is still reading its state' };
      if (!(await isReachable())) return { code: 'CONTROLLER_DB_UNAVAILABLE', message: 'the cluster does not answer' };
      return undefined;
    },
  };
}
