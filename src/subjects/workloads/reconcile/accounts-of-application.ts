import { ANNOTATIONS, FINALIZERS } from '../../../api/names.ts';
import type { Application, ServiceAccount } from '../../../api/v3/index.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { referenceKey } from '../../../kinds/definition.ts';
import { refOf, removeFinalizer } from '../../../kube/mod.ts';
import { v3Name } from '../../../rules/names.ts';
import { RESOURCES } from '../../kinds.ts';

/**
 * Deletes the service accounts of an application that is being deleted, before the application is gone. An account that was made
 * after the deletion began is for a later application of the name, and a protected one stays.
 */
export async function deleteAccountsOf(
  { client, stores }: Pick<ControllerDependencies, 'client' | 'stores'>,
  application: Application,
  signal: AbortSignal,
): Promise<void> {
  const ref = referenceKey({ to: 'applications', ref: v3Name(application) });
  for (const account of stores.serviceAccounts.byIndex('ref', ref)) {
    if (!isOf(application, account) || isProtected(account)) continue;
    const { uid, resourceVersion, deletionTimestamp } = account.metadata;
    const preconditions = { ...(uid && { uid }), ...(resourceVersion && { resourceVersion }) };
    const left =
      deletionTimestamp === undefined
        ? (await client.delete(RESOURCES.serviceAccounts, refOf(account), { preconditions, signal })).object
        : account;
    // A microservice of the same name in a later application does not keep it.
    if (left) await removeFinalizer(client, RESOURCES.serviceAccounts, left, FINALIZERS.inUse, { signal });
  }
}

/** Times of objects have no fractions of a second. */
const secondOf = (time = '') => Math.floor(Date.parse(time) / 1_000);

const isOf = (application: Application, { metadata: { creationTimestamp } }: ServiceAccount) =>
  secondOf(creationTimestamp) <= secondOf(application.metadata.deletionTimestamp);

const isProtected = ({ metadata: { annotations } }: ServiceAccount) =>
  (annotations?.[ANNOTATIONS.protected] ?? 'false') !== 'false';
