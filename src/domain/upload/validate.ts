import type { z } from 'zod';

/**
 * Parses a value by a kind's spec schema: nulls removed, unknown fields dropped when `tolerant`, defaults filled in.
 * Throws a DomainError that names the first violation: field path, value where it is no secret, what would be right.
 */
export function validateSpec<T extends z.ZodType>(
  _schema: T,
  _value: unknown,
  _options?: { tolerant?: boolean; path?: string; secretFields?: readonly string[] },
): z.infer<T> {
  throw new Error('not written yet');
}
