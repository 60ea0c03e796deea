/**
 * Comparison of JSON values. `undefined` means absent, as in serialized JSON.
 */

type Json = Record<string, unknown>;

const isPlain = (value: unknown): value is Json => value !== null && typeof value === 'object' && !Array.isArray(value);

export function equal(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (Array.isArray(a) && Array.isArray(b)) {
    return a.length === b.length && a.every((item, index) => equal(item, b[index]));
  }
  if (!isPlain(a) || !isPlain(b)) return false;
  return keysOfBoth(a, b).every((key) => equal(own(a, key), own(b, key)));
}

/** Users choose the keys: one named `toString` or `__proto__` is an ordinary member. */
const own = (object: Json, key: string): unknown => (Object.hasOwn(object, key) ? object[key] : undefined);

function keysOfBoth(a: Json, b: Json): string[] {
  return [...new Set([...Object.keys(a), ...Object.keys(b)])];
}
