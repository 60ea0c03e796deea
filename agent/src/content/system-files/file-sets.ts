import { hash } from 'node:crypto';
import { BOUNDS } from '../../../../src/api/bounds.ts';
import type { Log } from '../../../../src/lib/log.ts';
import type { MicroserviceView } from '../../../../src/wire/agent.ts';
import {
  busCredsSet,
  isPlatformSet,
  type SystemFileContent,
  type SystemFileSetView,
  systemSetDigest,
} from '../../../../src/wire/system-files.ts';
import {
  base64Length,
  type SentFileSet,
  SYSTEM_FOLDER,
  type SystemFilesItem,
  setPath,
  systemFilesOf,
} from '../../domain/system-files.ts';
import { type FoundPath, keyPath, type Resolution, resolveMappings, rootOf } from '../../domain/volume-mounts.ts';
import type { Tree } from '../../machine/atomic-directory.ts';
import { errorText } from '../../machine/log.ts';
import type { MountedFiles } from '../../machine/mounted-files.ts';
import { type InUse, removeUnused } from '../../machine/unused-files.ts';

export interface FileSetsDependencies {
  files: MountedFiles;
  log: Log;
}

type File = SystemFileSetView['files'][number];

/** A file whose content is not on this machine. */
export interface MissingFile extends Pick<File, 'digest' | 'size'> {
  /** what people call it */
  name: string;
}

/** A set as it is on this machine. */
interface FileSet {
  root: string;
  /** the path of each file's own copy; empty where nothing of the set is here */
  files: ReadonlyMap<string, string>;
  /** some content of it is here */
  isHere: boolean;
  /** the content that was sent is here */
  isPresent: boolean;
  /** why it is not, for people; absent while the content is only awaited */
  problem?: string;
}

/** A content that was asked for and not received as its digest says. */
interface Refusal {
  /** for people; empty where it is no problem yet */
  text: string;
  times: number;
}

/**
 * The sets of the system's files on this machine. A set changes when the content of all its files is here, as a whole: a key
 * never stands beside another key's certificate. A set that cannot be taken stays as it is.
 */
export class FileSets {
  readonly #deps: FileSetsDependencies;
  #sent: readonly SentFileSet[] | undefined;
  /** by name */
  #sets: ReadonlyMap<string, FileSet> = new Map();
  /** problems of sets without a name */
  #nameless: string[] = [];
  /** content that sets wait with, by digest: for a missing file of the same set, or for room on the disk */
  #kept: ReadonlyMap<string, Uint8Array> = new Map();
  /** received since the sets were last written */
  readonly #received = new Map<string, Uint8Array>();
  /** by digest */
  #missing = new Map<string, MissingFile>();
  readonly #refused = new Map<string, Refusal>();
  /** what could not be written, by path */
  readonly #failed = new Map<string, string>();
  #changes = 0;

  constructor(deps: FileSetsDependencies) {
    this.#deps = deps;
  }

  /** Changes each set of which all content is here. An undefined list is not known. */
  apply(sent: readonly SentFileSet[] | undefined): void {
    if (sent !== this.#sent) this.#refused.clear();
    this.#sent = sent;
    this.#failed.clear();
    this.#missing = new Map();
    const here = this.#contentHere();
    const before = this.#sets;
    const named = (sent ?? []).filter(({ name }) => name !== '');
    this.#sets = new Map(named.map((set) => [set.name, this.#place(set, here)]));
    this.#nameless = (sent ?? []).flatMap((set) => (set.name === '' && 'problem' in set ? [set.problem] : []));
    this.#kept = this.#stillWanted(here);
    this.#received.clear();
    for (const [name, { problem }] of this.#sets)
      if (problem && problem !== before.get(name)?.problem)
        this.#deps.log.warn({ name, error: problem }, "The system's files could not be taken; the files here stay");
  }

  /** Whether something could not be written, and has to be tried again. */
  get hasFailed(): boolean {
    return this.#failed.size > 0;
  }

  /** Files whose content is not on this machine; content that was refused comes last. */
  get missing(): MissingFile[] {
    const times = ({ digest }: MissingFile) => this.#refused.get(digest)?.times ?? 0;
    return [...this.#missing.values()].sort((a, b) => times(a) - times(b));
  }

  /** Whether all content that was sent is here. */
  get isComplete(): boolean {
    return this.#nameless.length === 0 && [...this.#sets.values()].every(({ isPresent }) => isPresent);
  }

  /** Grows with each change of the content here. */
  get changes(): number {
    return this.#changes;
  }

  /** What keeps the sets from being what the controller wants, for people. */
  get problems(): string[] {
    const named = [...this.#sets].flatMap(([name, { problem }]) => (problem ? [`${name}: ${problem}`] : []));
    return [...named, ...this.#nameless];
  }

  /** Digests of the sets of the platform that are here as they were sent, by name. */
  get digests(): Record<string, string> {
    const here = (this.#sent ?? []).flatMap((set) =>
      !('problem' in set) && isPlatformSet(set.name) && this.#sets.get(set.name)?.isPresent
        ? [[set.name, systemSetDigest(set)] as const]
        : [],
    );
    return Object.fromEntries(here.slice(0, BOUNDS.reportedFileSets));
  }

  /** The content here of each set, as a number, for people. */
  get items(): SystemFilesItem[] {
    return [...this.#sets].map(([name, { root, isHere, isPresent, problem = '' }]): SystemFilesItem => {
      const tree: Tree = (isHere && this.#deps.files.read(root)) || new Map();
      const size = [...tree.values()].reduce((sum, { length }) => sum + length, 0);
      const state = problem ? 'Failed' : isPresent ? 'Ready' : 'Pending';
      const changedAt = isHere ? this.#deps.files.changedAt(root) : undefined;
      return { name, state, files: tree.size, size, changedAt, lastError: problem };
    });
  }

  /**
   * Takes content that was asked for, base64 by digest; returns whether all of it has these digests. `apply` writes
   * it.
   */
  take(asked: readonly MissingFile[], contents: SystemFileContent['contents']): boolean {
    const taken = asked.map((file) => {
      const content = contents[file.digest];
      const bytes = content === undefined ? undefined : bytesOf(file, content);
      if (bytes) this.#received.set(file.digest, bytes);
      else this.#refuse(file, content);
      return bytes !== undefined;
    });
    return taken.every(Boolean);
  }

  /** The view with the path that each of its mappings binds; what a container binds is there when this returns. */
  resolve(view: MicroserviceView): Resolution {
    return resolveMappings(view, (mapping) => {
      const named = systemFilesOf(mapping);
      if (!named) return undefined;
      // The controller lets no other microservice name them; a mistake there is not to show a key.
      if (!view.isSystem && named.set !== busCredsSet(view.uuid))
        return { message: `${waitsFor(named.set)}, which microservices of the system alone may mount` };
      return this.#find(named);
    });
  }

  /**
   * Removes sets and files that are neither listed nor in use; returns whether nothing is left that will have to be removed. Does nothing
   * while the list is not known.
   */
  tidy(inUse: InUse): boolean {
    const { files, log } = this.#deps;
    if (!this.#sent) return true;
    const listed = new Set(this.#sent.map(({ name }) => setPath(name)));
    const removed = (path: string) => {
      if (path === rootOf(path)) this.#changes++;
      log.info({ path: rootOf(path) }, "Removed the system's files that nothing uses");
    };
    return removeUnused(files, SYSTEM_FOLDER, { listed, inUse, removed });
  }

  /** All content on this machine, by digest: of listed sets, of others that are still there, and what sets wait with. */
  #contentHere(): Map<string, Uint8Array> {
    const { files } = this.#deps;
    const here = new Map([...this.#kept, ...this.#received]);
    const note = (content: Uint8Array) => here.set(hash('sha256', content), content);
    for (const path of files.list(SYSTEM_FOLDER))
      if (path === rootOf(path)) for (const content of files.read(path)?.values() ?? []) note(content);
    return here;
  }

  /** What the sets want that are not as they were sent. A directory that it was read from may be another one by now. */
  #stillWanted(here: ReadonlyMap<string, Uint8Array>): Map<string, Uint8Array> {
    const wanted = new Map<string, Uint8Array>();
    for (const set of this.#sent ?? []) {
      if ('problem' in set || this.#sets.get(set.name)?.isPresent) continue;
      for (const { digest } of set.files) {
        const content = here.get(digest);
        if (content) wanted.set(digest, content);
      }
    }
    return wanted;
  }

  #place(set: SentFileSet, here: ReadonlyMap<string, Uint8Array>): FileSet {
    const root = setPath(set.name);
    if ('problem' in set) return this.#asItIs(root, set.problem);
    const tree = new Map<string, Uint8Array>();
    const missing: File[] = [];
    for (const file of set.files) {
      const content = here.get(file.digest);
      if (content?.length === file.size) tree.set(file.path, content);
      else missing.push(file);
    }
    for (const { digest, size, path } of missing)
      this.#missing.set(digest, { digest, size, name: `${set.name}/${path}` });
    if (missing.length > 0) return this.#asItIs(root, this.#refusalOf(missing));
    const failure = this.#attempt(root, () => this.#write(root, tree));
    if (failure !== undefined) return this.#asItIs(root, failure);
    return { root, files: ownPaths(root, tree), isHere: true, isPresent: true };
  }

  #write(root: string, tree: Tree): void {
    const { files } = this.#deps;
    const isOther = !isSame(files.read(root), tree);
    files.write(root, tree);
    if (isOther) this.#changes++;
  }

  #asItIs(root: string, problem: string | undefined): FileSet {
    const tree = this.#deps.files.read(root);
    const own = ownPaths(root, tree ?? new Map());
    return { root, files: own, isHere: tree !== undefined, isPresent: false, problem };
  }

  #refuse({ digest, name }: MissingFile, content: string | undefined): void {
    const times = (this.#refused.get(digest)?.times ?? 0) + 1;
    // Content that is absent once is no problem: the list has changed, and is about to arrive.
    const absent = times === 1 ? '' : `the controller does not send ${name}`;
    const other = `the controller sends other content as ${name} than its digest says`;
    this.#refused.set(digest, { text: content === undefined ? absent : other, times });
  }

  /** Why missing files are not here, for people; undefined while they are only awaited. */
  #refusalOf(missing: readonly File[]): string | undefined {
    return missing.map(({ digest }) => this.#refused.get(digest)?.text).find(Boolean);
  }

  /** The path that a mapping binds, or why there is none. */
  #find({ set: name, path }: { set: string; path: string }): FoundPath {
    const waits = waitsFor(name);
    const set = this.#sets.get(name);
    const own = set?.files.get(path);
    if (!set?.isHere || (path !== '' && own === undefined && !set.isPresent))
      return { message: set?.problem ? `${waits}: ${set.problem}` : `${waits}, which have not arrived` };
    const { root } = set;
    if (path === '') return { path: root };
    if (own === undefined) return { message: `${waits}, which have no file ${JSON.stringify(path)}` };
    const failure = this.#makeOwn(own, root, path);
    return failure === undefined ? { path: own } : { message: `${waits}: ${failure}` };
  }

  /** Makes the copy of one file that never changes. */
  #makeOwn(own: string, root: string, path: string): string | undefined {
    const { files } = this.#deps;
    if (files.has(own)) return undefined;
    return this.#attempt(own, () => {
      const content = files.read(root)?.get(path);
      if (!content || keyPath(root, path, content) !== own) throw new Error(`${path} is not what was written`);
      files.writeOnce(own, content);
    });
  }

  /** Why something could not be written, or undefined. */
  #attempt(path: string, act: () => void): string | undefined {
    try {
      act();
      this.#failed.delete(path);
      return undefined;
    } catch (error) {
      const text = errorText(error);
      this.#failed.set(path, text);
      return text;
    }
  }
}

const waitsFor = (set: string) => `waits for the system's files ${set}`;

/** The bytes of a content; undefined where they are not what the digest says. */
function bytesOf({ digest, size }: MissingFile, content: string): Uint8Array | undefined {
  if (content.length > base64Length(size)) return undefined;
  const bytes = Buffer.from(content, 'base64');
  return bytes.length === size && hash('sha256', bytes) === digest ? bytes : undefined;
}

function ownPaths(root: string, tree: Tree): Map<string, string> {
  return new Map([...tree].map(([path, content]) => [path, keyPath(root, path, content)]));
}

function isSame(present: Tree | undefined, tree: Tree): boolean {
  if (present?.size !== tree.size) return false;
  return [...tree].every(([path, content]) => {
    const is = present.get(path);
    return is !== undefined && Buffer.compare(is, content) === 0;
  });
}
