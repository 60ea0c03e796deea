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

/** The first error of a document that is not YAML, in one line: the lines after it show the place. */
export function yamlProblem({ errors }: Pick<Document, 'errors'>): string {
  return (errors[0]?.message ?? '').split('\n')[0]?.replace(/:$/, '') ?? '';
}
