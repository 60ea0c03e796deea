import { createHash } from 'node:crypto';
import { jsonOr } from '../domain/json.ts';
import type { StepOf } from '../domain/step.ts';
import type { Database } from './database.ts';

/** With the credentials of at most so many registries an image is known to have been pulled; the oldest is forgotten. */
const REGISTRIES_OF_IMAGE = 32;

/** Credentials by image: digests, so that neither hosts nor users stand in the database once more. */
type Access = Record<string, string[]>;

type Pull = Pick<StepOf<'image'>, 'registryId' | 'pull'>;

/**
 * Whether a microservice may run an image that is on the machine without pulling it: an image that this agent pulled with
 * the credentials of a registry is for the microservices that name this registry with the same user, as with
 * KubeletEnsureSecretPulledImages of Kubernetes. Others have to pull it, and so to have access themselves. An image that a
 * person loaded, or that was once pulled without credentials, is for all.
 */
export function mayUseImage(database: Pick<Database, 'images' | 'value'>, imageId: string, step: Pull): boolean {
  const needed = accessOf(database)[imageId];
  if (!needed || !database.images().has(imageId)) return true;
  const own = credentialsOf(step);
  return own !== undefined && needed.includes(own);
}

/** Notes that an image was pulled; `isNew`: it was not on the machine by this reference before. */
export function noteImagePull(
  database: Pick<Database, 'images' | 'saveImage' | 'value' | 'saveValue'>,
  imageId: string,
  step: Pull,
  isNew: boolean,
): void {
  const pulled = database.images();
  const before = accessOf(database);
  const access = Object.fromEntries(Object.entries(before).filter(([id]) => id !== imageId && pulled.has(id)));
  const own = credentialsOf(step);
  // Another reference can have brought the same image. What was here for all stays so.
  const known = isNew && !pulled.has(imageId) ? [] : before[imageId];
  if (own !== undefined && known) access[imageId] = [...new Set([...known, own])].slice(-REGISTRIES_OF_IMAGE);
  if (JSON.stringify(access) !== JSON.stringify(before)) database.saveValue('imageAccess', JSON.stringify(access));
  if (isNew) database.saveImage(imageId, step.pull.reference);
}

/** The registry and the user that a pull names; undefined without credentials. */
function credentialsOf({ registryId, pull: { credentials, relay } }: Pull): string | undefined {
  const [host, username] = relay
    ? [relay.host, relay.credentials?.username]
    : [credentials?.host, credentials?.username];
  if (!username) return undefined;
  return createHash('sha256')
    .update(JSON.stringify([registryId, host, username]))
    .digest('base64url')
    .slice(0, 22);
}

function accessOf(database: Pick<Database, 'value'>): Access {
  return jsonOr(database.value('imageAccess') ?? '', {}) as Access;
}
