import { API_VERSION, FIELD_MANAGERS } from '../../../api/names.ts';
import type { BusAccount } from '../../../api/v3/bus-account.ts';
import type { BusOperator } from '../../../api/v3/bus-operator.ts';
import type { BusUser } from '../../../api/v3/bus-user.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { holderIn } from '../../../datastore/holder.ts';
import { createOrUpdate, equal, type KubeObject, ownerReference, type Resource, refOf } from '../../../kube/mod.ts';
import { objectName } from '../../../rules/names.ts';
import { KINDS, RESOURCES } from '../../kinds.ts';
import { OPERATOR_OBJECT } from '../rules/operator.ts';
import { userKey } from '../rules/user.ts';

interface WriteOptions {
  /** the object that it ends with */
  owner?: KubeObject;
  signal: AbortSignal;
}

type Stored = KubeObject & { spec: object };

/** Makes the accounts and users that the controller itself wants. */
export function createBusObjects({
  client,
  namespace,
  stores,
}: Pick<ControllerDependencies, 'client' | 'namespace' | 'stores'>) {
  const accountNamed = (name: string): BusAccount | undefined =>
    holderIn(KINDS.busAccounts, stores.busAccounts.byIndex('name', name), 'name', name);
  const userNamed = (account: string, name: string): BusUser | undefined => {
    const key = userKey(account, name);
    return holderIn(KINDS.busUsers, stores.busUsers.byIndex('name', key), 'name', key);
  };

  /** Writes these members of the spec; an absent value removes the member. What others say of the object stays. */
  async function keep<T extends Stored>(
    resource: Resource<T>,
    known: T | undefined,
    { name, spec, fits = () => true }: { name: string; spec: object; fits?: (present: T) => boolean },
    { owner, signal }: WriteOptions,
  ): Promise<T | undefined> {
    const { object } = await createOrUpdate<T>(
      client,
      resource,
      { namespace, name: known?.metadata.name ?? name },
      (present) => {
        if (present && (present.metadata.deletionTimestamp || !fits(present))) return undefined;
        const merged = Object.entries({ ...present?.spec, ...spec }).filter(([, value]) => value !== undefined);
        const references = owner && [ownerReference(owner)];
        const metadata = {
          ...(present?.metadata ?? { name, namespace }),
          ...(references && { ownerReferences: references }),
        };
        const wanted = Object.fromEntries(merged);
        const isSame = present && equal(present.spec, wanted) && equal(present.metadata, metadata);
        const { kind } = resource;
        return isSame ? present : ({ apiVersion: API_VERSION, kind, ...present, metadata, spec: wanted } as T);
      },
      { known, signal, call: { fieldManager: FIELD_MANAGERS.controller } },
    );
    return object;
  }

  return {
    /** Deletes exactly this object, unless it is being deleted. */
    async remove(object: BusAccount | BusUser, signal: AbortSignal): Promise<void> {
      const { uid, deletionTimestamp } = object.metadata;
      if (deletionTimestamp) return;
      const options = { signal, ...(uid && { preconditions: { uid } }) };
      if (object.kind === RESOURCES.busAccounts.kind)
        await client.delete(RESOURCES.busAccounts, refOf(object), options);
      else await client.delete(RESOURCES.busUsers, refOf(object), options);
    },
    accountNamed,
    userNamed,
    /** Resolves with the account; an account that is being deleted stays as it is. */
    keepAccount(spec: BusAccount['spec'] & { name: string }, options: WriteOptions): Promise<BusAccount | undefined> {
      return keep(RESOURCES.busAccounts, accountNamed(spec.name), { name: objectName(spec.name), spec }, options);
    },
    /** A user of this name that is for something else stays as it is. */
    keepUser(spec: BusUser['spec'] & { name: string }, options: WriteOptions): Promise<BusUser | undefined> {
      const name = objectName(userKey(spec.account, spec.name));
      const fits = ({ spec: present }: BusUser) =>
        present.microserviceUuid === spec.microserviceUuid &&
        present.node === spec.node &&
        present.account === spec.account;
      return keep(RESOURCES.busUsers, userNamed(spec.account, spec.name), { name, spec, fits }, options);
    },
    async keepOperator(signal: AbortSignal): Promise<void> {
      const known = stores.busOperators.get(namespace, OPERATOR_OBJECT);
      if (known) return;
      await keep<BusOperator>(RESOURCES.busOperators, known, { name: OPERATOR_OBJECT, spec: {} }, { signal });
    },
  };
}
