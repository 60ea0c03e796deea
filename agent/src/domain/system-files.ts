import { BOUNDS } from '../../../src/api/bounds.ts';
import type { VolumeMapping } from '../../../src/api/container/index.ts';
import { SYSTEM_FILES_PREFIX, type SystemFileSetView, systemFileSetSchema } from '../../../src/wire/system-files.ts';
import { pathsProblem } from '../../../src/wire/volume-mounts.ts';
import { namedBy } from './volume-mounts.ts';

/** Where the sets of the system's files lie, below the directory of volumes. */
export const SYSTEM_FOLDER = 'system';

/** A set that cannot be taken: its content on the machine stays. */
interface RefusedFileSet {
  /** empty where that cannot be read */
  name: string;
  problem: string;
}

export type SentFileSet = SystemFileSetView | RefusedFileSet;

/** A set on this machine, as the local API shows it: without content. */
export interface SystemFilesItem {
  name: string;
  /** Ready: all content that the controller listed last is here */
  state: 'Ready' | 'Pending' | 'Failed';
  /** how many are here */
  files: number;
  /** bytes */
  size: number;
  /** when its content here changed last, Unix ms */
  changedAt?: number;
  lastError: string;
}

/** The directory of a set. */
export function setPath(name: string): string {
  return `${SYSTEM_FOLDER}/${name}`;
}

/** The set that a mapping names, and a file of it; an empty path is the whole set. Undefined for any other mapping. */
export function systemFilesOf({
  type,
  hostDestination,
}: Pick<VolumeMapping, 'type' | 'hostDestination'>): { set: string; path: string } | undefined {
  if (type !== 'volumeMount' || !hostDestination.startsWith(SYSTEM_FILES_PREFIX)) return undefined;
  const { mount, key } = namedBy({ hostDestination: hostDestination.slice(SYSTEM_FILES_PREFIX.length) });
  return { set: mount, path: key };
}

/** Characters of the base64 of so many bytes. */
export function base64Length(bytes: number): number {
  return 4 * Math.ceil(bytes / 3);
}

/** Reads the list of the controller. A set that is beyond a bound, or cannot become files, does not affect the others. */
export function readFileSets(list: readonly unknown[]): SentFileSet[] {
  const read = list.slice(0, BOUNDS.systemFileSets).map(readFileSet);
  const { systemFileSets: most, systemFileBytes } = BOUNDS;
  const seen = new Set<string>();
  let total = 0;
  const sets = read.map((set): SentFileSet => {
    if (set.name !== '' && seen.has(set.name)) return { name: '', problem: `the set ${set.name} is listed twice` };
    seen.add(set.name);
    if ('problem' in set) return set;
    const length = set.files.reduce((sum, { size }) => sum + base64Length(size), 0);
    if (total + length > systemFileBytes)
      return {
        name: set.name,
        problem: `the files of the system on a node may have ${systemFileBytes} characters of base64`,
      };
    total += length;
    return set;
  });
  const beyond = { name: '', problem: `the controller lists ${list.length} sets, and a node may have ${most}` };
  return list.length > most ? [...sets, beyond] : sets;
}

function readFileSet(item: unknown): SentFileSet {
  const parsed = systemFileSetSchema.safeParse(item);
  if (parsed.success) {
    const { name, files } = parsed.data;
    const paths = files.map(({ path }) => path);
    const problem = new Set(paths).size < paths.length ? 'a file is listed twice' : pathsProblem(paths, 'file');
    return problem === undefined ? parsed.data : { name, problem };
  }
  const name = systemFileSetSchema.shape.name.safeParse((item as { name?: unknown } | null)?.name).data ?? '';
  const [wrong] = parsed.error.issues;
  return { name, problem: `the controller's list cannot be read: ${wrong?.path.join('.')}: ${wrong?.message}` };
}
