import { hash } from 'node:crypto';
import { ANNOTATIONS } from '../../../../api/names.ts';

/** Keys that core objects accept (a file name below `..data` would be in the way of kubelets). */
export const LEGAL_KEY = /^(?!\.\.|\.$)[-._a-zA-Z0-9]{1,253}$/;

/** The key under which a core object keeps a key of the v3 API: itself when legal, else slug, `-`, 8 hex digits. */
export function storedKey(key: string): string {
  if (LEGAL_KEY.test(key)) return key;
  const slug = key
    .replace(/[^-_a-zA-Z0-9.]+/g, '-')
    .replace(/^[.-]+/, '')
    .slice(0, 200);
  return `${slug || 'x'}-${hash('sha256', key).slice(0, 8)}`;
}

/** The annotation that maps stored keys to their v3 spelling; undefined when all are legal. */
export function keysAnnotation(keys: Iterable<string>): string | undefined {
  const escaped = [...keys].map((key) => [storedKey(key), key]).filter(([stored, key]) => stored !== key);
  return escaped.length === 0 ? undefined : JSON.stringify(Object.fromEntries(escaped));
}

/** Data of a core object under the v3 spelling of its keys. An annotation that cannot be read renames nothing. */
export function withV3Keys<V>(
  { metadata }: { metadata: { annotations?: Record<string, string> } },
  data: Readonly<Record<string, V>>,
): Record<string, V> {
  const names = namesIn(metadata.annotations?.[ANNOTATIONS.keys]);
  return Object.fromEntries(
    Object.entries(data).map(([key, value]) => {
      const name = Object.hasOwn(names, key) ? names[key] : undefined;
      return [typeof name === 'string' ? name : key, value];
    }),
  );
}

function namesIn(text: string | undefined): Readonly<Record<string, unknown>> {
  if (text === undefined) return {};
  try {
    const names: unknown = JSON.parse(text);
    return typeof names === 'object' && names !== null ? (names as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
