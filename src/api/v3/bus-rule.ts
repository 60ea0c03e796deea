import { BOUNDS } from '../bounds.ts';
import { AGE_COLUMN, conditionsSchema, observedGenerationSchema, READY_COLUMN } from '../meta.ts';
import { atomicList, byteSize, integer, object, text } from '../schema.ts';

/** What the rules of accounts and of users of the message bus have in common. */

/** Up to U+00FF, without control characters besides white space: others do not survive in tokens of the v3 family. */
const LATIN = '^[\t-\r -\u00ff]*$';

/** Text that a token has. */
export const latinText = (max: number, min = 0) =>
  text({ min, max, pattern: LATIN, expects: 'text of characters up to U+00FF' });

/** A token of a subject: `>` alone is the last one. */
const TOKEN = '[!-\\-/-=?-~\u00a1-\u00ff]';
const PART = '[!-\\-/-~\u00a1-\u00ff]';
const SUBJECT = `((${TOKEN}|${PART}${PART}+)\\.)*${PART}+`;
const SUBJECT_EXPECTED =
  'a subject: tokens separated by ".", none of them empty, with characters up to U+00FF and without spaces; "*" stands for one token, ">" for the rest at the end';

/** A subject, which may have the wildcards `*` and `>`. */
export const subjectText = () =>
  text({ min: 1, max: BOUNDS.busSubject, pattern: `^${SUBJECT}$`, expects: SUBJECT_EXPECTED });

const EMPTY = 'must not be empty: servers take an empty list for all; leave it out, or deny [">"] to forbid all';

/** A list of which servers read an empty one as no restriction. */
export const filledList = <T extends Parameters<typeof atomicList>[0]>(item: T, max: number) =>
  atomicList(item, max).min(1, EMPTY);

const subjects = (what: string) => filledList(subjectText(), BOUNDS.busSubjects).optional().describe(what);
const queued = (what: string) =>
  filledList(
    text({
      min: 1,
      max: BOUNDS.busSubject,
      pattern: `^${SUBJECT}( ${SUBJECT})?$`,
      expects: `${SUBJECT_EXPECTED}; a queue group may follow after one space`,
    }),
    BOUNDS.busSubjects,
  )
    .optional()
    .describe(what);

/** Permissions of a user, or of users without permissions of their own. */
export const permissions = (of: string) => ({
  pubAllow: subjects(`Subjects that ${of} may publish, and no others; all when absent.`),
  pubDeny: subjects(`Subjects that ${of} may not publish. A denial wins over what is allowed.`),
  subAllow: queued(
    `Subjects that ${of} may subscribe, and no others; all when absent. "subject queue" for a queue group.`,
  ),
  subDeny: queued(`Subjects that ${of} may not subscribe. A denial wins over what is allowed.`),
  respMax: integer(0, 2 ** 31 - 1)
    .optional()
    .describe('Replies to a request that may be published whatever the permissions say; 0 means 1.'),
  respTtl: integer(0, Number.MAX_SAFE_INTEGER)
    .optional()
    .describe('Nanoseconds in which such replies may be published; 0 means two minutes.'),
});

/** A number of which -1 means no limit. */
export const limit = (what: string) =>
  integer(-1, Number.MAX_SAFE_INTEGER).optional().describe(`${what} -1 or absent: no limit.`);
export const byteLimit = (what: string) => byteSize().optional().describe(`${what} -1 or absent: no limit.`);

export const ruleName = text({ min: 1, max: BOUNDS.anyName })
  .optional()
  .describe('Name in references; metadata.name when absent. Immutable.');

export const ruleStatus = <T extends object>(recorded: T) =>
  object({ observedGeneration: observedGenerationSchema, ...recorded, conditions: conditionsSchema.optional() });

export const RULE_COLUMNS = [
  { name: 'Description', type: 'string', jsonPath: '.spec.description' },
  READY_COLUMN,
  AGE_COLUMN,
  { name: 'Message', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].message', priority: 1 },
] as const;
