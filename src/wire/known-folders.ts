import { type SystemFileSetView, systemSetDigest } from './system-files.ts';

/**
 * Folders of the sets of the system's files that an agent has as they are listed (docs/spec/agent-channel.md#system-files). A server of
 * the message bus has a file for each of hundreds of links in one folder: their list would be most of what an edit of something else
 * sends.
 */

/** A set as it is listed for an agent that named folders. */
export interface ListedFileSet extends SystemFileSetView {
  /** folders whose files are those that the agent named, and are not among `files` */
  kept?: readonly string[];
}

/** Digests of folders by `<set>/<folder>`. */
type KnownFolders = ReadonlyMap<string, string>;

/** Folders with fewer files are not worth a name. */
const FEWEST_FILES = 16;
const MOST_FOLDERS = 16;
const FOLDER = /^([A-Za-z0-9._-]{1,64})\//;
const KNOWN = /^([-a-z0-9]{1,63}\/[A-Za-z0-9._-]{1,64}):([0-9a-f]{16})$/;

type Files = SystemFileSetView['files'];

const folderOf = (path: string): string | undefined => FOLDER.exec(path)?.[1];
const filesIn = (files: Files, folder: string): Files => files.filter(({ path }) => folderOf(path) === folder);

/** The large folders of these sets, as the query parameter `known`; empty where there are none. */
export function knownFolders(sets: readonly SystemFileSetView[]): string {
  const named = sets.flatMap(({ name, files }) => {
    const folders = Map.groupBy(files, ({ path }) => folderOf(path));
    return [...folders].flatMap(([folder, inIt]) =>
      folder !== undefined && inIt.length >= FEWEST_FILES
        ? [`${name}/${folder}:${systemSetDigest({ files: inIt })}`]
        : [],
    );
  });
  return named.slice(0, MOST_FOLDERS).join(',');
}

/** Reads what {@link knownFolders} writes; what has another form is left out. */
export function parseKnown(text: string): KnownFolders {
  const known = text.split(',', MOST_FOLDERS).flatMap((one) => {
    const [, folder, digest] = KNOWN.exec(one) ?? [];
    return folder !== undefined && digest !== undefined ? [[folder, digest] as const] : [];
  });
  return new Map(known);
}

/** The set without the files of the folders that the agent has. */
export function withoutKnown(set: SystemFileSetView, known: KnownFolders): ListedFileSet {
  const kept = [...known].flatMap(([named, digest]) => {
    const [name = '', folder = ''] = named.split('/');
    return name === set.name && systemSetDigest({ files: filesIn(set.files, folder) }) === digest ? [folder] : [];
  });
  if (kept.length === 0) return set;
  const files = set.files.filter(({ path }) => !kept.includes(folderOf(path) ?? ''));
  return { name: set.name, files, kept };
}

/** The whole set, with files of the list that the agent had; undefined where that list does not have a folder. */
export function withKnown(
  { kept = [], ...listed }: ListedFileSet,
  had: readonly SystemFileSetView[],
): SystemFileSetView | undefined {
  const former = had.find(({ name }) => name === listed.name)?.files ?? [];
  const folders = kept.map((folder) => filesIn(former, folder));
  return folders.some((files) => files.length === 0)
    ? undefined
    : { ...listed, files: [...listed.files, ...folders.flat()] };
}
