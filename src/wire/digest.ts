import { createHash } from 'node:crypto';

/**
 * JSON with sorted keys and without absent members: equal values give equal text, whatever their key order.
 * Members that are `undefined` are left out, as JSON.stringify does.
 */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, member: unknown) =>
    member !== null && typeof member === 'object' && !Array.isArray(member)
      ? Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)))
      : member,
  );
}

/** The first 16 hex digits of the SHA-256 of a value's canonical JSON. */
export function digestOf(value: unknown): string {
  return createHash('sha256')
    .update(canonicalJson(value) ?? 'undefined')
    .digest('hex')
    .slice(0, 16);
}
