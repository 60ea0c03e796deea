import type { MicroserviceEntry } from '../../../../api/v3/index.ts';
import type { Fields } from '../../../../rules/body-values.ts';
import { canonicalJson } from '../../../../wire/digest.ts';

/** Who owns the fields of an application, as the API server records it for server-side apply. */

/** `managedFields` of an object: which manager owns which fields. */
export interface ManagedFields {
  manager?: string;
  subresource?: string;
  fieldsV1?: Fields;
}

/** Whether a manager other than this one owns a field, or a part of it. */
export function isOwnedByOthers(managed: readonly ManagedFields[], manager: string, path: readonly string[]): boolean {
  return managed.some(
    (one) =>
      one.manager !== manager &&
      !one.subresource &&
      path.reduce<unknown>((at, step) => (at as Fields | undefined)?.[step], one.fieldsV1 ?? {}) !== undefined,
  );
}

/** Path of an entry in `managedFields`. */
export const entryPath = (name: string): readonly string[] => [
  'f:spec',
  'f:microservices',
  `k:${JSON.stringify({ name })}`,
];

/** Architectures are one member of an entry: another one of its images would be one of another version. */
const NOT_IMAGES = new Set(['registry', 'catalogId']);

/**
 * The members that both an entry and its template set, to different values. Over REST the template wins; a manifest is applied
 * again and again, so that the two would fight.
 */
export function conflicts(
  entry: MicroserviceEntry,
  part: MicroserviceEntry,
  managed: readonly ManagedFields[],
  manager: string,
): string[] {
  const isTaken = (path: readonly string[]) =>
    isOwnedByOthers(managed, manager, [...entryPath(entry.name), ...path.map((step) => `f:${step}`)]);
  const at = (value: unknown, path: readonly string[]) =>
    path.reduce<unknown>((member, step) => (member as Fields | undefined)?.[step], value);
  const paths = Object.entries(part).flatMap(([key, value]) => {
    if (key === 'name') return [];
    return key === 'container' || key === 'images'
      ? Object.keys(value as object).map((inner) => [key, inner])
      : [[key]];
  });
  const differs = (path: readonly string[]) => canonicalJson(at(entry, path)) !== canonicalJson(at(part, path));
  const others = Object.keys(entry.images ?? {}).filter((key) => !NOT_IMAGES.has(key) && !(key in (part.images ?? {})));
  const hasImages = Object.keys(part.images ?? {}).some((key) => !NOT_IMAGES.has(key));
  return [
    ...paths.filter((path) => isTaken(path) && differs(path)),
    ...(hasImages ? others.map((key) => ['images', key]).filter(isTaken) : []),
  ].map((path) => path.join('.'));
}
