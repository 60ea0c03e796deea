import { createHash } from 'node:crypto';

/**
 * JSON with sorted keys and without absent members: equal values give equal text, whatever their key order.
 * Members that are `undefined` are left out, as JSON.stringify does; undefined itself reads as null.
 */
export function canonicalJson(value: unknown): string {
  return textOf(value) ?? 'null';
}

function textOf(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map((item) => canonicalJson(item)).join(',')}]`;
  const members: string[] = [];
  for (const key of Object.keys(value).sort()) {
    const text = textOf((value as Record<string, unknown>)[key]);
    if (text !== undefined) members.push(`${JSON.stringify(key)}:${text}`);
  }
  return `{${members.join(',')}}`;
}

/** The first 16 hex digits of the SHA-256 of a value's canonical JSON. */
export function digestOf(value: unknown): string {
  return createHash('sha256').update(canonicalJson(value)).digest('hex').slice(0, 16);
}
