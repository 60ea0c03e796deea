import type { z } from 'zod';
import { structuralOf } from '../api/normal-form.ts';
import { prune, tooLong, withoutNulls } from '../api/structural.ts';
import { quoted } from './document.ts';
import { invalid } from './errors.ts';

/** The first violation of a value: its path, and what would be valid. */
export interface Violation {
  path: readonly (string | number)[];
  message: string;
}

interface CheckOptions {
  /** drop unknown fields instead of refusing them (docs/spec/rest-v3.md#unknown-members) */
  tolerant?: boolean;
}

/** Parses a value by a schema: nulls removed, defaults filled in. */
export function validated<T extends z.ZodType>(
  schema: T,
  value: unknown,
  { tolerant = false }: CheckOptions = {},
): { ok: true; value: z.infer<T> } | { ok: false; violation: Violation } {
  const structural = structuralOf(schema);
  const long = tooLong(value, structural);
  if (long) return { ok: false, violation: { path: long.path, message: `must have at most ${long.max} ${long.what}` } };
  const known = tolerant ? prune(value, structural).value : value;
  const input = withoutNulls(known, structural);
  const parsed = schema.safeParse(input);
  if (parsed.success) return { ok: true, value: parsed.data };
  const issue = firstOf(parsed.error.issues);
  const path = issue.path.map((part) => (typeof part === 'symbol' ? String(part) : part));
  const at = valueAt(input, path);
  return { ok: false, violation: { path, message: `${shown(at, path)}${wanted(issue, at)}` } };
}

/**
 * Parses a value by a kind's spec schema: nulls removed, unknown fields dropped when `tolerant`, defaults filled in.
 * Throws a DomainError that names the first violation: field path, value unless it is secret, and what would be valid.
 * `path` stands before the field's own path.
 */
export function validateSpec<T extends z.ZodType>(
  schema: T,
  value: unknown,
  { tolerant = false, path = '' }: CheckOptions & { path?: string } = {},
): z.infer<T> {
  const result = validated(schema, value, { tolerant });
  if (result.ok) return result.value;
  const { violation } = result;
  const field = formatPath(violation.path, path);
  throw invalid(field ? `${field}: ${violation.message}` : violation.message, field || undefined);
}

/** `microservices[0].container.ports`. */
export function formatPath(path: readonly (string | number)[], prefix = ''): string {
  return path.reduce<string>(
    (text, part) => (typeof part === 'number' ? `${text}[${part}]` : text ? `${text}.${part}` : part),
    prefix,
  );
}

/** The message for a violation for which the schema has no message: the value, and what would be valid. */
export function explain(issue: z.core.$ZodIssue, input: unknown): string {
  const path = issue.path.map((part) => (typeof part === 'symbol' ? String(part) : part));
  const value = valueAt(input, path);
  return `${path.length > 0 ? shown(value, path) : ''}${isOwn(issue) ? issue.message : wanted(issue, value)}`;
}

/** Whether the schema has a message of its own. */
const isOwn = (issue: Issue) => issue.code === 'custom' || !/^(Invalid|Too |Unrecognized)/.test(issue.message);

type Issue = z.core.$ZodIssue;

/** Violations of shape before those of rules: a rule about a list of malformed items is of little help. */
function firstOf(issues: readonly Issue[]): Issue {
  return (issues.find((issue) => issue.code !== 'custom') ?? issues[0]) as Issue;
}

/** Members whose values may be secret and never appear in messages. */
const SECRET = new Set([
  'value',
  'password',
  'newPassword',
  'currentPassword',
  'totp',
  'code',
  'codeVerifier',
  'resetToken',
  'refreshToken',
  'token',
  'key',
  'config',
  'variables',
  'data',
  'privateKey',
]);

function shown(value: unknown, path: readonly (string | number)[]): string {
  if (value === undefined || typeof value === 'object') return '';
  const field = path.findLast((part) => typeof part === 'string');
  if (typeof field === 'string' && SECRET.has(field)) return '';
  return `${quoted(typeof value === 'string' ? withoutCredentials(value) : value)} is not valid: `;
}

/** Characters of a refused text that are looked at. */
const LOOKED_AT = 1024;

/**
 * The beginning of a text. A URL may contain a user name and a password, which are secret; also when the text is cut between
 * them and their "@".
 */
function withoutCredentials(text: string): string {
  return text.length > LOOKED_AT
    ? text.slice(0, LOOKED_AT).replace(/(\/\/|^)[^/@:]*:[^/@]*(?:@|$)/g, '$1***@')
    : text.replace(/(\/\/|^)[^/@:]*:[^/@]*@/g, '$1***@');
}

function wanted(issue: Issue, value: unknown): string {
  switch (issue.code) {
    case 'invalid_type':
      if (value === undefined) return 'is required';
      return isOwn(issue) ? issue.message : `must be ${TYPES[issue.expected] ?? issue.expected}`;
    case 'too_small':
      if (issue.origin === 'array' && isOwn(issue)) return issue.message;
      return issue.origin === 'array'
        ? `must have at least ${issue.minimum} items`
        : `must be ${issue.inclusive === false ? 'greater than' : 'at least'} ${issue.minimum}`;
    case 'too_big':
      return issue.origin === 'array'
        ? `must have at most ${issue.maximum} items`
        : `must be ${issue.inclusive === false ? 'less than' : 'at most'} ${issue.maximum}`;
    case 'invalid_value':
      return value === undefined
        ? `is required: one of ${issue.values.join(', ')}`
        : `must be one of ${issue.values.join(', ')}`;
    case 'unrecognized_keys':
      return `unknown field ${issue.keys.slice(0, KEYS_NAMED).map(quoted).join(', ')}`;
    case 'invalid_union':
      return value === undefined ? 'is required' : 'must be a number or text';
    default:
      return issue.message;
  }
}

/** Unknown fields that a message names. */
const KEYS_NAMED = 8;

const TYPES: Readonly<Record<string, string>> = {
  string: 'text',
  number: 'a number',
  int: 'an integer',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  record: 'an object',
};

function valueAt(value: unknown, path: readonly (string | number)[]): unknown {
  return path.reduce<unknown>(
    (at, part) => (typeof at === 'object' && at !== null ? (at as Record<string | number, unknown>)[part] : undefined),
    value,
  );
}
