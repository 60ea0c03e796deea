/**
 * Texts that make a backtracking search slow, made from the expression itself: runs of each kind of character that it tells apart,
 * alternations of two, and repetitions of each part, after what the parts before need and before what no part matches.
 */

/** A text of any length: `before`, then `unit` as often as it fits, then `after`. */
export interface Attack {
  before: string;
  unit: string;
  after: string;
}

type Part =
  | { is: 'atom'; letters: ReadonlySet<string> }
  | { is: 'repeat'; part: Part; min: number; max: number }
  | { is: 'sequence'; parts: Part[] }
  | { is: 'choice'; parts: Part[] };

const EMPTY: Part = { is: 'sequence', parts: [] };
const LETTERS = [...Array.from({ length: 128 }, (_, code) => String.fromCharCode(code)), '\u00a0', 'é', '\u2028', '漢'];
/** Kinds of characters of one expression that are combined with each other. */
const KINDS = 9;

/** The attacks on an expression. */
export function attacksOn(expression: RegExp): Attack[] {
  const root = parse(expression);
  const atoms: ReadonlySet<string>[] = [];
  collect(root, atoms);
  if (/\\b/i.test(expression.source)) atoms.push(new Set(LETTERS.filter((letter) => /\w/.test(letter))));
  const kinds = kindsOf(atoms);
  const stranger = LETTERS.find((letter) => !atoms.some((set) => set.has(letter))) ?? '\n';
  const ends = [...new Set(['', stranger, '\n'])];
  const befores = new Set<string>(['']);
  const units = new Set<string>();
  walk(root, '', befores, units);
  for (const one of kinds) for (const other of kinds) units.add(one + other);
  for (const unit of [...units].filter(({ length }) => length > 2))
    for (const kind of kinds.slice(0, 6)) units.add(unit + kind).add(kind + unit);
  const attacks = ends.flatMap((after) => [
    ...[...units].map((unit) => ({ before: '', unit, after })),
    ...[...befores].flatMap((before) => kinds.map((unit) => ({ before, unit, after }))),
  ]);
  return attacks.filter(({ unit }) => unit !== '');
}

/** Texts before each repetition, and texts of parts that a repetition begins or ends. */
function walk(part: Part, before: string, befores: Set<string>, units: Set<string>): void {
  if (part.is === 'repeat') {
    befores.add(before);
    units.add(sampleOf(part.part));
    walk(part.part, before, befores, units);
  }
  if (part.is === 'choice') for (const inner of part.parts) walk(inner, before, befores, units);
  if (part.is !== 'sequence') return;
  const { parts } = part;
  const cuts = [...parts.keys(), parts.length].filter((at) => at === 0 || at === parts.length || isCut(parts, at));
  for (const from of cuts)
    for (const to of cuts) if (from < to) units.add(parts.slice(from, to).map(sampleOf).join(''));
  parts.forEach((inner, at) => {
    if (inner.is !== 'atom') walk(inner, before + parts.slice(0, at).map(sampleOf).join(''), befores, units);
  });
}

const isCut = (parts: readonly Part[], at: number) => parts[at]?.is !== 'atom' || parts[at - 1]?.is !== 'atom';

/** A text that a part matches. */
function sampleOf(part: Part): string {
  switch (part.is) {
    case 'atom':
      return preferred([...part.letters]) ?? '';
    case 'repeat':
      return sampleOf(part.part).repeat(Math.min(Math.max(part.min, Math.min(1, part.max)), 64));
    case 'sequence':
      return part.parts.map(sampleOf).join('');
    case 'choice':
      return part.parts.map(sampleOf).find((text) => text !== '') ?? '';
  }
}

const preferred = (letters: readonly string[]) => letters.find((letter) => /[a-z0-9]/i.test(letter)) ?? letters[0];

function collect(part: Part, into: ReadonlySet<string>[]): void {
  if (part.is === 'atom') into.push(part.letters);
  if (part.is === 'repeat') collect(part.part, into);
  if (part.is === 'sequence' || part.is === 'choice') for (const inner of part.parts) collect(inner, into);
}

/** One character for each set of atoms that match it, characters of most atoms first. */
function kindsOf(atoms: readonly ReadonlySet<string>[]): string[] {
  const kinds = new Map<string, string[]>();
  for (const letter of LETTERS) {
    const matching = atoms.map((set) => (set.has(letter) ? '1' : '0')).join('');
    kinds.set(matching, [...(kinds.get(matching) ?? []), letter]);
  }
  const weight = (key: string) => key.replaceAll('0', '').length;
  return [...kinds]
    .toSorted(([a], [b]) => weight(b) - weight(a))
    .slice(0, KINDS)
    .map(([, letters]) => preferred(letters) as string);
}

/** The parts of an expression as far as the attacks need them: anchors and references match nothing, looking around is a group. */
function parse({ source, flags }: RegExp): Part {
  const set = new Map<string, ReadonlySet<string>>();
  const matching = flags.replace(/[gy]/g, '');
  let at = 0;
  return choice();

  function choice(): Part {
    const parts = [sequence()];
    while (source[at] === '|') {
      at++;
      parts.push(sequence());
    }
    return parts.length === 1 ? (parts[0] as Part) : { is: 'choice', parts };
  }

  function sequence(): Part {
    const parts: Part[] = [];
    while (at < source.length && source[at] !== '|' && source[at] !== ')') parts.push(repeated(one()));
    return { is: 'sequence', parts };
  }

  function one(): Part {
    const rest = source.slice(at);
    const group = /^\((\?(<?[=!]|:|<\w+>|[a-z-]+:))?/.exec(rest);
    if (group) {
      at += group[0].length;
      const inner = choice();
      at++;
      return inner;
    }
    const [text = ''] =
      /^(\[(?:[^\\\]]|\\.)*\]|\\[pPkx]\{[^}]*\}|\\x[0-9a-f]{2}|\\u[0-9a-f]{4}|\\u\{[0-9a-f]+\}|\\c.|\\.|.)/isu.exec(
        rest,
      ) ?? [];
    at += text.length;
    return /^([\^$]|\\[bBk1-9])/.test(text) ? EMPTY : { is: 'atom', letters: lettersOf(text) };
  }

  function repeated(part: Part): Part {
    const [text = '', mark = '', low, comma, high] = /^(?:([*+?])|\{(\d+)(,?)(\d*)\})\??/.exec(source.slice(at)) ?? [];
    at += text.length;
    if (text === '') return part;
    const min = mark === '+' ? 1 : Number(low ?? 0);
    const max = mark === '?' ? 1 : mark !== '' || (comma && !high) ? Number.POSITIVE_INFINITY : Number(high || low);
    return { is: 'repeat', part, min, max };
  }

  function lettersOf(text: string): ReadonlySet<string> {
    const known = set.get(text);
    if (known) return known;
    const expression = new RegExp(`^(?:${text})$`, matching);
    const letters = new Set(LETTERS.filter((letter) => expression.test(letter)));
    set.set(text, letters);
    return letters;
  }
}
