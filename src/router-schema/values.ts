import type { AttributeForm } from './schema.ts';

export type AttributeValue = string | number | boolean | Readonly<Record<string, unknown>>;

const FLAGS: Readonly<Record<string, boolean>> = {
  yes: true,
  true: true,
  on: true,
  '1': true,
  no: false,
  false: false,
  off: false,
  '0': false,
};

/** The value as a router has it, whatever spelling of it was given: numbers may be texts. Undefined for any other value. */
export function normalValue({ is }: Pick<AttributeForm, 'is'>, value: unknown): AttributeValue | undefined {
  if (typeof is !== 'string') return is.find((one) => one === value);
  if (is === 'map')
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : undefined;
  if (is === 'text') return typeof value === 'string' || typeof value === 'number' ? String(value) : undefined;
  if (is === 'flag') return typeof value === 'boolean' ? value : FLAGS[String(value).toLowerCase()];
  const whole = typeof value === 'string' && /^\s*[-+]?\d+\s*$/.test(value) ? Number(value) : value;
  return typeof whole === 'number' && Number.isSafeInteger(whole) ? whole : undefined;
}

/** What a value has to be, in words. */
export function expectationOf({ is }: Pick<AttributeForm, 'is'>): string {
  if (typeof is !== 'string') return `one of ${is.join(', ')}`;
  return { text: 'a text', whole: 'a whole number', flag: 'true or false', map: 'a map' }[is];
}
