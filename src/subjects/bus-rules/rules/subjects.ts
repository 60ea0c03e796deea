/** Subjects of the message bus: tokens separated by dots, `*` for any token, `>` for the rest. */

export const hasWildcards = (subject: string): boolean =>
  subject.split('.').some((token) => token === '*' || token === '>');

/** Whether every subject that the first one matches is matched by the second one. */
export const isWithin = (subject: string, other: string): boolean => areWithin(subject.split('.'), other.split('.'));

function areWithin(own: readonly string[], theirs: readonly string[]): boolean {
  const isOpen = theirs.at(-1) === '>';
  if (own.length < theirs.length || (own.length > theirs.length && !isOpen)) return false;
  return theirs.every(
    (token, index) => (isOpen && index === theirs.length - 1) || token === '*' || token === own[index],
  );
}

/** The first two subjects of a list of which one is within the other. */
export function overlapOf(subjects: readonly string[]): readonly [string, string] | undefined {
  const split = subjects.map((subject) => subject.split('.'));
  for (const [index, one] of split.entries())
    for (const other of split.slice(index + 1))
      if (areWithin(one, other) || areWithin(other, one)) return [one.join('.'), other.join('.')];
  return undefined;
}

/**
 * Why a subject cannot take the place of another one in an importing account: both end in `>` or neither does, and each `*` of the
 * other one returns once, as `*` or by its number as `$1`.
 */
export function renamingError(subject: string, local: string): string | undefined {
  const isOpen = (one: string) => one === '>' || one.endsWith('.>');
  if (isOpen(subject) !== isOpen(local))
    return `must end in ">" exactly where the subject ${JSON.stringify(subject)} does`;
  const stars = subject.split('.').filter((token) => token === '*').length;
  const references = local.split('.').filter((token) => token === '*' || /^\$[0-9]+$/.test(token));
  const beyond = references.find((token) => token !== '*' && (Number(token.slice(1)) > stars || token === '$0'));
  if (beyond) return `names ${beyond}, and the subject ${JSON.stringify(subject)} has ${stars} "*"`;
  return references.length === stars
    ? undefined
    : `must have each of the ${stars} "*" of the subject ${JSON.stringify(subject)} once, as "*" or as $1, $2 and so on`;
}

/** The subject under which an importing account has what it imports: references are wildcards. */
export const localSubject = (subject: string, local = subject): string =>
  local
    .split('.')
    .map((token) => (/^\$[0-9]+$/.test(token) ? '*' : token))
    .join('.');
