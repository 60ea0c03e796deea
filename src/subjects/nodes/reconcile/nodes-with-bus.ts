import type { Secret } from '../../../api/resources.ts';
import type { BusUser } from '../../../api/v3/index.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { keyOf } from '../../../kube/mod.ts';
import { v3Name } from '../../../rules/names.ts';
import { RESOURCES } from '../../kinds.ts';
import { nodeRefsOf } from '../rules/placement/node-refs.ts';

/**
 * The nodes that get something of a Secret of the message bus: the token of an account goes to servers that have the account, the
 * credentials of a user to its node. Their conditions say whether the machine has it.
 */
export function nodesWithBus(
  { stores }: Pick<ControllerDependencies, 'stores'>,
  { metadata: { namespace, ownerReferences = [] } }: Secret,
): readonly string[] {
  const named = (name: string) => stores.nodes.byIndex('name', name);
  const ofUser = ({ spec: { node, microserviceUuid } }: BusUser) => [
    ...(node === undefined ? [] : named(node)),
    ...(microserviceUuid === undefined ? [] : ofMicroservice(microserviceUuid)),
  ];
  const ofMicroservice = (uuid: string) =>
    stores.applications.byIndex('microservice', uuid).flatMap((application) =>
      [...nodeRefsOf(application)].flatMap((ref) => {
        const [by, value] = [ref.slice(0, ref.indexOf(':')), ref.slice(ref.indexOf(':') + 1)];
        return stores.nodes.byIndex(by === 'uuid' ? 'uuid' : 'name', value);
      }),
    );
  const ofAccount = (name: string) => [
    ...stores.busUsers
      .byIndex('account', name)
      .flatMap(({ spec: { node } }) => (node === undefined ? [] : named(node))),
    ...stores.nodes.byIndex('busServer', 'true'),
  ];
  const nodes = ownerReferences.flatMap(({ kind, name }) => {
    const user = kind === RESOURCES.busUsers.kind ? stores.busUsers.get(namespace, name) : undefined;
    const account = kind === RESOURCES.busAccounts.kind ? stores.busAccounts.get(namespace, name) : undefined;
    return [...(user ? ofUser(user) : []), ...(account ? ofAccount(account.spec.application ?? v3Name(account)) : [])];
  });
  return [...new Set(nodes.map(keyOf))];
}
