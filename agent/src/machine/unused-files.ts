import type { Log } from '../../../src/lib/log.ts';
import type { MicroserviceView } from '../../../src/wire/agent.ts';
import type { Entry } from '../domain/entry.ts';
import type { Observed } from '../domain/part.ts';
import { boundPaths, rootOf, tokenPath, tokenTarget } from '../domain/volume-mounts.ts';
import { errorText } from './log.ts';
import type { MountedFiles } from './mounted-files.ts';

/** Paths that may not be removed. */
export interface InUse {
  /** of microservices that are to run */
  wanted: ReadonlySet<string>;
  /** by a container that exists, or by a container as it ran last, which may be made again */
  isBound(path: string): boolean;
}

export interface UnusedFilesDependencies {
  observed: Observed;
  log: Log;
  /** what people call these files */
  what: string;
  /** Removes what nothing uses; returns whether nothing is left that will have to be removed. */
  remove(inUse: InUse): boolean;
}

/** Removes files of containers once it is known that nothing uses them. A disk that refuses it is tried again later. */
export class UnusedFiles {
  readonly #deps: UnusedFilesDependencies;
  /** nothing is left that will have to be removed */
  #isTidy = false;
  /** why something could not be removed */
  #problem = '';

  constructor(deps: UnusedFilesDependencies) {
    this.#deps = deps;
  }

  get problems(): string[] {
    return this.#problem ? [`${this.#deps.what}: what nothing uses cannot be removed: ${this.#problem}`] : [];
  }

  /** Files may be unused that were in use before. */
  noteChange(): void {
    this.#isTidy = false;
  }

  /** Call it when the supervisor has read the engine, or a step of it has moved. */
  look(): void {
    try {
      this.#look();
      this.#problem = '';
    } catch (error) {
      const text = errorText(error);
      if (text !== this.#problem) this.#deps.log.warn({ error: text }, 'Cannot remove what no container uses');
      this.#problem = text;
    }
  }

  #look(): void {
    const { observed, remove } = this.#deps;
    const { desired, knowsAll, containers, pending, hasLooked } = observed;
    // A container that is being made is not among the containers yet.
    if (this.#isTidy || !knowsAll || pending > 0 || !hasLooked) return;
    const views = presentViews(desired, observed);
    const wanted = pathsOf(views.map(({ next }) => next));
    const former = pathsOf(views.map(({ lastGood }) => lastGood));
    // The directory of volumes may be reached by several paths.
    const sources = containers.flatMap(({ binds = [] }) => binds.map(({ source }) => source));
    const isBound = (path: string) => former.has(path) || sources.some((source) => source.endsWith(`/${path}`));
    this.#isTidy = remove({ wanted, isBound });
  }
}

/** The views of a microservice that a container of it is, or may be, made from. */
interface PresentViews {
  /** the view to run; undefined while it may not be changed */
  next: MicroserviceView | undefined;
  lastGood: MicroserviceView | undefined;
}

/** The views of each microservice that is to run, or that has a container. */
export function presentViews(
  desired: readonly Entry[],
  observed: Pick<Observed, 'containers' | 'record'>,
): PresentViews[] {
  const entries = new Map(desired.map((entry) => [entry.uuid, entry]));
  const uuids = new Set([...entries.keys(), ...observed.containers.map(({ uuid }) => uuid)]);
  return [...uuids].map((uuid) => {
    const entry = entries.get(uuid);
    return { next: entry?.kind === 'run' ? entry.view : undefined, lastGood: observed.record(uuid)?.lastGood };
  });
}

function pathsOf(views: readonly (MicroserviceView | undefined)[]): Set<string> {
  const present = views.filter((view) => view !== undefined);
  return new Set([...present.flatMap(boundPaths), ...present.filter(tokenTarget).map(({ uuid }) => tokenPath(uuid))]);
}

/**
 * Removes the content of a folder that is neither used nor listed; returns whether nothing is left that will have to be removed.
 * `listed`: the whole directories that stay although no container binds them.
 */
export function removeUnused(
  files: MountedFiles,
  folder: string,
  { listed, inUse, removed }: { listed: ReadonlySet<string>; inUse: InUse; removed(path: string): void },
): boolean {
  let isTidy = true;
  for (const path of files.list(folder)) {
    const isWanted = inUse.wanted.has(path);
    if (path === rootOf(path) ? listed.has(path) : isWanted) continue;
    if (isWanted || inUse.isBound(path)) isTidy = false;
    else {
      files.remove(path);
      removed(path);
    }
  }
  return isTidy;
}
