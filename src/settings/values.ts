import { z } from 'zod';

/** Values of environment variables, as several subjects have them. */

export const port = (fallback: number) => z.coerce.number().int().min(0).max(65535).default(fallback);
export const amountVariable = (fallback: number, most: number) =>
  z.coerce.number().int().min(1).max(most).default(fallback);
export const flagVariableOf = (fallback: 'true' | 'false') =>
  z
    .enum(['true', 'false', '1', '0', ''])
    .default(fallback)
    .transform((text) => text === 'true' || text === '1');
export const flagVariable = flagVariableOf('false');
/** A variable that may be absent. */
export const textVariable = (description: string) => z.string().optional().describe(description);

export const listed = (text: string) =>
  text
    .split(',')
    .map((one) => one.trim())
    .filter((one) => one !== '');

export const seconds = (least: number, most: number) => z.coerce.number().int().min(least).max(most);

/** One error for all invalid variables, with the name and value of each and what would be valid. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}
