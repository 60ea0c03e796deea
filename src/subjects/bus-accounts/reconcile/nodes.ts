import type { BusAccount } from '../../../api/v3/bus-account.ts';
import type { BusUser } from '../../../api/v3/bus-user.ts';
import type { Application, EdgeNode } from '../../../api/v3/index.ts';
import { changesMoreThanStatus } from '../../../controllers/change-filter.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import {
  both,
  type Change,
  type Controller,
  createController,
  done,
  keyOf,
  type Outcome,
  parseKey,
  watching,
} from '../../../kube/mod.ts';
import { SYSTEM_ACCOUNT } from '../../../rules/bus-accounts.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import { v3Name } from '../../../rules/names.ts';
import { busModeOf } from '../../nodes/rules/modes.ts';
import { currentNodeOf } from '../../nodes/rules/placement/entries.ts';
import { nodeRefsOf } from '../../nodes/rules/placement/node-refs.ts';
import { nodeVerdict } from '../../nodes/rules/verdict.ts';
import { accessAskedBy, wantsAccess } from '../rules/access.ts';
import { accountNameOf, leafAccountName } from '../rules/account.ts';
import { leafAdminName, leafUserName, serverUserName } from '../rules/user.ts';
import { createBusObjects } from './objects.ts';

/**
 * What the bus server of a node needs: an account of the system of its own and its user (a leaf) or a user of the account of all
 * servers. With a user of each account it links to the hub: a leaf of each application with a microservice there, a server of all.
 */
export function createBusNodesController(deps: ControllerDependencies): Controller {
  const { stores, lookups, platform, log, metrics } = deps;
  const objects = createBusObjects(deps);

  async function reconcile(key: string, signal: AbortSignal): Promise<Outcome> {
    const { namespace, name } = parseKey(key);
    const node = stores.nodes.get(namespace, name);
    if (!node || !platform.isBusEnabled || nodeVerdict(node, lookups)) return done();
    const of = v3Name(node);
    const mode = node.metadata.deletionTimestamp ? 'none' : busModeOf(node, platform.isBusEnabled);
    const wanted = mode === 'none' ? [] : mode === 'leaf' ? leafUsers(node) : serverUsers(of);
    if (mode === 'leaf')
      await objects.keepAccount({ name: leafAccountName(of), system: 'leaf', node: of }, { owner: node, signal });
    for (const user of wanted) {
      const account = objects.accountNamed(user.account);
      if (account && !account.metadata.deletionTimestamp)
        await objects.keepUser({ ...user, node: of }, { owner: node, signal });
    }
    const isWanted = ({ spec }: BusUser) =>
      wanted.some((user) => user.account === spec.account && user.name === spec.name);
    for (const user of stores.busUsers.byIndex('node', of)) if (!isWanted(user)) await objects.remove(user, signal);
    if (mode !== 'leaf')
      for (const account of stores.busAccounts.byIndex('node', of)) await objects.remove(account, signal);
    return done();
  }

  function serverUsers(of: string): { account: string; name: string }[] {
    const linked = Array.from(stores.busAccounts.list()).filter(({ spec }) => spec.system === undefined);
    const users = linked.map((account) => ({ account: accountNameOf(account), name: leafUserName(of) }));
    return [{ account: SYSTEM_ACCOUNT, name: serverUserName(of) }, ...users];
  }

  function leafUsers(node: EdgeNode): { account: string; name: string }[] {
    const of = v3Name(node);
    const accounts = lookups
      .applicationsOn(node)
      .filter((application) => isOn(application, node))
      .map((application) => ({ account: v3Name(application), name: leafUserName(of) }));
    return [{ account: leafAccountName(of), name: leafAdminName(of) }, ...accounts];
  }

  /** Whether a microservice of the application with access to the bus is on the node. */
  function isOn(application: Application, node: EdgeNode): boolean {
    if (!accessAskedBy(application)) return false;
    return (application.spec.microservices ?? []).some((entry) => {
      const current = wantsAccess(entry) ? currentNodeOf(application, entry, lookups) : undefined;
      return current !== undefined && nodeUuid(current) === nodeUuid(node);
    });
  }

  const nodesOf = (application: Application) =>
    [...nodeRefsOf(application)].flatMap((ref) => {
      const [by, value] = [ref.slice(0, ref.indexOf(':')), ref.slice(ref.indexOf(':') + 1)];
      return stores.nodes.byIndex(by === 'uuid' ? 'uuid' : 'name', value).map(keyOf);
    });
  const named = (name: string | undefined) => (name === undefined ? [] : stores.nodes.byIndex('name', name).map(keyOf));

  return createController({
    name: 'bus-nodes',
    watches: [
      watching(stores.nodes, (change) => (changesMoreThanStatus(change) ? [change.key] : [])),
      watching(stores.applications, (change) =>
        !change.initial && (changesMoreThanStatus(change) || isMoved(change)) ? both(nodesOf)(change) : [],
      ),
      watching(stores.busUsers, (change) => (changesMoreThanStatus(change) ? named(change.object.spec.node) : [])),
      // The users of an account begin with it.
      watching(stores.busAccounts, (change) => {
        if (change.initial || !changesMoreThanStatus(change)) return [];
        const { application, node } = change.object.spec;
        if (node !== undefined) return named(node);
        const servers = isOfList(change) ? stores.nodes.byIndex('busServer', 'true').map(keyOf) : [];
        const leafs =
          application === undefined ? [] : stores.applications.byIndex('name', application).flatMap(nodesOf);
        return [...servers, ...leafs];
      }),
    ],
    reconcile: (key, { signal }) => reconcile(key, signal),
    log,
    metrics,
  });
}

/** Whether there is another account, or one less. */
const isOfList = ({ type, previous }: Change<BusAccount>) => type === 'delete' || !previous;

/** Where the microservices of an application are, as its status has it: a move is recorded there. */
const placesOf = ({ status }: Application) => (status?.microservices ?? []).map(({ nodeUuid: uuid }) => uuid).join();
const isMoved = ({ object, previous }: Change<Application>) =>
  previous !== undefined && placesOf(object) !== placesOf(previous);
