import { type Clock, sleep } from '../../../src/lib/clock.ts';
import type { Log } from '../../../src/lib/log.ts';
import type { AgentConfig } from '../../../src/wire/agent.ts';
import { jitter, type Random } from '../domain/jitter.ts';
import type { Container } from '../engine-port/container.ts';
import { EngineError } from '../engine-port/error.ts';
import type { ImagePort } from '../engine-port/images.ts';
import { errorText } from '../machine/log.ts';
import type { Machine } from '../machine/machine.ts';
import type { Database } from '../state/database.ts';
import { inFull } from './wanted-images.ts';

const SECOND = 1000;
const HOUSEKEEPING = 600 * SECOND;

export interface PruneDependencies {
  engine: ImagePort;
  database: Pick<Database, 'records' | 'images' | 'forgetImage'>;
  /** those of this agent */
  containers(): readonly Container[];
  /** the references in full of the images of its microservices */
  wantedReferences(): ReadonlySet<string>;
  log: Log;
}

export interface PruningDependencies extends PruneDependencies {
  clock: Clock;
  random: Random;
  machine: Pick<Machine, 'measure'>;
  /** those in force */
  settings(): AgentConfig;
  /** removes the models and knowledge that nothing uses */
  pruneArtifacts(): Promise<unknown>;
}

/**
 * Removes images that this agent pulled and that nothing uses any more: no microservice of it, no container of any owner.
 *
 * Throws when the engine does not answer; another image that cannot be removed stays.
 */
export async function pruneImages(deps: PruneDependencies): Promise<PrunedImages> {
  const { engine, database, log } = deps;
  const used = await usedImages(deps);
  const wanted = deps.wantedReferences();
  const removed: PrunedImage[] = [];
  const kept: Record<string, string> = {};
  let isCounted = true;
  for (const [id, reference] of database.images()) {
    if (used.has(id) || wanted.has(inFull(reference))) continue;
    let bytes: number | undefined;
    try {
      if (isCounted) bytes = await engine.imageBytes(id);
    } catch (error) {
      // An engine that takes too long to count is not asked again.
      isCounted = false;
      log.info({ image: reference, error: errorText(error) }, 'The engine does not count what an image takes');
    }
    try {
      await engine.removeImage(id);
    } catch (error) {
      if (error instanceof EngineError && error.code === 'Unavailable') throw error;
      log.info({ image: reference, error: errorText(error) }, 'An image stays');
      // A person gave it another name, or a container was made from it just now.
      if (!(error instanceof EngineError && error.code === 'Conflict')) kept[reference] = errorText(error);
      continue;
    }
    removed.push({ id, reference, bytes });
    try {
      database.forgetImage(id);
    } catch (error) {
      // The next pruning forgets it: an image that is not there counts as removed.
      log.info({ image: reference, error: errorText(error) }, 'The removal of an image is not saved');
    }
  }
  if (removed.length > 0) log.info({ removed: removed.length }, 'Pruned images');
  return { removed, kept };
}

async function usedImages({ engine, database, containers }: PruneDependencies): Promise<Set<string>> {
  const used = new Set([...containers(), ...(await engine.imageUses())].map(({ imageId }) => imageId));
  for (const row of database.records().values()) if (row.image) used.add(row.image.id);
  return used;
}

/** What a prune did: `kept` has the images that could not be removed, each with the reason. */
export interface PrunedImages {
  removed: PrunedImage[];
  kept: Record<string, string>;
}

interface PrunedImage {
  id: string;
  reference: string;
  /** that its removal freed; undefined where the engine did not count them */
  bytes?: number;
}

/** Prunes once, as the controller asks for it. */
export function pruneAll(deps: PruneDependencies & Pick<PruningDependencies, 'pruneArtifacts'>): void {
  pruneImages(deps).catch((error: unknown) => deps.log.warn({ error: errorText(error) }, 'Images are not pruned'));
  deps.pruneArtifacts().catch(() => {});
}

/** Prunes when the settings' time has come, when the disk is fuller than they allow, and when the agent itself takes more. */
export async function runPruning(deps: PruningDependencies, signal: AbortSignal): Promise<void> {
  const { clock, random, machine, settings } = deps;
  let lastPrune = clock.now();
  while (!signal.aborted) {
    await sleep(jitter(HOUSEKEEPING, random), signal, clock);
    if (signal.aborted) return;
    const { pruningFrequency = 0, availableDiskThreshold = 0, diskLimit = Number.POSITIVE_INFINITY } = settings();
    const { systemAvailableDisk: free, systemTotalDisk: total, diskUsage = 0 } = await machine.measure();
    const isLow = free !== undefined && total !== undefined && (free / total) * 100 < availableDiskThreshold;
    const full = isLow || diskUsage > diskLimit;
    const due = pruningFrequency > 0 && clock.now() - lastPrune >= pruningFrequency * 3600 * SECOND;
    if (!due && !full) continue;
    lastPrune = clock.now();
    // What cannot be removed is in the log, and is tried again.
    await pruneImages(deps).catch((error: unknown) =>
      deps.log.info({ error: errorText(error) }, 'Images are not pruned'),
    );
    await deps.pruneArtifacts().catch(() => {});
  }
}
