import { hash } from 'node:crypto';
import type { SystemFileContent, SystemFileSetView } from '../wire/system-files.ts';
import { onceEach } from './once-each.ts';

/** What a Secret has, as the API server sends it: desired states share these texts with the stores. */
export type Base64ByKey = Readonly<Record<string, string>>;

/** Files that the system needs on a node, in one directory; computed, so that no user can name them. */
export interface SystemFileSet {
  name: string;
  /** base64 by path */
  files: Readonly<Record<string, string>>;
}

/** Content of the files with these digests, base64 by digest; a digest that no file of the sets has is left out. */
export function systemFileContents(
  sets: readonly SystemFileSet[],
  digests: readonly string[],
): SystemFileContent['contents'] {
  const asked = new Set(digests);
  const contents: SystemFileContent['contents'] = {};
  for (const set of sets)
    for (const { path, digest } of systemFilesView(set).files) {
      const content = set.files[path];
      if (asked.has(digest) && content !== undefined) contents[digest] = content;
    }
  return contents;
}

/** A set of files as its node gets it: without content. */
export const systemFilesView = onceEach(
  ({ name, files }: SystemFileSet): SystemFileSetView => ({
    name,
    files: Object.entries(files).map(([path, content]) => {
      const { digest, size } = factsOf(content);
      return { path, digest, size };
    }),
  }),
);

interface FileFacts {
  digest: string;
  size: number;
}

/** Characters of contents whose digests are remembered: of the files of a node with many accounts of the bus, an edit changes few. */
const REMEMBERED = 16 * 2 ** 20;
/** Contents that were asked for last, and those before them, which are forgotten with the next generation. */
let [recent, former] = [new Map<string, FileFacts>(), new Map<string, FileFacts>()];
let room = REMEMBERED;

function factsOf(content: string): FileFacts {
  const known = recent.get(content);
  if (known) return known;
  const facts = former.get(content) ?? read(content);
  if (room < content.length) {
    [recent, former] = [new Map(), recent];
    room = REMEMBERED;
  }
  room -= content.length;
  recent.set(content, facts);
  return facts;
}

function read(content: string): FileFacts {
  const bytes = Buffer.from(content, 'base64');
  return { digest: hash('sha256', bytes), size: bytes.length };
}
