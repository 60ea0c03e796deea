import { changesMoreThanStatus } from '../../../controllers/change-filter.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import {
  type Controller,
  createController,
  done,
  keyFor,
  type Outcome,
  requeueAfter,
  type Watch,
  watching,
} from '../../../kube/mod.ts';
import { CONTROLLER_ACCOUNT_OF_BUS, SYSTEM_ACCOUNT } from '../../../rules/bus-accounts.ts';
import { RESOURCES } from '../../kinds.ts';
import { BUS_KEYS } from '../rules/secret.ts';
import { CONTROLLER_USER, HUB_USER } from '../rules/user.ts';
import { createBusObjects } from './objects.ts';
import type { BusParts } from './parts.ts';

/** The one key of this controller. */
const KEY = 'bus';
/** How long servers that are away may learn that an account has ended. */
const ENDED_MS = 7 * 24 * 3_600_000;
const LOOK_MS = 3_600_000;

/** What the bus has in every installation: the operator, the account of the servers, the account of the controller. */
export function createBusSystemController(deps: ControllerDependencies, { secrets }: BusParts): Controller {
  const { stores, namespace, platform, clock, client, log, metrics } = deps;
  const objects = createBusObjects(deps);
  const key = keyFor(namespace, KEY);

  async function reconcile(signal: AbortSignal): Promise<Outcome> {
    if (!platform.isBusEnabled) return done();
    await objects.keepOperator(signal);
    const accounts = [
      { spec: { name: SYSTEM_ACCOUNT, system: 'system' }, user: HUB_USER },
      { spec: { name: CONTROLLER_ACCOUNT_OF_BUS, system: 'controller' }, user: CONTROLLER_USER },
    ] as const;
    for (const { spec, user } of accounts) {
      const account = await objects.keepAccount(spec, { signal });
      if (account && !account.metadata.deletionTimestamp)
        await objects.keepUser({ name: user, account: spec.name }, { owner: account, signal });
    }
    return (await forgetEnded(signal)) ? requeueAfter(LOOK_MS) : done();
  }

  /** Deletes the last tokens of accounts that ended long ago; resolves with whether there are others. */
  async function forgetEnded(signal: AbortSignal): Promise<boolean> {
    let left = false;
    for (const { metadata } of stores.secrets.byIndex('endedBusAccount', 'true')) {
      const { texts } = secrets.read('account', metadata.name);
      const ended = Number(texts[BUS_KEYS.ended]);
      const { name, uid } = metadata;
      if (clock() - ended < ENDED_MS) left = true;
      else
        await client.delete(RESOURCES.secrets, { namespace, name }, { signal, ...(uid && { preconditions: { uid } }) });
    }
    return left;
  }

  const start: Watch = {
    whenSynced: async () => {},
    start(enqueue) {
      enqueue(key, true);
      return { [Symbol.dispose]: () => {} };
    },
  };
  return createController({
    name: 'bus-system',
    watches: [
      start,
      watching(stores.secrets, ({ object, type, initial }) =>
        !initial && type !== 'delete' && object.data?.[BUS_KEYS.ended] !== undefined ? [key] : [],
      ),
      watching(stores.busOperators, ({ type }) => (type === 'delete' ? [key] : [])),
      watching(stores.busAccounts, (change) =>
        change.object.spec.system !== undefined && changesMoreThanStatus(change) ? [key] : [],
      ),
      watching(stores.busUsers, (change) =>
        [SYSTEM_ACCOUNT, CONTROLLER_ACCOUNT_OF_BUS].includes(change.object.spec.account) &&
        changesMoreThanStatus(change)
          ? [key]
          : [],
      ),
    ],
    reconcile: (_, { signal }) => reconcile(signal),
    log,
    metrics,
  });
}
