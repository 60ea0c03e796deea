import { expect, test } from 'vitest';
import { z } from 'zod';
import { choice, logFields, optionalFlag, queryFlag } from './fields.ts';
import { queryOf, validate } from './validate.ts';

const schema = z
  .object({
    ...logFields(),
    mode: choice(['all', 'some'], 'all', ''),
    command: z.array(z.string()).optional(),
    key: z.string('a key').min(1, 'a key').optional(),
    set: z.object({ size: z.number().max(9) }).optional(),
    list: z.array(z.string().min(2)).max(1).optional(),
    color: z.object({ kind: z.enum(['red', 'blue']) }).optional(),
  })
  .refine(({ mode, follow }) => !(mode === 'some' && follow), { path: ['follow'], error: 'follow: not of some' });

const REFUSED: Record<string, [object, string, string]> = {
  'a flag that is neither true nor false': [{ follow: 'maybe' }, 'follow', 'follow "maybe" is not true or false'],
  'a number out of range': [{ tail: '0' }, 'tail', 'tail "0" is not a whole number from 1 to 5000'],
  'a number that is not whole': [{ tail: '1.5' }, 'tail', 'tail "1.5" is not a whole number from 1 to 5000'],
  'a text that is no number': [{ tail: 'x' }, 'tail', 'tail "x" is not a whole number from 1 to 5000'],
  'a text that is no time': [{ since: 'soon' }, 'since', 'since "soon" is not a date and time'],
  'a word that is none of those': [{ mode: 'none' }, 'mode', 'mode "none" is none of all, some'],
  'an empty text': [{ key: '' }, 'key', 'key "" is not a key'],
  'a long text': [{ mode: 'x'.repeat(90) }, 'mode', `mode "${'x'.repeat(50)}" is none of all, some`],
  'an object in place of a text': [{ key: {} }, 'key', 'key is not a key'],
  'an object without a member': [{ set: {} }, 'set.size', 'set.size is required: a number'],
  'a number that is too large': [{ set: { size: 10 } }, 'set.size', 'set.size "10" is not at most 9'],
  'a text that is too short': [{ list: ['a'] }, 'list.0', 'list.0 "a" is not at least 2 characters long'],
  'a list that is too long': [{ list: ['aa', 'bb'] }, 'list', 'list is not at most 1 items long'],
  'a text in place of a list': [{ list: 'aa' }, 'list', 'list "aa" is not a list'],
  'an absent choice': [{ color: {} }, 'color.kind', 'color.kind is required: one of red, blue'],
  'members that exclude each other': [{ mode: 'some', follow: 'yes' }, 'follow', 'follow: not of some'],
};
for (const [what, [input, field, message]] of Object.entries(REFUSED))
  test(`${what} is refused with the field, the value, and the values that are valid`, () => {
    expect(() => validate(schema, input)).toThrow(
      expect.objectContaining({ code: 'INVALID_ARGUMENT', message, details: { field } }),
    );
  });

test('a query has lists of the members that are lists, the first value of the others, and no unknown member', () => {
  const query = new URLSearchParams('command=a&command=b&mode=all&mode=none&other=1&since=&follow');
  expect(queryOf(query, schema)).toEqual({ command: ['a', 'b'], mode: 'all', since: '', follow: '' });
});

test('a query may spell true and false in several ways, and the absence of a flag means false', () => {
  const values = ['true', '1', 'YES', 'false', '0', 'no', '', undefined];
  expect(values.map((value) => z.object({ flag: queryFlag('') }).parse({ flag: value }).flag)).toEqual([
    ...[true, true, true],
    ...[false, false, false, false, false],
  ]);
  expect(z.object({ flag: optionalFlag('') }).parse({}).flag).toBeUndefined();
});
