import { commandProblem } from '../../../src/wire/sessions.ts';
import { ApiError } from './errors.ts';

export function readLogQuery(query: URLSearchParams): { tail: number; since?: number; until?: number } {
  const tail = Number(query.get('tailLines') ?? query.get('tail') ?? 100);
  if (!Number.isInteger(tail) || tail < 1 || tail > 5000)
    throw new ApiError('INVALID_ARGUMENT', 'tailLines is a whole number from 1 to 5000', { field: 'tailLines' });
  return { tail, since: readTime(query, 'since'), until: readTime(query, 'until') };
}

/** Nothing means a shell with a terminal. */
export function readExecQuery(query: URLSearchParams): { command?: readonly string[]; tty?: boolean } {
  const command = query.getAll('command');
  const problem = commandProblem(command);
  if (problem !== undefined) throw new ApiError('INVALID_ARGUMENT', problem, { field: 'command' });
  return { ...(command.length > 0 && { command }), ...(query.has('tty') && { tty: readBoolean(query, 'tty') }) };
}

function readTime(query: URLSearchParams, name: string): number | undefined {
  const text = query.get(name);
  if (text === null || text === '') return undefined;
  const value = Date.parse(text);
  if (Number.isNaN(value)) throw new ApiError('INVALID_ARGUMENT', `${name} is not a date and time`, { field: name });
  return value;
}

const BOOLEANS: ReadonlyMap<string, boolean> = new Map([
  ['', false],
  ['false', false],
  ['0', false],
  ['no', false],
  ['true', true],
  ['1', true],
  ['yes', true],
]);

export function readBoolean(query: URLSearchParams, name: string): boolean {
  const value = BOOLEANS.get((query.get(name) ?? '').toLowerCase());
  if (value === undefined) throw new ApiError('INVALID_ARGUMENT', `${name} is true or false`, { field: name });
  return value;
}
