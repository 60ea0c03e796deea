import type { Fields } from '../api/rules.ts';
import { invalid } from './errors.ts';

/** Readers of single values of a body or a YAML document. Each throws a DomainError that names the field. */

export type { Fields };

/** The values that mean "not set" in both forms: null, empty text, an empty object or list. */
export const isEmpty = (value: unknown): boolean =>
  value === undefined ||
  value === null ||
  value === '' ||
  (typeof value === 'object' && Object.keys(value).length === 0);

export function fieldsOf(value: unknown, field = 'body'): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw invalid(`${field}: must be an object`, field);
  return value as Fields;
}

export function listOf(value: unknown, field: string): unknown[] {
  if (!Array.isArray(value)) throw invalid(`${field}: must be a list`, field);
  return value;
}

export function textOf(value: unknown, field: string): string {
  if (value === undefined || value === null || value === '') throw invalid(`${field}: is required`, field);
  if (typeof value !== 'string') throw invalid(`${field}: must be text`, field);
  return value;
}

export function booleanOf(value: unknown, field: string): boolean | undefined {
  if (isEmpty(value)) return undefined;
  if (typeof value !== 'boolean') throw invalid(`${field}: must be true or false`, field);
  return value;
}

export function jsonOf(text: string, field: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw invalid(`${field}: must be JSON text`, field);
  }
}

/** The object without members that are null or empty text. */
export function withoutEmpty(item: Fields): Fields {
  return Object.fromEntries(
    Object.entries(item).filter(([, value]) => value !== undefined && value !== null && value !== ''),
  );
}
