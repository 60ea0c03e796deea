import type { Structural } from '../../../api/structural.ts';
import { cut } from '../../../rules/conditions.ts';

/**
 * The value within the bounds of its schema: longer texts and lists are cut, numbers are moved into
 * their range, unknown and undefined members are left out. Statuses need this, so that no report of a machine makes
 * the API server refuse the whole status.
 */
export function bounded(value: unknown, schema: Structural | undefined): unknown {
  if (!schema) return value;
  if (typeof value === 'string')
    return cut(value, (schema.maxLength as number | undefined) ?? Number.POSITIVE_INFINITY);
  if (typeof value === 'number') return boundedNumber(value, schema);
  if (Array.isArray(value))
    return value.slice(0, schema.maxItems as number | undefined).map((item) => bounded(item, schema.items));
  const { properties } = schema;
  if (typeof value !== 'object' || value === null || !properties) return value;
  const members = Object.entries(value)
    .filter(([name]) => Object.hasOwn(properties, name))
    .map(([name, member]) => [name, bounded(member, properties[name])] as const);
  return Object.fromEntries(members.filter(([, member]) => member !== undefined));
}

function boundedNumber(value: number, { type, minimum, maximum }: Structural): number | undefined {
  if (Number.isNaN(value)) return undefined;
  const whole = type === 'integer' ? Math.round(value) : value;
  const least = (minimum as number | undefined) ?? Number.MIN_SAFE_INTEGER;
  const most = (maximum as number | undefined) ?? Number.MAX_SAFE_INTEGER;
  return Math.min(Math.max(whole, least), most);
}
