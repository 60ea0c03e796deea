import type { PortMapping } from '../../../../src/api/container/index.ts';
import { BUILT_IN_REGISTRIES, CONTAINER_NAME_PREFIX } from '../../../../src/api/names.ts';
import type { RunEntry } from '../../domain/entry.ts';
import type { MicroserviceRecord } from '../../domain/record.ts';
import type { BareStepOf, CREATE_REASONS, ImagePolicy, START_REASONS } from '../../domain/step.ts';
import type { Container } from '../../engine-port/container.ts';
import { targetKey } from './serves.ts';

/** The name of a microservice's container when it is the only one. */
function canonicalName(uuid: string): string {
  return `${CONTAINER_NAME_PREFIX}${uuid}`;
}

export function lookUpImage(entry: RunEntry, { image }: MicroserviceRecord, replaces: boolean): BareStepOf<'image'> {
  const { uuid, view } = entry;
  return {
    kind: 'image',
    uuid,
    target: targetKey(entry),
    reference: view.imageId,
    registryId: view.registryId,
    platform: view.platform,
    rebuildCount: view.rebuildCount,
    policy: imagePolicy(entry, image, replaces),
  };
}

function imagePolicy({ view }: RunEntry, known: MicroserviceRecord['image'], replaces: boolean): ImagePolicy {
  if (view.registryId === BUILT_IN_REGISTRIES.local.id) return 'never';
  if (known?.reference === view.imageId && known.rebuildCount < view.rebuildCount) return 'fresh';
  return replaces || (known !== undefined && known.reference !== view.imageId) ? 'preferFresh' : 'ifMissing';
}

export function create(
  entry: RunEntry,
  record: MicroserviceRecord,
  containers: readonly Container[],
  reason: keyof typeof CREATE_REASONS,
  target = targetKey(entry),
): BareStepOf<'create'> {
  const { uuid, view, digest } = entry;
  const generation = Math.max(record.generation, 0, ...containers.map((container) => container.generation)) + 1;
  const name = canonicalName(uuid);
  // By an older container of this microservice, or by a container that is not of this agent.
  const isTaken = containers.some((container) => container.name === name) || record.failure?.reason === 'NameTaken';
  return {
    kind: 'create',
    uuid,
    target,
    view,
    digest,
    imageId: record.image?.id ?? '',
    rebuildCount: view.rebuildCount,
    generation,
    name: isTaken ? `${name}-g${generation}` : name,
    reason,
  };
}

export function start(
  { uuid, id }: Container,
  target: string,
  reason: keyof typeof START_REASONS,
  protects = false,
): BareStepOf<'start'> {
  return { kind: 'start', uuid, target, containerId: id, protects, reason };
}

/** What is wanted has to run, and what is to end has to receive its signal. */
export function resume({ uuid, id }: Container, target: string): BareStepOf<'resume'> {
  return { kind: 'resume', uuid, target, containerId: id, reason: 'Paused' };
}

export function stop(
  { uuid, id }: Container,
  target: string,
  reason: BareStepOf<'stop'>['reason'],
): BareStepOf<'stop'> {
  return { kind: 'stop', uuid, target, containerId: id, reason };
}

/** Stops a container for its successor. */
export function giveWay(old: Container, entry: RunEntry): BareStepOf<'stop'> {
  return { ...stop(old, targetKey(entry), 'Replacing'), ports: publishedPorts(entry) };
}

/** The ports that a container of the entry publishes on the machine. */
export function publishedPorts({ view }: RunEntry): readonly PortMapping[] | undefined {
  return view.hostNetworkMode || view.portMappings.length === 0 ? undefined : view.portMappings;
}

export function remove(
  { uuid, id }: Container,
  target: string,
  reason: BareStepOf<'remove'>['reason'],
): BareStepOf<'remove'> {
  return { kind: 'remove', uuid, target, containerId: id, reason };
}

export function renameToCanonical(container: Container, target: string): BareStepOf<'rename'> | undefined {
  const name = canonicalName(container.uuid);
  if (container.name === name) return undefined;
  return { kind: 'rename', uuid: container.uuid, target, containerId: container.id, name };
}
