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

/**
 * Whether a live object already has all values of `desired`. It may have more: defaults, status, and fields of other
 * owners. Lists must have the same length and order, except those below metadata, which several owners add items to.
 * An absent map or list covers an empty one, since the server omits empty ones.
 */
export function covers(live: unknown, desired: unknown, path = ''): boolean {
  if (desired === undefined) return true;
  if (Array.isArray(desired)) {
    if (live === undefined) return desired.length === 0;
    if (!Array.isArray(live)) return false;
    if (path.startsWith('.metadata.')) {
      return desired.every((item) => live.some((other) => covers(other, item, path)));
    }
    return live.length === desired.length && desired.every((item, index) => covers(live[index], item, `${path}[]`));
  }
  if (isPlain(desired)) {
    if (live === undefined) return Object.values(desired).every((value) => value === undefined);
    return (
      isPlain(live) && Object.entries(desired).every(([key, value]) => covers(own(live, key), value, `${path}.${key}`))
    );
  }
  return live === desired;
}

/** The JSON merge patch (RFC 7386) that turns `from` into `to`; undefined when there is nothing to do. */
export function mergeDiff(from: unknown, to: unknown): unknown {
  if (equal(from, to)) return undefined;
  if (!isPlain(from) || !isPlain(to)) return to === undefined ? null : to;
  const changes = keysOfBoth(from, to).flatMap((key): [string, unknown][] => {
    const [before, after] = [own(from, key), own(to, key)];
    const change = after === undefined && before !== undefined ? null : mergeDiff(before, after);
    return change === undefined ? [] : [[key, change]];
  });
  return Object.fromEntries(changes);
}

/** JSON with sorted keys: equal values give equal text. */
export function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    isPlain(inner) ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1))) : inner,
  );
}

/** Users choose the keys: one named `toString` or `__proto__` is an ordinary member. */
const own = (object: Json, key: string): unknown => (Object.hasOwn(object, key) ? object[key] : undefined);

function keysOfBoth(a: Json, b: Json): string[] {
  return [...new Set([...Object.keys(a), ...Object.keys(b)])];
}
