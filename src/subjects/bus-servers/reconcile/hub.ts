import { BUS_HUB_CERTIFICATES, SYSTEM_AUTHORITY } from '../../../api/names.ts';
import type { BusHub } from '../../../api/v3/bus-hub.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { createKindController } from '../../../controllers/kind.ts';
import { type Controller, keyFor, type Watch, watching } from '../../../kube/mod.ts';
import { SYSTEM_ACCOUNT } from '../../../rules/bus-accounts.ts';
import { type BusClients, nextClients, nextStep } from '../../../rules/bus-clients.ts';
import { HUB_OBJECT } from '../../../rules/bus-hub.ts';
import type { Progress } from '../../../rules/conditions.ts';
import { stalled } from '../../../rules/conditions.ts';
import { uuidOf } from '../../../rules/identity.ts';
import { createBusObjects } from '../../bus-accounts/reconcile/objects.ts';
import type { BusParts } from '../../bus-accounts/reconcile/parts.ts';
import { trustedOperators } from '../../bus-accounts/rules/operator.ts';
import { accountSecretName, BUS_KEYS, operatorSecretName } from '../../bus-accounts/rules/secret.ts';
import { decodeToken } from '../../bus-rules/rules/tokens/decode.ts';
import { KINDS } from '../../kinds.ts';
import { makeSystemAuthority } from '../../pki/reconcile/system-authority.ts';
import { HUB_NAMES, hasClientTls, hubMembers, hubSettings, isMade, membersOf } from '../rules/hub.ts';
import { HUB_KEYS, type HubPlacement } from '../rules/hub-objects.ts';
import { hubNode, hubOn } from '../rules/system-hub.ts';
import type { HubStates } from './delivery.ts';
import { createHubServers, type HubServers } from './hub-servers.ts';

/** How often objects of the cluster are looked at that no watch shows. */
const LOOK_MS = 5_000;

const behindWith = (message: string): Progress => ({ is: 'working', reason: 'BusServersBehind', message });

/** BusHub: makes its servers in the cluster, unless they are elsewhere, and says whether each has every token. */
export function createHubController(
  deps: ControllerDependencies,
  { secrets, operator }: BusParts,
  states: HubStates,
): Controller {
  const { stores, namespace, platform, clock } = deps;
  const servers = createHubServers(deps);
  const objects = createBusObjects(deps);
  /** what the last run made, for the status of the same run */
  let made: HubServers | 'no keys' | undefined;

  /** A hub as its servers have it. */
  const actual = (hub: BusHub) => (platform.isRemote ? hubOn(hub, hubNode(stores.nodes.list())) : hub);

  const isMeant = ({ metadata }: BusHub) => metadata.name === HUB_OBJECT;

  /** What servers trust; undefined while the keys are being made. */
  function trust() {
    const operators = trustedOperators(secrets.read('operator', operatorSecretName()).texts);
    const account = objects.accountNamed(SYSTEM_ACCOUNT);
    const { [BUS_KEYS.token]: token, [BUS_KEYS.renewed]: systemRenewed } = account
      ? secrets.read('account', accountSecretName(uuidOf(account))).texts
      : {};
    const systemAccount = token === undefined ? undefined : decodeToken(token)?.sub;
    if (operators.length === 0 || token === undefined || systemAccount === undefined) return undefined;
    return { operators, systemAccount, systemRenewed, preload: { [systemAccount]: token } };
  }

  function placementOf({ spec }: BusHub): HubPlacement | undefined {
    if (!deps.hub) return undefined;
    const {
      replicas = deps.hub.replicas,
      serviceType = deps.hub.serviceType,
      storageClass = deps.hub.storageClass,
    } = spec;
    return { ...deps.hub, namespace, replicas, serviceType, ...(storageClass && { storageClass }) };
  }

  /** Where containers reach the hub, after what the last run made. */
  function clientsOf(stored: BusHub): BusClients | undefined {
    const hub = actual(stored);
    const host = addressOf(hub);
    const wanted = host === undefined ? undefined : { host, port: hubSettings(hub).serverPort };
    const isReady = lackingOf(hub) === undefined && hubMembers(hub, namespace, deps.hub).length > 0;
    return nextClients(stored.status?.clients, wanted, { isReady, now: clock() });
  }

  async function prepare(hub: BusHub, signal: AbortSignal): Promise<void> {
    made = undefined;
    if (
      !isMeant(hub) ||
      !platform.isBusEnabled ||
      hub.metadata.deletionTimestamp ||
      KINDS.busHubs.verdict?.(hub, () => undefined)
    )
      return;
    // A server elsewhere needs nothing else of it.
    if (hasClientTls(hub)) await makeSystemAuthority(deps, SYSTEM_AUTHORITY.busLocal, signal);
    const placement = placementOf(hub);
    if (!placement) return;
    if (!isMade(hub, deps.hub)) return servers.remove(hub, signal);
    const needs = trust();
    made = needs ? await servers.keep(hub, placement, needs, signal) : 'no keys';
  }

  const addressOf = (hub: BusHub): string | undefined => {
    if (hub.spec.host !== undefined) return hub.spec.host;
    if (!isMade(hub, deps.hub)) return undefined;
    return typeof made === 'object' && made.is === 'made' && made.address !== undefined
      ? made.address
      : `${HUB_NAMES.service}.${namespace}.svc`;
  };

  /** What keeps servers of the hub from letting clients in. */
  function lackingOf(hub: BusHub): Progress | undefined {
    const members = hubMembers(hub, namespace, deps.hub);
    const behind = members.filter(({ name }) => !states.of.get(name)?.isCurrent).map(({ name }) => name);
    return behind.length === 0
      ? undefined
      : behindWith(
          `${behind.length} of ${members.length} servers lack tokens or cannot be reached: ${behind.join(', ')}`,
        );
  }

  /** The operator that signed all tokens of the servers; tokens are looked at only until it is the present one. */
  function operatorOfTokens({ status }: BusHub): string | undefined {
    const now = operator.signer()?.key;
    return now === undefined || now === status?.operator || !states.haveTokensOf(now) ? status?.operator : now;
  }

  function obstacle(stored: BusHub): Progress | undefined {
    const hub = actual(stored);
    if (!isMeant(hub))
      return stalled({
        reason: 'NameTaken',
        message: `the hub of an installation is the object ${HUB_OBJECT}: delete this one`,
      });
    if (!platform.isBusEnabled)
      return stalled({ reason: 'BusDisabled', message: 'the message bus is off: BUS_ENABLED is not true' });
    if (made === 'no keys' || (made && made.is === 'waiting'))
      return { is: 'working', reason: 'BusKeyPending', message: 'its keys are being made' };
    if (made?.is === 'taken')
      return stalled({
        reason: 'BusHubTaken',
        message: `the ${made.what} exists and belongs to something else: delete it`,
      });
    if (made?.is === 'keyless')
      return stalled({
        reason: 'BusHubKeyLost',
        message: `the Secret ${HUB_NAMES.config} lacks ${HUB_KEYS.store}, with which its members encrypt streams: put it back, from a copy or from a member (docs/resources/bus-hub.md#changes)`,
      });
    const members = hubMembers(hub, namespace, deps.hub);
    if (members.length === 0)
      return stalled({
        reason: 'BusHubInvalid',
        message: platform.isRemote
          ? 'host is required while no node of the system has an address'
          : 'host is required: the servers are outside of the cluster',
      });
    const lacking = lackingOf(hub);
    if (lacking) return lacking;
    const unread = members.flatMap(({ name }) => {
      const why = states.unread(name);
      return why === undefined ? [] : [`${name}: ${why}`];
    });
    if (unread.length > 0)
      return behindWith(
        `${unread.length} of ${members.length} servers have not read their configuration: ${unread.join('; ')}`,
      );
    const { host, port, former, percent = 0 } = clientsOf(stored) ?? {};
    if (!former) return undefined;
    return {
      is: 'working',
      reason: 'BusHubMoves',
      message: `${percent}% of the nodes reach it at ${host}:${port}, the others at ${former.host}:${former.port} until their turn; containers on nodes without a bus server are replaced`,
    };
  }

  const statesWatch: Watch = {
    whenSynced: async () => {},
    start: (enqueue) => states.subscribe(() => enqueue(keyFor(namespace, HUB_OBJECT), false)),
  };
  const ours = (...names: readonly string[]) => new Set<string>(names);
  const secretNames = ours(operatorSecretName(), HUB_NAMES.config, ...Object.values(BUS_HUB_CERTIFICATES));
  const isNeeded = (name: string) => {
    if (secretNames.has(name)) return true;
    const account = objects.accountNamed(SYSTEM_ACCOUNT);
    return account !== undefined && name === accountSecretName(uuidOf(account));
  };
  return createKindController(deps, KINDS.busHubs, {
    prepare,
    obstacle,
    status(stored) {
      if (!isMeant(stored)) return {};
      const hub = actual(stored);
      const members = membersOf(hub, deps.hub);
      const host = addressOf(hub);
      const current = [...states.of.values()].filter(({ isCurrent }) => isCurrent).length;
      const { clusterPort: _, host: __, ...ofNode } = hubSettings(hub);
      const clients = clientsOf(stored);
      const trusted = hubMembers(hub, namespace, deps.hub).flatMap(({ name }) => {
        const keys = states.operators(name);
        return keys ? [keys] : [];
      });
      const signer = operatorOfTokens(stored);
      return {
        ...(hub !== stored && { ...ofNode, clientTls: hub.spec.clientTls === true }),
        ...(host !== undefined && { host }),
        ...(clients && { clients }),
        members,
        current,
        answering: trusted.length,
        ...(trusted.length > 0 && { trusted: commonKeys(trusted) }),
        ...(signer !== undefined && { operator: signer }),
      };
    },
    next(hub) {
      const clients = clientsOf(hub);
      const waitsForAddress =
        placementOf(hub)?.serviceType === 'LoadBalancer' &&
        typeof made === 'object' &&
        made.is === 'made' &&
        !made.address;
      const due = [
        ...(waitsForAddress || (typeof made === 'object' && made.is === 'keyless') ? [clock() + LOOK_MS] : []),
        // Until its servers have every token, another change leads to the next step.
        ...(clients?.former ? [Math.max(nextStep(clients), clock() + LOOK_MS)] : []),
      ];
      return due.length > 0 ? Math.min(...due) : undefined;
    },
    watches: [
      statesWatch,
      ...(platform.isRemote
        ? [
            watching(stores.nodes, ({ object: { spec }, previous }) =>
              spec.isSystem || previous?.spec.isSystem ? [keyFor(namespace, HUB_OBJECT)] : [],
            ),
          ]
        : []),
      watching(stores.secrets, ({ object: { metadata } }) =>
        isNeeded(metadata.name) ? [keyFor(metadata.namespace, HUB_OBJECT)] : [],
      ),
    ],
  });
}

const commonKeys = ([first = [], ...others]: readonly (readonly string[])[]): string[] =>
  first.filter((key) => others.every((keys) => keys.includes(key))).toSorted();
