import { posix } from 'node:path';
import { isTestFile } from './repository.ts';

/** A reference in a text to something that is not in the repository. */
export interface BrokenReference {
  file: string;
  line: number;
  text: string;
  reason: string;
}

/** Folders with which a path of the repository begins. */
const FOLDERS = [
  'src',
  'agent',
  'testing',
  'bin',
  'e2e',
  'bench',
  'hack',
  'docs',
  'charts',
  'crds',
  'manifests',
  'packaging',
] as const;

const PATH = new RegExp(`^(?:${FOLDERS.join('|')})/[\\w./@-]*$`);
/** A file or a folder that is named without its parent folder. */
const NAME = /^(?:[\w-]+\/)*(?:_?[\w-]+(?:\.[\w-]+)*\.ts|[\w-]+\/)$/;
const DOCS = /(?<![\w./-])docs\/[\w./-]*\w(?:#[\w-]+)?/g;
const LINK = /\]\(([^)\s]+)\)/g;
const CODE = /`([^`]+)`/g;
/** The part of a title with which a command selects tests. */
const TITLE = /(?:^|\s)-t (?:'([^']+)'|(\S+))/;
/** The import of a helper of tests. */
const HELPER = / from '(\.{1,2}\/(?:[^']*\/)?_[^']+)'/g;
/** Citations of documents that are not in the repository. */
const OUTSIDE =
  /\bgaps(?:-\d|: ?\d)|\bdesign(?:-agent)?(?:\.md)?,? section|\bdesign-agent\b|\(design\b|\bdesign:|\b[Dd]ocument [123]\b/g;

/**
 * Checks what texts refer to against the files of the repository: paths below docs/ with their headings everywhere; in
 * Markdown also links, and in code spans paths, names of files, and titles of tests (`-t`). The beginning of a path is
 * accepted, since filters of tests are such, and a path with a placeholder (`<kind>`, `*`) is not checked. `files` has the
 * text of every file to check, `paths` all that exist.
 */
export function findBrokenReferences(files: ReadonlyMap<string, string>, paths: Iterable<string>): BrokenReference[] {
  const all = [...paths];
  const exists = createExists(all);
  // Each path has a slash at both ends, so that names and folders are found in it.
  const text = all.map((path) => `/${path}/`).join('\n');
  const isNamed = (name: string) => text.includes(`/${name.replace(/\/+$/, '')}/`);
  const titles = createTitles(files);
  const headings = new Map(
    [...files].filter(([file]) => isMarkdown(file)).map(([file, text]) => [file, slugsOf(text)]),
  );

  function judge(path: string, fragment: string | undefined): string | undefined {
    if (!exists(path)) return `there is no ${path}`;
    if (fragment === undefined || headings.get(path)?.has(fragment) !== false) return undefined;
    return `${path} has no heading #${fragment}`;
  }

  const broken: BrokenReference[] = [];
  for (const [file, text] of files) {
    const folder = posix.dirname(file);
    const near = (path: string) => exists(path) || exists(posix.join(folder, path));
    const commands = createCommands();
    for (const [index, line] of text.split('\n').entries()) {
      const report = (what: string, reason: string | undefined) => {
        if (reason) broken.push({ file, line: index + 1, text: what, reason });
      };
      for (const [found] of line.matchAll(OUTSIDE)) report(found, 'cites a document that is not in the repository');
      for (const [found] of line.matchAll(DOCS)) {
        const [path = '', fragment] = found.split('#');
        report(found, judge(path, fragment));
      }
      if (!isMarkdown(file)) continue;
      for (const [, target = ''] of line.matchAll(LINK)) {
        if (/^[a-z]+:/.test(target)) continue;
        const [path = '', fragment] = target.split('#');
        report(target, judge(path === '' ? file : posix.join(folder, path), fragment));
      }
      commands.next(line);
      for (const [, code = ''] of line.matchAll(CODE)) {
        const [, quoted, bare] = TITLE.exec(code) ?? [];
        const title = quoted ?? bare;
        const filters = commands.filters(code);
        if (title !== undefined && !titles(filters).some((test) => test.includes(title)))
          report(title, `no test${filters.length > 0 ? ` of ${filters.join(' ')}` : ''} is titled ${title}`);
        for (const word of code.split(/[\s,;:()]+/))
          if (PATH.test(word) ? !near(word) : NAME.test(word) && !isNamed(word)) report(word, `there is no ${word}`);
      }
    }
  }
  return broken;
}

/** Returns a function: the texts of the tests whose paths have one of these filters in them, all without a filter. */
function createTitles(files: ReadonlyMap<string, string>): (filters: readonly string[]) => string[] {
  const texts = new Map(
    [...files].filter(([file]) => isTestFile(file)).map(([file, code]) => [file, code.replaceAll("\\'", "'")]),
  );
  // Tests that several files share are in a helper, which a file of tests imports.
  const shared = (file: string) =>
    [...(texts.get(file) ?? '').matchAll(HELPER)].map(([, path = '']) => posix.join(posix.dirname(file), path));
  return (filters) => {
    const named = [...texts.keys()].filter((file) => filters.length === 0 || filters.some((one) => file.includes(one)));
    return [...new Set([...named, ...named.flatMap(shared)])].map((file) => texts.get(file) ?? '');
  };
}

/** The commands of a page, line by line: a `-t` without a command selects from the files of the command before it. */
function createCommands() {
  /** Paths in the commands of the current line, or else of the last line that had some. */
  let former: string[] = [];
  return {
    next(line: string) {
      const here = [...line.matchAll(CODE)].flatMap(([, code = '']) => filtersOf(code));
      if (here.length > 0) former = /\|\s*same\b/.test(line) ? [...former, ...here] : here;
      else if (!line.startsWith('|') || /`npx vitest run/.test(line)) former = [];
    },
    filters: (code: string) => (code.includes(RUN) ? filtersOf(code) : former),
  };
}

const RUN = 'vitest run ';
const filtersOf = (code: string) =>
  code.includes(RUN)
    ? code
        .replace(TITLE, '')
        .split(/\s+/)
        .filter((word) => PATH.test(word))
    : [];

/**
 * The files that a reader of these pages reaches by links, the pages themselves included; of a folder all files. `paths` has
 * all files that there are, `read` returns the text of one.
 */
export function reachableFiles(
  starts: readonly string[],
  paths: readonly string[],
  read: (path: string) => string,
): string[] {
  const reached = new Set(starts);
  for (const path of reached) {
    if (!isMarkdown(path)) continue;
    for (const [, target = ''] of read(path).matchAll(LINK)) {
      if (/^(?:[a-z]+:|#)/.test(target)) continue;
      const to = posix.join(posix.dirname(path), target.split('#')[0] ?? '').replace(/\/$/, '');
      for (const one of paths) if (one === to || one.startsWith(`${to}/`)) reached.add(one);
    }
  }
  return [...reached].sort();
}

/** Returns a function: whether a file or folder has this path, or a path that begins with it. */
function createExists(paths: Iterable<string>): (path: string) => boolean {
  const sorted = [...paths].sort();
  return (path) => {
    const wanted = path.replace(/\/+$/, '');
    let low = 0;
    for (let high = sorted.length; low < high; ) {
      const middle = (low + high) >> 1;
      if ((sorted[middle] as string) < wanted) low = middle + 1;
      else high = middle;
    }
    return sorted[low]?.startsWith(wanted) ?? false;
  };
}

const isMarkdown = (file: string) => file.endsWith('.md');

/** The fragments of the headings of a page, as GitHub makes them. */
export function slugsOf(markdown: string): Set<string> {
  const slugs = new Set<string>();
  for (const [, title = ''] of markdown.replace(/^```[\s\S]*?^```/gm, '').matchAll(/^#{1,6} +(.+?) *#*$/gm)) {
    const slug = title
      .toLowerCase()
      .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-');
    let unique = slug;
    for (let count = 1; slugs.has(unique); count++) unique = `${slug}-${count}`;
    slugs.add(unique);
  }
  return slugs;
}
