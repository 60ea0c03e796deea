import type { Entry, RunEntry } from '../../domain/entry.ts';
import type { MicroserviceRecord } from '../../domain/record.ts';
import type { CREATE_REASONS } from '../../domain/step.ts';
import { type Container, type EngineSnapshot, hasRun, isRunning } from '../../engine-port/container.ts';

/** One text for what an entry asks of a container; failures and crashes are counted for a target. */
export function targetKey(entry: Entry): string {
  return entry.kind === 'hold' ? HOLD_TARGET : `${entry.digest}/${entry.view.rebuildCount}`;
}

/** The target of whatever is done for a microservice that may not change now. */
export const HOLD_TARGET = 'hold';

/** Whether the container is what the entry asks for. Never a comparison of engine settings. */
export function servesEntry(
  container: Container,
  entry: RunEntry,
  record: MicroserviceRecord,
  snapshot: EngineSnapshot,
): boolean {
  return mismatch(container, entry, record, snapshot) === undefined;
}

/** Why a container is not what the entry asks for, as the reason to make another one. */
export function mismatch(
  container: Container,
  entry: RunEntry,
  record: MicroserviceRecord,
  snapshot: EngineSnapshot,
): keyof typeof CREATE_REASONS | undefined {
  if (container.digest !== entry.digest) return 'SpecChanged';
  if (container.rebuildCount < entry.view.rebuildCount) return 'RebuildRequested';
  if (comesFromElsewhere(container, entry, record)) return 'RegistryChanged';
  if (isImageKnown(entry, record) && container.imageId !== record.image?.id) return 'ImageChanged';
  if (!isAttached(container, snapshot)) return 'NetworkChanged';
  return undefined;
}

/** A container that has not run yet may not know its network's id; the engine attaches it when it starts. */
function isAttached(container: Container, { networkId }: EngineSnapshot): boolean {
  if (container.hostNetwork || !hasRun(container) || networkId === undefined) return true;
  if (container.networkId === networkId) return true;
  return container.networkId === '' && !isRunning(container);
}

/** Whether the image that the entry names has been looked up, where it is now, for its present rebuild count. */
export function isImageKnown(entry: RunEntry, { image }: MicroserviceRecord): boolean {
  if (image?.reference !== entry.view.imageId || image.id === '') return false;
  return image.rebuildCount >= entry.view.rebuildCount && isPulledAs(image.pullReference, entry.pullReference);
}

/** Whether the image of a container of this digest came from another place than the entry's image comes from now. */
export function comesFromElsewhere(container: Container, entry: RunEntry, { image }: MicroserviceRecord): boolean {
  if (image?.reference !== entry.view.imageId) return false;
  if (!isPulledAs(image.pullReference, entry.pullReference)) return true;
  return image.outdatedGeneration !== undefined && container.generation <= image.outdatedGeneration;
}

/** What is not known of either counts as the same: neither an upgrade nor a list that is not here yet restarts anything. */
export function isPulledAs(known: string | undefined, wanted: string | undefined): boolean {
  return known === undefined || wanted === undefined || known === wanted;
}
