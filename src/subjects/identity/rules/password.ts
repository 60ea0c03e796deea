import type { LoginPolicy } from './policy.ts';

/** Characters of the longest password: the hash of more would cost an attacker nothing and the controller time. */
const LONGEST_PASSWORD = 128;

const CLASSES: readonly [pattern: RegExp, what: string][] = [
  [/\p{Lu}/u, 'an upper-case letter'],
  [/\p{Ll}/u, 'a lower-case letter'],
  [/\p{Nd}/u, 'a digit'],
];

/** Every rule that a password violates; none for a good one. Its history is checked elsewhere. */
export function passwordProblems(password: string, policy: Pick<LoginPolicy, 'minPasswordLength'>): string[] {
  const length = Array.from(password).length;
  return [
    ...(length < policy.minPasswordLength
      ? [`the password needs at least ${policy.minPasswordLength} characters, and has ${length}`]
      : []),
    ...(length > LONGEST_PASSWORD ? [`the password has at most ${LONGEST_PASSWORD} characters, not ${length}`] : []),
    ...CLASSES.flatMap(([pattern, what]) => (pattern.test(password) ? [] : [`the password needs ${what}`])),
    ...(/\p{Cc}/u.test(password) ? ['the password has no control characters'] : []),
  ];
}

export const isTooLong = (password: string): boolean =>
  Array.from(password.slice(0, 3 * LONGEST_PASSWORD)).length > LONGEST_PASSWORD;

/** Without characters that people mistake for each other. */
const ALPHABETS = ['ABCDEFGHJKLMNPQRSTUVWXYZ', 'abcdefghijkmnopqrstuvwxyz', '23456789'] as const;

/** A password that satisfies the rules. `random(n)`: an integer below n that nobody can foresee. */
export function temporaryPassword(
  { minPasswordLength }: Pick<LoginPolicy, 'minPasswordLength'>,
  random: (below: number) => number,
): string {
  const all = ALPHABETS.join('');
  const pick = (alphabet: string) => alphabet.charAt(random(alphabet.length));
  const characters = Array.from({ length: Math.max(12, minPasswordLength) }, (_, i) => pick(ALPHABETS[i] ?? all));
  for (let i = characters.length - 1; i > 0; i--) {
    const j = random(i + 1);
    const [a, b] = [characters[i] as string, characters[j] as string];
    characters[i] = b;
    characters[j] = a;
  }
  return characters.join('');
}
