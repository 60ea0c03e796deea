import type { Registry, RegistryStatus } from '../../api/v3/index.ts';
import { conditionsOf, joined, kstatus, type Progress } from '../conditions.ts';
import { registryId } from '../names.ts';

/** What the status of a registry is computed from. */
export interface RegistryStatusInputs {
  registry: Registry;
  /** names `application/microservice` that use it */
  users: readonly string[];
  /** the Secret with the password has the key; true when the registry names none */
  hasPassword: boolean;
  /** RFC 3339 */
  now: string;
}

/** Status of a registry. Stable: the same facts give the same status. */
export function registryStatus(inputs: RegistryStatusInputs): RegistryStatus {
  return {
    observedGeneration: inputs.registry.metadata.generation ?? 0,
    conditions: conditionsOf('Registry', inputs.registry, kstatus(progress(inputs)), inputs.now),
  };
}

/** How many users a message names. */
const NAMED_USERS = 20;

function progress({ registry, users, hasPassword }: RegistryStatusInputs): Progress {
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
  if (registryId(registry) === undefined)
    return { is: 'working', reason: 'IdNotAssigned', message: 'the registry has no id yet' };
  if (passwordSecretRef && !hasPassword)
    return {
      is: 'stalled',
      reason: 'PasswordNotFound',
      message: `there is no Secret ${passwordSecretRef.name} with the key ${passwordSecretRef.key}`,
    };
  // Its users are not named here: each application that comes or goes would be a write.
  return { is: 'done', reason: 'Usable', message: 'the registry can be used' };
}

function named(users: readonly string[]): string {
  const first = [...new Set(users)].sort();
  const more = first.length - NAMED_USERS;
  return joined(first.slice(0, NAMED_USERS)) + (more > 0 ? ` and ${more} more` : '');
}
