import { ANNOTATIONS } from '../../../api/names.ts';
import type { Registry, RegistrySpec } from '../../../api/v3/registry.ts';
import type { Progress } from '../../../rules/conditions.ts';
import { destinationText } from './registry-destination.ts';

/** Why a registry cannot be used: its Secret does not have the key, or the registry may not use the Secret. */
export function passwordObstacle({ spec }: Registry, hasPassword: boolean): Progress | undefined {
  const { passwordSecretRef } = spec;
  if (!passwordSecretRef || hasPassword) return undefined;
  return { is: 'stalled', reason: 'PasswordNotFound', message: passwordNotFound(spec, passwordSecretRef) };
}

/** Both reasons have one message, so that it does not reveal which Secrets exist. */
function passwordNotFound(spec: RegistrySpec, { name, key }: { name: string; key: string }): string {
  const destination = destinationText(spec);
  return `there is no Secret ${name} with the key ${key}, or it may not be sent to ${destination}: that is allowed by its annotation ${ANNOTATIONS.registry}=${destination}`;
}
