import type { ObjectMeta } from '../api/meta.ts';
import { ANNOTATIONS } from '../api/names.ts';
import type { Secret } from '../api/resources.ts';
import type { Registry } from '../api/v3/index.ts';
import { mayBeSentTo } from '../subjects/catalog/rules/registry-destination.ts';
import { isShareable } from '../subjects/content/rules/core-objects/form.ts';

/** Whether this object, and not another one of the same name, owns the Secret. */
export const isOwnedBy = (secret: Secret, owner: { metadata: ObjectMeta }) =>
  secret.metadata.ownerReferences?.some(({ uid }) => uid === owner.metadata.uid) ?? false;

/** The only registry that passwords of a Secret may be sent to; undefined when the Secret names none. */
export const registryOf = (secret: Secret) => secret.metadata.annotations?.[ANNOTATIONS.registry];

/**
 * Whether a registry may use a Secret as its password. Without this check, a user who may write a Registry could have any
 * Secret of the namespace sent to any host. The Secret itself determines what is allowed: by the registry that it names, by
 * its owner, or by the label that allows every microservice to use it.
 */
export function isPasswordOf(secret: Secret, registry: Registry): boolean {
  const allowed = registryOf(secret);
  if (allowed !== undefined && !mayBeSentTo(registry.spec, allowed)) return false;
  const isNobodys = (secret.metadata.ownerReferences ?? []).length === 0;
  return isOwnedBy(secret, registry) || isShareable(secret) || (allowed !== undefined && isNobodys);
}

/** `data` of a Secret -> text by key. */
export function decodeData(data: Record<string, string> = {}): Record<string, string> {
  return Object.fromEntries(Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]));
}

/** Text by key -> `data` of a Secret. */
export function encodeData(text: Record<string, string | undefined>): Record<string, string> {
  const data: Record<string, string> = {};
  for (const [key, value] of Object.entries(text)) {
    if (value !== undefined) data[key] = Buffer.from(value).toString('base64');
  }
  return data;
}
