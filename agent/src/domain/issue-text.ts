import type { Document } from 'yaml';
import type { z } from 'zod';

const TYPES: Readonly<Record<string, string>> = {
  string: 'text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'a map',
};

/** What a value in a file of this machine would have to be, for people. A message of the schema's own stays. */
export function issueText(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      return `must be ${TYPES[issue.expected] ?? issue.expected}`;
    case 'invalid_value':
      return `must be one of ${issue.values.join(', ')}`;
    case 'too_small':
      return `must be at least ${issue.minimum}`;
    case 'too_big':
      return `must be at most ${issue.maximum}`;
    case 'unrecognized_keys':
      return `unknown rule ${issue.keys.map((key) => JSON.stringify(key)).join(', ')}`;
    default:
      return issue.message;
  }
}

/** Values that an error shows; any other, such as an address, may have a secret in it. */
const SHOWN = /^[\w .-]{1,40}$/;

/** What is wrong in a file: the name of the value, the value, and what it would have to be. */
export function wrongValue(issue: z.core.$ZodIssue, content: unknown): string {
  if (issue.path.length === 0) return issueText(issue);
  let value = content;
  for (const key of issue.path) value = (value as Record<PropertyKey, unknown> | null | undefined)?.[key];
  const isShown = typeof value !== 'object' && SHOWN.test(String(value));
  return `${issue.path.join('.')}${isShown ? ` ${JSON.stringify(value)}` : ''}: ${issueText(issue)}`;
}

/** The first error of a document that is not YAML, in one line: the lines after it show the place. */
export function yamlProblem({ errors }: Pick<Document, 'errors'>): string {
  return (errors[0]?.message ?? '').split('\n')[0]?.replace(/:$/, '') ?? '';
}
