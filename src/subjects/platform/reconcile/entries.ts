import { FIELD_MANAGERS } from '../../../api/names.ts';
import type { Application, EdgeNode, MicroserviceEntry } from '../../../api/v3/index.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { createOrUpdate, ownerReference, refOf } from '../../../kube/mod.ts';
import { RESOURCES } from '../../kinds.ts';
import { systemApplicationName } from '../../nodes/rules/system-application.ts';
import { withPlatform } from '../rules/entries.ts';

/** Writes the microservices of the platform into the system's application of a node, and takes them out of it. */
export function createPlatformEntries({ client, stores, namespace }: ControllerDependencies) {
  const resource = RESOURCES.applications;
  const call = { fieldManager: FIELD_MANAGERS.controller };

  /** Makes the application have these microservices of the platform alone. An application of a user stays as it is. */
  async function keep(node: EdgeNode, wanted: readonly MicroserviceEntry[], signal: AbortSignal): Promise<void> {
    const ref = { namespace, name: systemApplicationName(node) };
    const known = stores.applications.get(ref.namespace, ref.name);
    if (!known && wanted.length === 0) return;
    let ended: Application | undefined;
    await createOrUpdate(
      client,
      resource,
      ref,
      (present) => {
        ended = undefined;
        if (present && (present.spec.isSystem !== true || present.metadata.deletionTimestamp)) return undefined;
        const made = withPlatform(present, node, wanted);
        if (!made) ended = present;
        if (!made || made === present) return made;
        // With its node it ends, whatever has crashed.
        return { ...made, metadata: { ...made.metadata, ownerReferences: [ownerReference(node)] } };
      },
      { known, signal, call },
    );
    if (ended) await end(ended, signal);
  }

  /** Deletes the application, as it is known. */
  async function end(application: Application, signal: AbortSignal): Promise<void> {
    const { uid, resourceVersion, deletionTimestamp } = application.metadata;
    if (deletionTimestamp) return;
    const preconditions = { ...(uid && { uid }), ...(resourceVersion && { resourceVersion }) };
    await client.delete(resource, refOf(application), { signal, preconditions });
  }

  return { keep, end };
}
