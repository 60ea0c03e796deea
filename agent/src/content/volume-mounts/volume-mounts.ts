import type { Log } from '../../../../src/lib/log.ts';
import type { MicroserviceView } from '../../../../src/wire/agent.ts';
import { type VolumeMountView, volumeMountProblem } from '../../../../src/wire/volume-mounts.ts';
import { systemFilesOf } from '../../domain/system-files.ts';
import {
  type FoundPath,
  keyPath,
  MOUNT_FOLDERS,
  namedBy,
  prefixesOf,
  prefixPath,
  type Resolution,
  type ResolvedMapping,
  resolveMappings,
  rootOf,
  rootPath,
  type SentVolumeMount,
  treeBelow,
  type VolumeMountItem,
} from '../../domain/volume-mounts.ts';
import { errorText } from '../../machine/log.ts';
import type { MountedFiles } from '../../machine/mounted-files.ts';
import { type InUse, removeUnused } from '../../machine/unused-files.ts';

export interface VolumeMountsDependencies {
  files: MountedFiles;
  log: Log;
}

/** A volume mount as it is on this machine. */
interface Mount {
  root: string;
  /** the path of each key's file; empty where nothing of it is here */
  keys: ReadonlyMap<string, string>;
  /** why there is nothing of it, or not what was sent */
  problem?: string;
  isHere: boolean;
}

/**
 * The files of the volume mounts of this node. What cannot be written, cannot be read, or has no source any more leaves what
 * is there.
 */
export class VolumeMounts {
  readonly #deps: VolumeMountsDependencies;
  /** by name */
  #mounts: ReadonlyMap<string, Mount> = new Map();
  #sent: readonly SentVolumeMount[] | undefined;
  /** parts that could not be written, by path */
  readonly #failed = new Map<string, string>();

  constructor(deps: VolumeMountsDependencies) {
    this.#deps = deps;
  }

  /** Writes what has changed. An undefined list is one that is not known. */
  apply(sent: readonly SentVolumeMount[] | undefined): void {
    if (sent === this.#sent && !this.hasFailed) return;
    this.#sent = sent;
    this.#failed.clear();
    const before = this.#mounts;
    this.#mounts = new Map((sent ?? []).map((mount) => [mount.name, this.#write(mount)]));
    for (const [name, { problem }] of this.#mounts)
      if (problem && problem !== before.get(name)?.problem)
        this.#deps.log.warn({ name, error: problem }, 'A volume mount could not be taken; what is here of it stays');
  }

  /** Whether something could not be written, and has to be tried again. */
  get hasFailed(): boolean {
    return this.#failed.size > 0;
  }

  /** What keeps volume mounts from being what the controller wants, for people. */
  get problems(): string[] {
    return [...this.#mounts].flatMap(([name, { problem }]) => (problem ? [`volume mount ${name}: ${problem}`] : []));
  }

  /** How many are here, and when the content of one changed last, Unix ms. */
  get status(): { active: number; changedAt: number | undefined } {
    const here = [...this.#mounts.values()].filter(({ isHere }) => isHere);
    const times = here.map(({ root }) => this.#deps.files.changedAt(root) ?? 0);
    return { active: here.length, changedAt: times.length > 0 ? Math.max(...times) : undefined };
  }

  /** What is here of each, for people. */
  get items(): VolumeMountItem[] {
    return (this.#sent ?? []).map((sent): VolumeMountItem => {
      const { uuid, name } = sent;
      const type = 'type' in sent ? sent.type : undefined;
      const { root = '', problem = '', isHere = false } = this.#mounts.get(name) ?? {};
      const isMissing = 'sourceMissing' in sent && sent.sourceMissing;
      const lastError = isMissing ? 'its Secret or ConfigMap does not exist' : problem;
      const state = problem ? 'Failed' : isHere ? 'Ready' : 'Pending';
      const tree = (isHere && this.#deps.files.read(root)) || new Map<string, Uint8Array>();
      const size = [...tree.values()].reduce((sum, { length }) => sum + length, 0);
      const changedAt = isHere ? this.#deps.files.changedAt(root) : undefined;
      return { uuid, name, type, state, keys: tree.size, size, changedAt, lastError };
    });
  }

  /** The view with the path that each of its mappings binds; what a container binds is there when this returns. */
  resolve(view: MicroserviceView): Resolution {
    return resolveMappings(view, (mapping) =>
      mapping.type === 'volumeMount' && !systemFilesOf(mapping) ? this.#find(mapping) : undefined,
    );
  }

  /**
   * Removes what is neither wanted nor bound; returns whether nothing is left that will have to be removed. Does nothing
   * while the volume mounts of the node are not known.
   */
  tidy(inUse: InUse): boolean {
    const { files, log } = this.#deps;
    if (!this.#sent) return true;
    const listed = new Set(this.#sent.flatMap((mount) => rootsOf(mount)));
    const removed = (path: string) => log.info({ path: rootOf(path) }, 'Removed a volume mount that nothing uses');
    return MOUNT_FOLDERS.map((folder) => removeUnused(files, folder, { listed, inUse, removed })).every(Boolean);
  }

  #write(sent: SentVolumeMount): Mount {
    if (!('data' in sent)) {
      const [root = ''] = rootsOf(sent).filter((path) => this.#deps.files.has(path));
      return this.#asItIs(root, sent.problem);
    }
    const root = rootPath(sent);
    const problem = sent.sourceMissing ? undefined : volumeMountProblem(sent.data);
    if (sent.sourceMissing || problem) return this.#asItIs(root, problem);
    const tree = new Map(Object.entries(sent.data).map(([key, value]) => [key, Buffer.from(value, 'base64')]));
    const failure = this.#attempt(root, () => {
      this.#deps.files.write(root, tree);
      this.#writePrefixes(root, tree);
    });
    return failure === undefined ? { root, keys: keyPaths(root, tree), isHere: true } : this.#asItIs(root, failure);
  }

  #asItIs(root: string, problem: string | undefined): Mount {
    const tree = root === '' ? undefined : this.#deps.files.read(root);
    return { root, keys: keyPaths(root, tree ?? new Map()), problem, isHere: tree !== undefined };
  }

  /** The prefixes of a volume mount that are here change with it, also for containers whose entry is on hold. */
  #writePrefixes(root: string, tree: ReadonlyMap<string, Uint8Array>): void {
    const { files } = this.#deps;
    for (const prefix of prefixesOf(tree.keys())) {
      const path = prefixPath(root, prefix);
      if (files.has(path)) files.write(path, treeBelow(tree, prefix));
    }
  }

  /** The path that a mapping binds, or why there is none. */
  #find(mapping: ResolvedMapping): FoundPath {
    const { mount: name, key } = namedBy(mapping);
    const mount = this.#mounts.get(name);
    const called = `volume mount "${name}"`;
    if (!mount) return { message: `waits for ${called}, which has not arrived` };
    const { root, keys, problem, isHere } = mount;
    if (!isHere) return { message: `waits for ${called}: ${problem ?? 'its Secret or ConfigMap does not exist'}` };
    if (key === '') return { path: root };
    const file = keys.get(key);
    if (file === undefined && ![...keys.keys()].some((each) => each.startsWith(`${key}/`)))
      return { message: `waits for ${called}, which has no key "${key}"` };
    const path = file ?? prefixPath(root, key);
    const failure = this.#make(path, root, key, file !== undefined);
    return failure === undefined ? { path } : { message: `waits for ${called}: ${failure}` };
  }

  /** Makes a part of a volume mount; one that is here was written with the whole. */
  #make(path: string, root: string, key: string, isFile: boolean): string | undefined {
    const { files } = this.#deps;
    if (files.has(path) && !this.#failed.has(path)) return undefined;
    return this.#attempt(path, () => {
      const tree = files.read(root) ?? new Map<string, Uint8Array>();
      const value = tree.get(key);
      if (!isFile) files.write(path, treeBelow(tree, key));
      else if (value && keyPath(root, key, value) === path) files.writeOnce(path, value);
      else throw new Error(`the file of key "${key}" is not what was written`);
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

function keyPaths(root: string, tree: ReadonlyMap<string, Uint8Array>): Map<string, string> {
  return new Map([...tree].map(([key, value]) => [key, keyPath(root, key, value)]));
}

/** The directories that a volume mount may have; of one that cannot be read the type is not known. */
function rootsOf(sent: SentVolumeMount): string[] {
  const types: VolumeMountView['type'][] = 'type' in sent ? [sent.type] : ['secret', 'configMap'];
  return types.map((type) => rootPath({ uuid: sent.uuid, type }));
}
