import { ANNOTATIONS } from '../../api/names.ts';
import type { Registry, RegistrySpec } from '../../api/v3/registry.ts';
import type { Progress } from '../conditions.ts';
import { destinationText } from './destination.ts';

/** What keeps a registry from being used: it names a Secret that has not the key, or that it may not use. */
export function passwordObstacle({ spec }: Registry, hasPassword: boolean): Progress | undefined {
  const { passwordSecretRef } = spec;
  if (!passwordSecretRef || hasPassword) return undefined;
  return { is: 'stalled', reason: 'PasswordNotFound', message: passwordNotFound(spec, passwordSecretRef) };
}

/** One message for both, so that nobody learns here which Secrets there are. */
function passwordNotFound(spec: RegistrySpec, { name, key }: { name: string; key: string }): string {
  const destination = destinationText(spec);
  return `there is no Secret ${name} with the key ${key}, or it may not be sent to ${destination}: that is allowed by its annotation ${ANNOTATIONS.registry}=${destination}`;
}
