import type { RestErrorCode } from '../../api/error-codes.ts';
import { badRequest } from './errors.ts';

/**
 * Refuses text that cannot be stored unchanged: half of a surrogate pair, which the API server replaces silently, and NUL,
 * which ends a text on the machine of the node.
 */
function requireText(text: string, where: string, code?: RestErrorCode<400>): void {
  if (!text.isWellFormed()) throw badRequest(`${where} holds half of a surrogate pair, which is no character`, code);
  if (text.includes('\0')) throw badRequest(`${where} holds the character NUL (U+0000), which no field may`, code);
}

/** The same for all texts in a JSON value, keys included. */
export function requireTexts(value: unknown, where: string, code?: RestErrorCode<400>): void {
  if (typeof value === 'string') requireText(value, where, code);
  if (typeof value !== 'object' || value === null) return;
  for (const [key, member] of Object.entries(value)) {
    requireText(key, where, code);
    requireTexts(member, where, code);
  }
}
