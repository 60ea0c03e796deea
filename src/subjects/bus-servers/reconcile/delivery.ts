import { API_VERSION, FIELD_MANAGERS, LABELS } from '../../../api/names.ts';
import type { Secret } from '../../../api/resources.ts';
import type { BusHub } from '../../../api/v3/bus-hub.ts';
import { ConfigDelivery } from '../../../bus-client/config-delivery.ts';
import { type BusConnection, connectBus } from '../../../bus-client/connection.ts';
import { type DeliveryState, TokenDelivery } from '../../../bus-client/delivery.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { decodeData } from '../../../datastore/keyed-text.ts';
import {
  type Controller,
  createController,
  createOrUpdate,
  done,
  type Outcome,
  type Resource,
  type Watch,
  watching,
} from '../../../kube/mod.ts';
import { systemClock } from '../../../lib/clock.ts';
import { BUS_CA } from '../../../rules/bus-access.ts';
import { SYSTEM_ACCOUNT } from '../../../rules/bus-accounts.ts';
import { HUB_OBJECT } from '../../../rules/bus-hub.ts';
import { uuidOf } from '../../../rules/identity.ts';
import { onceEach } from '../../../rules/once-each.ts';
import { createBusObjects } from '../../bus-accounts/reconcile/objects.ts';
import type { BusParts } from '../../bus-accounts/reconcile/parts.ts';
import { trustedOperators } from '../../bus-accounts/rules/operator.ts';
import { BUS_KEYS, operatorSecretName, userSecretName, uuidInName } from '../../bus-accounts/rules/secret.ts';
import { HUB_USER } from '../../bus-accounts/rules/user.ts';
import { decodeToken } from '../../bus-rules/rules/tokens/decode.ts';
import { RESOURCES } from '../../kinds.ts';
import { HUB_NAMES, type HubMember, hubMembers } from '../rules/hub.ts';
import { HUB_KEYS, TOKENS_CONDITION } from '../rules/hub-objects.ts';
import { settleToken } from '../rules/settle.ts';
import { hubNode, hubOn } from '../rules/system-hub.ts';

const PODS: Resource = { group: '', version: 'v1', plural: 'pods', kind: 'Pod', namespaced: true };
/** The key of this controller for the hub as a whole; the others are names of members. */
const HUB_KEY = 'hub';

/** What the leader knows of the servers of the hub. */
export interface HubStates {
  /** by name of the member; without an entry: nothing is sent to it */
  readonly of: ReadonlyMap<string, DeliveryState>;
  /** Why a member that is connected does not have the present configuration; undefined when it has it. */
  unread(member: string): string | undefined;
  /** Public keys of the operators whose tokens a member takes; undefined while it is not connected. */
  operators(member: string): readonly string[] | undefined;
  /** Whether all accounts have a token of this operator, and each member that is connected has these tokens. */
  haveTokensOf(operator: string): boolean;
  subscribe(listener: () => void): Disposable;
}

/** `message`: the id of the process that it is about; a server has another one after each start. */
interface PodCondition {
  type: string;
  status: string;
  reason?: string;
  message?: string;
}

interface Delivering extends HubMember {
  delivery: TokenDelivery;
  config: ConfigDelivery;
  /** while it is connected */
  operators?: readonly string[];
  /** tokens are on their way to it */
  isPending?: boolean;
}

/**
 * Sends the tokens of all accounts to every server of the hub, for as long as this replica leads. A pod of the hub takes clients once
 * its condition says that it has all of them.
 */
export function createHubDelivery(
  deps: ControllerDependencies,
  { secrets, tokens }: BusParts,
  connect: typeof connectBus = connectBus,
): { controller: Controller; states: HubStates } {
  const { client, namespace, stores, platform, log, metrics } = deps;
  const objects = createBusObjects(deps);
  const servers = new Map<string, Delivering>();
  const states = new Map<string, DeliveryState>();
  const listeners = new Set<() => void>();

  // Objects of a store never change, so that each token is read once.
  const tokenIn = onceEach((secret: Secret): { account: string; token: string; operator: string } | undefined => {
    const token = decodeData(secret.data)[BUS_KEYS.token];
    const claims = token === undefined ? undefined : decodeToken(token);
    return token === undefined || !claims ? undefined : { account: claims.sub, token, operator: claims.iss };
  });
  const isEnded = ({ data }: Secret) => data?.[BUS_KEYS.ended] !== undefined;
  const trustedTokens = () => trustedOperators(secrets.read('operator', operatorSecretName()).texts);
  const trustedKeys = () => new Set(trustedTokens().map((token) => decodeToken(token)?.sub));
  const isOfAccount = ({ metadata: { labels } }: Secret) => labels?.[LABELS.bus] === 'account';

  /** Secrets by the public key of their account. */
  function* accountSecrets(): Generator<[account: string, secret: Secret]> {
    const trusted = trustedKeys();
    for (const secret of stores.secrets.byIndex('bus', 'account')) {
      const found = tokenIn(secret);
      // Servers refuse the last token of an account that ended under a former operator, and all users of the account with it.
      if (found && (!isEnded(secret) || trusted.has(found.operator))) yield [found.account, secret];
    }
  }
  /** As it was last announced; the store has the same Secrets. */
  const secretOf = new Map<string, string>();
  const wanted = {
    *accounts() {
      secretOf.clear();
      for (const [account, secret] of accountSecrets()) {
        secretOf.set(account, secret.metadata.name);
        yield account;
      }
    },
    token(account: string): string | undefined {
      const name = secretOf.get(account);
      const secret = name === undefined ? undefined : stores.secrets.get(namespace, name);
      const found = secret && tokenIn(secret);
      return found?.account === account ? found.token : undefined;
    },
  };

  const ca = () => decodeData(stores.secrets.get(namespace, BUS_CA.secret)?.data)[BUS_CA.key];

  async function dial({ url }: HubMember, signal: AbortSignal): Promise<BusConnection> {
    const user = objects.userNamed(SYSTEM_ACCOUNT, HUB_USER);
    const creds = user && secrets.read('user', userSecretName(uuidOf(user))).texts[BUS_KEYS.creds];
    if (!creds) throw new Error('the user of the system for the hub has no credentials yet');
    const tls = url.startsWith('tls:') ? { ca: ca() ?? '' } : undefined;
    return connect({ servers: [url], creds, name: FIELD_MANAGERS.controller, signal, ...(tls && { tls }) });
  }

  /** Signs the token of an account anew, with what later tokens of servers say. */
  async function adopt(account: string, found: readonly string[], signal: AbortSignal): Promise<void> {
    const name = secretOf.get(account);
    const uuid = name === undefined ? undefined : uuidInName('account', name);
    const [object] = uuid === undefined ? [] : stores.busAccounts.byIndex('uuid', uuid);
    // The last token of an account that ended is not signed again.
    if (!object) return;
    log.warn(
      { account: object.metadata.name },
      'Servers of the message bus have a later token of an account: it counts',
    );
    const claims = found.flatMap((one) => decodeToken(one) ?? []);
    await tokens.adopt(object, claims, signal);
  }

  const announce = () => {
    for (const listener of listeners) listener();
  };

  /** The tag of the configuration that members have as files. */
  const configTag = () => decodeData(stores.secrets.get(namespace, HUB_NAMES.config)?.data)[HUB_KEYS.tag];

  function begin(member: HubMember, enqueue: (key: string) => void): Delivering {
    const report = (state: DeliveryState) => {
      states.set(member.name, state);
      announce();
      enqueue(member.name);
    };
    const own = { clock: systemClock, random: Math.random, log: log.child({ member: member.name }) };
    const config = new ConfigDelivery({
      // A server elsewhere has a configuration that is not ours.
      wanted: () => (member.isPod ? configTag() : undefined),
      report: announce,
      ...own,
    });
    const delivery = new TokenDelivery({
      async dial(signal) {
        const connection = await dial(member, signal);
        // A server that is started again, with which its operators may be others, ends the connection.
        const operators = await connection.operators(signal).catch(async (error: unknown) => {
          await connection.close();
          throw error;
        });
        Object.assign(server, { operators, isPending: true });
        void connection.closed.then(() => delete server.operators).then(announce);
        config.connected(connection);
        return connection;
      },
      settled() {
        server.isPending = false;
        if (trustedTokens().length > 1) announce();
      },
      ...{ wanted, settle: settleToken, adopt, report, ...own },
    });
    const server: Delivering = { ...member, delivery, config };
    return server;
  }

  async function end(name: string): Promise<void> {
    const server = servers.get(name);
    servers.delete(name);
    server?.config[Symbol.dispose]();
    await server?.delivery[Symbol.asyncDispose]();
    states.delete(name);
    announce();
  }

  /** The node whose server is the hub, in an installation without a cluster. */
  const systemNode = () => (platform.isRemote ? hubNode(stores.nodes.list()) : undefined);

  /** An installation that makes its hub has one from the start, and an installation without a cluster once a node can be it. */
  async function makeHub(signal: AbortSignal): Promise<BusHub | undefined> {
    if (!platform.isBusEnabled || (!deps.hub && !systemNode())) return undefined;
    const { object } = await createOrUpdate<BusHub>(
      client,
      RESOURCES.busHubs,
      { namespace, name: HUB_OBJECT },
      (present) =>
        present ?? {
          apiVersion: API_VERSION,
          kind: RESOURCES.busHubs.kind,
          metadata: { name: HUB_OBJECT, namespace },
          spec: {},
        },
      { signal, call: { fieldManager: FIELD_MANAGERS.controller } },
    );
    return object;
  }

  async function reconcileHub(signal: AbortSignal): Promise<Outcome> {
    const stored = stores.busHubs.get(namespace, HUB_OBJECT) ?? (await makeHub(signal));
    const hub = stored && hubOn(stored, systemNode());
    const members = hub && platform.isBusEnabled ? hubMembers(hub, namespace, deps.hub) : [];
    const isWanted = ({ name, url }: HubMember) => members.some((one) => one.name === name && one.url === url);
    for (const server of [...servers.values()]) if (!isWanted(server)) await end(server.name);
    for (const member of members)
      if (!servers.has(member.name)) servers.set(member.name, begin(member, controller.enqueue));
    return done();
  }

  /** A pod that does not exist gets its condition once it connects. */
  async function reconcileMember(name: string, signal: AbortSignal): Promise<Outcome> {
    const server = servers.get(name);
    const state = states.get(name);
    if (!server?.isPod || !state) return done();
    const pod = await client.find(PODS, { namespace, name }, { signal });
    if (!pod) return done();
    const { conditions = [] } = (pod.status ?? {}) as { conditions?: readonly PodCondition[] };
    const present = conditions.find(({ type }) => type === TOKENS_CONDITION);
    const message = state.server?.id ?? '';
    // While a new leader compares, the process that had every token stays in service.
    const isKept = present?.status === 'True' && message !== '' && present.message === message;
    const status = state.isCurrent || isKept ? 'True' : 'False';
    if (present?.status === status && (status === 'False' || isKept)) return done();
    const condition: PodCondition & { lastTransitionTime: string } = {
      ...{ type: TOKENS_CONDITION, status, reason: status === 'True' ? 'Current' : 'Behind' },
      ...(status === 'True' && { message }),
      lastTransitionTime: new Date(deps.clock()).toISOString(),
    };
    const metadata = { name, namespace };
    const body = { apiVersion: 'v1', kind: 'Pod', metadata, status: { conditions: [condition] } };
    await client.patch(
      PODS,
      { namespace, name },
      { type: 'apply', body, force: true },
      { signal, subresource: 'status', fieldManager: FIELD_MANAGERS.controller },
    );
    return done();
  }

  const start: Watch = {
    whenSynced: async () => {},
    start(enqueue) {
      enqueue(HUB_KEY, true);
      return { [Symbol.dispose]: () => {} };
    },
  };
  const inner = createController({
    name: 'bus-delivery',
    watches: [
      start,
      watching(stores.busHubs, ({ object }) => (object.metadata.name === HUB_OBJECT ? [HUB_KEY] : [])),
      ...(platform.isRemote
        ? [
            watching(stores.nodes, ({ object: { spec }, previous }) =>
              spec.isSystem || previous?.spec.isSystem ? [HUB_KEY] : [],
            ),
          ]
        : []),
      watching(stores.secrets, ({ object, initial, type }) => {
        if (object.metadata.name === HUB_NAMES.config) for (const { config } of servers.values()) config.changed();
        const found = !initial && type !== 'delete' && isOfAccount(object) ? tokenIn(object) : undefined;
        if (found) {
          secretOf.set(found.account, object.metadata.name);
          for (const server of servers.values()) {
            server.isPending = true;
            server.delivery.changed(found.account);
          }
        }
        return [];
      }),
    ],
    reconcile: (key, { signal }) => (key === HUB_KEY ? reconcileHub(signal) : reconcileMember(key, signal)),
    log,
    metrics,
  });

  const controller: Controller = {
    name: inner.name,
    enqueue: (key, options) => inner.enqueue(key, options),
    async run(signal) {
      try {
        await inner.run(signal);
      } finally {
        for (const name of [...servers.keys()]) await end(name);
      }
    },
    whenIdle: () => inner.whenIdle(),
    get overdue() {
      return inner.overdue;
    },
    [Symbol.asyncDispose]: () => inner[Symbol.asyncDispose](),
  };
  const subscribe = (listener: () => void): Disposable => {
    listeners.add(listener);
    return { [Symbol.dispose]: () => void listeners.delete(listener) };
  };
  const unread = (member: string) => servers.get(member)?.config.unread;
  return {
    controller,
    states: {
      of: states,
      unread,
      subscribe,
      operators: (member) => servers.get(member)?.operators,
      haveTokensOf(operator) {
        const isBehind = ({ operators, isPending, name }: Delivering) =>
          operators !== undefined && (isPending || !states.get(name)?.isCurrent);
        if ([...servers.values()].some(isBehind)) return false;
        return stores.secrets.byIndex('bus', 'account').every((secret) => {
          const found = tokenIn(secret);
          // Nobody signs the last token of an account that ended again.
          return !found || isEnded(secret) || found.operator === operator;
        });
      },
    },
  };
}
