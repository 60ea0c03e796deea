import { ANNOTATIONS } from '../../api/names.ts';
import { type Registry, type RegistrySpec, type RegistryStatus, registryResource } from '../../api/v3/registry.ts';
import { conditionsOf, joined, kstatus, type Progress } from '../conditions.ts';
import type { Verdict } from '../inputs.ts';
import { registryId } from '../names.ts';
import { destinationText } from './destination.ts';

/** What the status of a registry is computed from. */
export interface RegistryStatusInputs {
  registry: Registry;
  /** NameTaken or IdTaken */
  identity?: Verdict;
  /** names `application/microservice` that use it */
  users: readonly string[];
  /** the Secret with the password has the key and may be used; true when the registry names none */
  hasPassword: boolean;
  /** RFC 3339 */
  now: string;
}

/** Status of a registry. Stable: the same facts give the same status. */
export function registryStatus(inputs: RegistryStatusInputs): RegistryStatus {
  return {
    observedGeneration: inputs.registry.metadata.generation ?? 0,
    conditions: conditionsOf(registryResource, inputs.registry, kstatus(progress(inputs)), inputs.now),
  };
}

/** How many users a message names. */
const NAMED_USERS = 20;

function progress({ registry, identity, users, hasPassword }: RegistryStatusInputs): Progress {
  const { passwordSecretRef } = registry.spec;
  if (registry.metadata.deletionTimestamp !== undefined) {
    if (users.length === 0) return { is: 'working', reason: 'Deleting', message: 'the registry is being deleted' };
    // It serves until its last user is gone, and no user goes by itself.
    return {
      is: 'stalled',
      reason: 'Deleting',
      message: `the registry goes once nobody uses it; used by ${named(users)}`,
    };
  }
  if (identity) return { is: 'stalled', reason: identity.reason, message: identity.message };
  if (registryId(registry) === undefined)
    return { is: 'working', reason: 'IdNotAssigned', message: 'the registry has no id yet' };
  if (passwordSecretRef && !hasPassword)
    return {
      is: 'stalled',
      reason: 'PasswordNotFound',
      message: passwordNotFound(registry.spec, passwordSecretRef),
    };
  // Its users are not named here: each application that comes or goes would be a write.
  return { is: 'done', reason: 'Usable', message: 'the registry can be used' };
}

/** One message for both, so that nobody learns here which Secrets there are. */
function passwordNotFound(spec: RegistrySpec, { name, key }: { name: string; key: string }): string {
  const destination = destinationText(spec);
  return `there is no Secret ${name} with the key ${key}, or it may not be sent to ${destination}: that is allowed by its annotation ${ANNOTATIONS.registry}=${destination}`;
}

function named(users: readonly string[]): string {
  const first = [...new Set(users)].sort();
  const more = first.length - NAMED_USERS;
  return joined(first.slice(0, NAMED_USERS)) + (more > 0 ? ` and ${more} more` : '');
}
