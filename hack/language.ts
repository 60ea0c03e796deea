import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseSync } from 'oxc-parser';
import { ROOT } from './paths.ts';
import { isTestFile, repositoryFiles } from './repository.ts';

/** A sentence, title, line or commit subject that breaks a rule of CONTRIBUTING.md#language. */
export interface Finding {
  /** The name of the count in hack/language.json. */
  count: string;
  /** A path of the repository, or the hash of a commit. */
  file: string;
  /** Absent for a commit. */
  line?: number;
  text: string;
  better: string;
}

/** hack/language.json: how many findings of each count there may be. */
export interface Bounds {
  about: string;
  /** 0 for a count that has none. */
  bounds: Readonly<Record<string, number>>;
}

/** Words that have a better one. */
const WORDS: readonly { count: string; pattern: RegExp; better: string }[] = [
  { count: 'pronouns', pattern: /\bone\s+that\b/gi, better: 'the noun again: "a node that", "an entry that"' },
  { count: 'pronouns', pattern: /\bthat\s+of\b/gi, better: 'the noun again: "the name of", "the digest of"' },
  { count: 'pronouns', pattern: /\bthose\s+of\b/gi, better: 'the noun again: "the names of", "the entries of"' },
  { count: 'pronouns', pattern: /\bwhat\s+is\b/gi, better: 'a noun: "the state of", "the content of"' },
  { count: 'verbs', pattern: /\btold\b/gi, better: 'sent, received, notified, reported' },
  { count: 'verbs', pattern: /\bheard\b/gi, better: 'received' },
  { count: 'verbs', pattern: /\bgone\b/gi, better: 'deleted, removed, disconnected, lost' },
  { count: 'verbs', pattern: /\b(?:go(?:es|ing)?|went)\s+on\b/gi, better: 'continue, continues' },
  { count: 'verbs', pattern: /\bheld\b/gi, better: 'frozen, stored, blocked, open' },
];

/** A title that begins so is the tail of the describe's sentence, even when it reads well behind it. */
const TAIL = /^(?:that|which|who|whose|of|and|also|but|or|nor|than) /;
/** A title that begins so needs a describe whose title is the subject. */
const PREDICATE =
  /^(?:is|are|was|were|has|have|does|do|may|can|cannot|must|never|not|becomes|begins|finds|gets|gives|goes|keeps|leaves|makes|needs|refuses|says|sends|shows|stays|takes|writes) /;
/** The title of a describe that cannot be the subject of its tests. */
const NO_SUBJECT = /^(?:of|with|without|in|on|at|by|for|from|to|when|while|after|before|if) |:$/;
const TITLED: ReadonlySet<string> = new Set(['test', 'it', 'describe']);

const LONGEST_LINE = 170;
const LONGEST_SUBJECT = 72;
/** `agent: refuse redirects`, `agent, rest: refuse redirects`: the group is the verb. */
const SUBJECT = /^[a-z][\w./-]*(?:, [a-z][\w./-]*)*: ([a-z][a-z-]*) \S/;
const NO_VERB = /^(?:an?|the|of|from|no|each|every|all|any|one|two|it|its|what|when|only|more)$|(?:[^s]s|[^e]ed|ing)$/;
const VERBS: ReadonlySet<string> = new Set(['bring', 'embed', 'ping', 'shed', 'string']);

/** Findings in the comments and test titles of a TypeScript file. */
export function findInCode(file: string, text: string): Finding[] {
  const { comments, program } = parseSync(file, text);
  const titles = isTestFile(file) ? titlesIn(program as unknown as SyntaxNode, text) : [];
  // Everything else becomes a character that is neither white space nor part of a word, so that offsets stay.
  const prose = Array<string>(text.length).fill('\0');
  const keep = (start: number, kept: string) => {
    for (let at = 0; at < kept.length; at++) prose[start + at] = kept[at] as string;
  };
  let last: { end: number; type: string } | undefined;
  for (const { type, start, end } of comments) {
    const blank = (found: string) => found.replace(/[^\n]/g, ' ');
    const inner = text.slice(start, end).replace(/^\/[/*]+|^[ \t]*\*+\/?/gm, blank);
    keep(
      start,
      inner.replace(/`[^`\n]*`/g, (code) => '\0'.repeat(code.length)),
    );
    const between = text.slice(last?.end ?? start, start);
    if (type === 'Line' && last?.type === 'Line' && /^\s*$/.test(between)) keep(last.end, between);
    last = { end, type };
  }
  for (const { start, title } of titles) keep(start, title);
  const tails = titles.filter(({ isTail }) => isTail);
  return [
    ...wordsIn(file, text, prose.join(''), 'code'),
    ...tails.map(({ start, title }) => ({
      count: 'titles',
      file,
      line: lineAt(text, start),
      text: title,
      better: 'a sentence with its subject: "a node that ..." for "that ...", "a node is ..." for "is ..."',
    })),
  ];
}

/** Findings in a Markdown page. Neither blocks nor spans of code count. */
export function findInPage(file: string, text: string): Finding[] {
  const found: Finding[] = [];
  let isFenced = false;
  let isCode = false;
  let isAfterBlank = true;
  const lines = text.split('\n').map((line, index) => {
    const isFence = /^ *```/.test(line);
    if (isFence) isFenced = !isFenced;
    isCode = /^(?: {4}|\t)/.test(line) ? isCode || isAfterBlank : isCode && line === '';
    isAfterBlank = line === '';
    if (isFence || isFenced || isCode) return '\0'.repeat(line.length);
    // A row of a table cannot be broken.
    if (line.length > LONGEST_LINE && !line.startsWith('|')) {
      const text = `${line.length} characters`;
      found.push({ count: 'long lines', file, line: index + 1, text, better: 'a break at the end of a clause' });
    }
    return line.replace(/`[^`]*`|\]\([^()\s]*\)/g, (code) => '\0'.repeat(code.length));
  });
  return [...found, ...wordsIn(file, text, lines.join('\n'), 'pages')];
}

/** The finding of a commit subject, if it is too long or not `part: imperative`. */
export function findInSubject(hash: string, subject: string): Finding[] {
  const verb = SUBJECT.exec(subject)?.[1];
  const isImperative = verb !== undefined && (VERBS.has(verb) || !NO_VERB.test(verb));
  if ((isImperative && subject.length <= LONGEST_SUBJECT) || subject.startsWith('Revert "')) return [];
  const better = isImperative
    ? `${LONGEST_SUBJECT} characters at most`
    : 'part: imperative, such as "agent: refuse redirects"';
  return [{ count: 'commit subjects', file: hash, text: subject, better }];
}

/** `prose` has the length of `text`. */
function wordsIn(file: string, text: string, prose: string, where: string): Finding[] {
  return WORDS.flatMap(({ count, pattern, better }) =>
    [...prose.matchAll(pattern)].map(({ 0: found, index }) => ({
      count: `${count} in ${where}`,
      file,
      line: lineAt(text, index),
      text: found.replace(/\s+/g, ' '),
      better,
    })),
  );
}

const lineAt = (text: string, offset: number) => text.slice(0, offset).split('\n').length;

interface SyntaxNode {
  type: string;
  start: number;
  end: number;
  [member: string]: unknown;
}

interface Title {
  start: number;
  title: string;
  isTail: boolean;
}

/**
 * The titles of a file of tests. A title is read behind the titles of its describes, as vitest prints it, so a predicate stands
 * behind a describe that is its subject ("a link" > "is refused"). A relative pronoun or a conjunction at its beginning is a
 * tail there, too: nobody finds the subject of "that runs is kept".
 */
function titlesIn(program: SyntaxNode, text: string): Title[] {
  const found: Title[] = [];
  const visit = (node: SyntaxNode, subject: string | undefined): void => {
    const { callee, arguments: given } = node as { callee?: SyntaxNode; arguments?: SyntaxNode[] };
    const name = callee && rootOf(callee);
    const [first] = given ?? [];
    let inner = subject;
    if (first && name !== undefined && TITLED.has(name) && (first.type === 'TemplateLiteral' || isText(first))) {
      const title = text.slice(first.start + 1, first.end - 1);
      const isDescribe = name === 'describe';
      const isTail = !isDescribe && (TAIL.test(title) || (subject === undefined && PREDICATE.test(title)));
      found.push({ start: first.start + 1, title, isTail });
      if (isDescribe) inner = NO_SUBJECT.test(title) ? undefined : title;
    }
    for (const member of Object.values(node))
      for (const one of Array.isArray(member) ? member : [member]) if (isNode(one)) visit(one, inner);
  };
  visit(program, undefined);
  return found;
}

/** `test` of `test.skipIf(no).each(rows)`. */
function rootOf({ type, name, object, callee }: SyntaxNode): string | undefined {
  if (type === 'Identifier') return name as string;
  const next = object ?? callee;
  return isNode(next) ? rootOf(next) : undefined;
}

const isNode = (value: unknown): value is SyntaxNode =>
  typeof value === 'object' && value !== null && typeof (value as SyntaxNode).type === 'string';
const isText = ({ type, value }: SyntaxNode) => type === 'Literal' && typeof value === 'string';

/** Everything that the rules find in the files of a checkout. */
function findInRepository(root: string): Finding[] {
  return repositoryFiles(root).flatMap((file) => {
    const find = CODE.test(file) ? findInCode : PAGES.test(file) ? findInPage : undefined;
    return find ? find(file, readFileSync(join(root, file), 'utf8')) : [];
  });
}

/** The findings in the subjects of the commits of a range, such as `origin/main..HEAD`. A check would fail for ever: history stays. */
function findInCommits(root: string, range: string): Finding[] {
  const log = git(root, ['log', '--no-merges', '--format=%h %s', range]) ?? '';
  return log.split('\n').flatMap((line) => {
    const [hash = '', ...words] = line.split(' ');
    return hash === '' ? [] : findInSubject(hash, words.join(' '));
  });
}

const CODE = /^(?:src|agent|cli|testing|e2e|bench|hack)\/.*\.ts$/;
const PAGES = /^(?:README|CONTRIBUTING|docs\/.*)\.md$/;

/**
 * Compares the numbers of findings with their bounds: one message for each that differs. Of a count above its bound the findings
 * that `isNew` accepts are listed, or all when it accepts none.
 */
export function compareCounts(
  findings: readonly Finding[],
  bounds: Bounds['bounds'],
  isNew: (finding: Finding) => boolean,
): string[] {
  const groups = Map.groupBy(findings, ({ count }) => count);
  return [...new Set([...Object.keys(bounds), ...groups.keys()])].flatMap((count) => {
    const found = groups.get(count) ?? [];
    const bound = bounds[count] ?? 0;
    if (found.length === bound) return [];
    if (found.length < bound) return [`${count}: ${found.length}, fewer than ${bound}. Lower the bound: ${LOWER}`];
    const fresh = found.filter(isNew);
    const listed = (fresh.length > 0 ? fresh : found).slice(0, LISTED).map((one) => `\n  ${describeFinding(one)}`);
    return [`${count}: ${found.length}, more than ${bound}. Write one of these in another way:${listed.join('')}`];
  });
}

const LOWER = 'node_modules/.bin/node hack/language.ts --lower';
const LISTED = 40;

const describeFinding = ({ file, line, text, better }: Finding) =>
  `${file}${line === undefined ? '' : `:${line}`}: "${text}"; better: ${better}`;

/** The messages of `make check`. */
export function checkLanguage(): string[] {
  return compareCounts(findInRepository(ROOT), readBounds().bounds, createIsNew(ROOT));
}

/**
 * Returns a function: whether a finding is in a line that was added after the last change of the bounds. At that commit counts and
 * bounds were equal, so these lines have the excess.
 */
function createIsNew(root: string): (finding: Finding) => boolean {
  const commit = git(root, ['log', '-1', '--format=%H', '--', BOUNDS])?.trim();
  const diff = commit && git(root, ['diff', '--unified=0', '--find-renames', '--no-color', commit, '--']);
  const added = addedLines(diff || '');
  const others = new Set(git(root, ['ls-files', '--others', '--exclude-standard'])?.split('\n'));
  return ({ file, line }) => line === undefined || others.has(file) || added.has(`${file}:${line}`);
}

/** `file:line` of each line that a diff without context adds. */
export function addedLines(diff: string): Set<string> {
  const added = new Set<string>();
  let file = '';
  for (const line of diff.split('\n')) {
    if (line.startsWith('+++ b/')) file = line.slice('+++ b/'.length);
    const [, start, length = '1'] = /^@@ -[\d,]+ \+(\d+)(?:,(\d+))? @@/.exec(line) ?? [];
    for (let at = 0; start !== undefined && at < Number(length); at++) added.add(`${file}:${Number(start) + at}`);
  }
  return added;
}

function git(root: string, args: string[]): string | undefined {
  const { status, stdout } = spawnSync('git', args, { cwd: root, encoding: 'utf8', maxBuffer: 256 * 1024 ** 2 });
  return status === 0 ? stdout : undefined;
}

const BOUNDS = 'hack/language.json';
const readBounds = (): Bounds => JSON.parse(readFileSync(join(ROOT, BOUNDS), 'utf8'));

/** Lowers each bound to its count; a bound is raised by hand, where a reviewer sees it. */
function lowerBounds(findings: readonly Finding[]): void {
  const { bounds, ...rest } = readBounds();
  const counts = Map.groupBy(findings, ({ count }) => count);
  const lowered = Object.entries(bounds).map(([count, bound]) => [
    count,
    Math.min(bound, counts.get(count)?.length ?? 0),
  ]);
  writeFileSync(join(ROOT, BOUNDS), `${JSON.stringify({ ...rest, bounds: Object.fromEntries(lowered) }, null, 2)}\n`);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const [option, range] = process.argv.slice(2);
  const findings = option === '--commits' && range ? findInCommits(ROOT, range) : findInRepository(ROOT);
  if (option === '--lower') lowerBounds(findings);
  else for (const one of findings) process.stdout.write(`${one.count}: ${describeFinding(one)}\n`);
}
