import { z } from 'zod';
import type { PrunedArtifacts } from '../../../domain/artifact.ts';
import { LocalApiError } from '../../server/errors.ts';

/** What a prune may be about (docs/spec/agent-local-api.md#prune). */
export const PRUNE_MODES = ['dangling', 'containers', 'volumes', 'all'] as const;
type PruneMode = (typeof PRUNE_MODES)[number];

/** What a prune needs of the agent. */
export interface PrunableAgent {
  readonly supervisor: {
    readonly engine: { state: 'connected' | 'connecting' | 'lost'; error?: string };
    /** each microservice of the machine is wanted, or is known not to be */
    readonly knowsAll: boolean;
    readonly local: {
      /** Removes stopped containers that nothing needs; `kept` has those that could not be removed, with the reason. */
      prune(): Promise<{ removed: string[]; kept: Record<string, string> }>;
    };
  };
  /** Removes images that this agent pulled and nothing uses; `bytes` is absent where the engine did not count them. */
  prune(): Promise<{ reference: string; bytes?: number }[]>;
  pruneArtifacts(kind: 'models'): Promise<PrunedArtifacts>;
}

/**
 * Removes what a mode names, and answers what was removed and what stays. The bytes are those that the engine counts for images and
 * the disk for models; a container's own bytes are in no report of v3.
 *
 * Throws UNAVAILABLE while the engine is not connected: nothing can be said of it then.
 */
export async function pruneReport(
  mode: PruneMode,
  agent: PrunableAgent,
): Promise<z.input<ReturnType<typeof pruneReply>>> {
  if (mode === 'volumes')
    return {
      ...headOf(mode, [], 'Volumes are never pruned here'),
      deleted: [],
      deletedCount: 0,
      spaceReclaimedBytes: 0,
    };
  const { engine } = agent.supervisor;
  if (engine.state !== 'connected')
    throw new LocalApiError(
      'UNAVAILABLE',
      `nothing was pruned: the container engine is ${engine.error ?? engine.state}`,
    );
  const { removed, kept } = mode === 'dangling' ? { removed: [], kept: {} } : await agent.supervisor.local.prune();
  const errors = Object.entries(kept);
  const containers = { containersDeleted: removed, containersDeletedCount: removed.length };
  if (mode === 'containers')
    return { ...headOf(mode, errors, aboutContainers(agent)), deleted: removed, deletedCount: removed.length };
  const images = await agent.prune();
  const models = await agent.pruneArtifacts('models');
  const imagesDeleted = images.map(({ reference }) => reference);
  const deleted = [...removed, ...imagesDeleted];
  const isCounted = images.every(({ bytes }) => bytes !== undefined);
  return {
    ...headOf(
      mode,
      errors,
      `Only images that this agent pulled${isCounted ? '' : '; the engine did not count them all'}`,
    ),
    deleted,
    deletedCount: deleted.length + (mode === 'all' ? models.names.length : 0),
    ...(mode === 'all' && {
      ...containers,
      ...{ volumesDeleted: [], volumesDeletedCount: 0 },
      ...{ imagesDeleted, imagesDeletedCount: imagesDeleted.length },
    }),
    modelsRemoved: models.names,
    modelsRemovedCount: models.names.length,
    spaceReclaimedBytes: images.reduce((sum, { bytes = 0 }) => sum + bytes, models.bytes),
  };
}

function headOf(mode: PruneMode, errors: readonly [string, string][], message: string) {
  if (errors.length === 0) return { status: 'ok' as const, mode, message };
  return { status: 'partial' as const, mode, message, errors: Object.fromEntries(errors) };
}

function aboutContainers({ supervisor }: PrunableAgent): string {
  return supervisor.knowsAll
    ? 'Stopped containers of this agent that no microservice needs'
    : 'It is not known whether all microservices here are wanted, so containers of those that may be stay';
}

/** The report of a prune. */
export const pruneReply = () => {
  const names = z.array(z.string()).optional();
  const count = z.int().optional();
  return z.object({
    status: z.enum(['ok', 'partial']),
    mode: z.enum(PRUNE_MODES),
    message: z.string(),
    errors: z
      .record(z.string(), z.string())
      .optional()
      .describe('name of a container that could not be removed -> reason'),
    deleted: z.array(z.string()),
    deletedCount: z.int(),
    ...{ containersDeleted: names, containersDeletedCount: count, imagesDeleted: names, imagesDeletedCount: count },
    ...{ volumesDeleted: names, volumesDeletedCount: count, modelsRemoved: names, modelsRemovedCount: count },
    spaceReclaimedBytes: z.int().optional(),
  });
};
