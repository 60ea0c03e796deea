import type { StatusReport } from '../src/wire/agent.ts';
import { knownFolders, type ListedFileSet, withKnown } from '../src/wire/known-folders.ts';
import { parseHave, RESPONSES } from '../src/wire/sections.ts';
import { SYSTEM_FILES_ASKED, type SystemFileContent, type SystemFileSetView } from '../src/wire/system-files.ts';
import type { Answer } from './http.ts';

const PATH = RESPONSES.systemFiles.path.slice('/agent'.length);

/** The system's files on the machine of a test agent: it fetches each content that it lacks, as ours does, and keeps the digest alone. */
export class FetchedFiles {
  readonly #get: (path: string) => Promise<Answer>;
  #digest = '';
  #sets: readonly SystemFileSetView[] | undefined;
  #here: ReadonlySet<string> = new Set();
  #fetched = 0;

  constructor(get: (path: string) => Promise<Answer>) {
    this.#get = get;
  }

  /** of the list whose files are all here; empty while there is none */
  get digest(): string {
    return this.#digest;
  }

  /** names of the sets */
  get sets(): readonly string[] {
    return (this.#sets ?? []).map(({ name }) => name);
  }

  /** the number of files that were fetched so far */
  get fetched(): number {
    return this.#fetched;
  }

  /** Reads the list and fetches missing content. */
  async follow(): Promise<void> {
    const had = this.#sets ?? [];
    const known = knownFolders(had);
    const { headers, text } = await this.#get(known ? `${PATH}?known=${known}` : PATH);
    const { systemFiles } = JSON.parse(text) as { systemFiles: ListedFileSet[] };
    const sets = systemFiles.map((set) => withKnown(set, had) ?? set);
    const listed = new Set(sets.flatMap(({ files }) => files.map(({ digest }) => digest)));
    const missing = [...listed].filter((digest) => !this.#here.has(digest));
    for (let i = 0; i < missing.length; i += SYSTEM_FILES_ASKED)
      await this.#fetch(missing.slice(i, i + SYSTEM_FILES_ASKED));
    this.#here = listed;
    this.#sets = sets;
    this.#digest = parseHave(headers.etag as string | undefined).systemFiles ?? '';
  }

  /** All files as they are due now, by set and path; nothing of it is kept. */
  async content(): Promise<Map<string, Map<string, Buffer>>> {
    const { systemFiles: sets } = JSON.parse((await this.#get(PATH)).text) as { systemFiles: SystemFileSetView[] };
    const found = new Map<string, Map<string, Buffer>>();
    for (const { name, files } of sets) {
      const digests = files.map(({ digest }) => digest);
      const contents: Record<string, string> = {};
      for (let i = 0; i < digests.length; i += SYSTEM_FILES_ASKED)
        Object.assign(contents, await this.#contents(digests.slice(i, i + SYSTEM_FILES_ASKED)));
      const of = ({ path, digest }: (typeof files)[number]) =>
        [path, Buffer.from(contents[digest] ?? '', 'base64')] as const;
      found.set(name, new Map(files.map(of)));
    }
    return found;
  }

  async #fetch(digests: readonly string[]): Promise<void> {
    await this.#contents(digests);
    this.#fetched += digests.length;
  }

  async #contents(digests: readonly string[]): Promise<SystemFileContent['contents']> {
    const { contents } = JSON.parse(
      (await this.#get(`${PATH}/content?digests=${digests.join(',')}`)).text,
    ) as SystemFileContent;
    const missing = digests.filter((digest) => contents[digest] === undefined);
    // The list has changed meanwhile: it is read again.
    if (missing.length > 0) throw new Error(`${missing.length} of ${digests.length} files of the system were not sent`);
    return contents;
  }

  /** What a report says of the files; nothing until there was a list. */
  report(): Pick<StatusReport, 'systemFiles'> {
    return this.#sets ? { systemFiles: { digest: this.#digest } } : {};
  }
}
