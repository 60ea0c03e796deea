import { z } from 'zod';
import type { PrunedArtifacts } from '../../../domain/artifact.ts';
import { errorText } from '../../../machine/log.ts';
import { LocalApiError } from '../../server/errors.ts';
import { decimalSize } from '../../server/sizes.ts';

/** What a prune may be about (docs/spec/agent-local-api.md#prune). */
export const PRUNE_MODES = ['dangling', 'containers', 'volumes', 'all'] as const;
type PruneMode = (typeof PRUNE_MODES)[number];

/** What a prune needs of the agent. */
export interface PrunableAgent {
  readonly supervisor: {
    readonly engine: { state: 'connected' | 'connecting' | 'lost'; error?: string };
    readonly facts: { kind: string } | undefined;
    /** each microservice of the machine is wanted, or is known not to be */
    readonly knowsAll: boolean;
    readonly local: {
      /** Removes stopped containers that nothing needs; `kept` has those that could not be removed, with the reason. */
      prune(): Promise<{ removed: string[]; kept: Record<string, string> }>;
    };
  };
  /** Removes images that this agent pulled and nothing uses; `bytes` is absent where the engine did not count them. */
  prune(): Promise<{ removed: { reference: string; bytes?: number | undefined }[]; kept: Record<string, string> }>;
  pruneArtifacts(kind: 'models'): Promise<PrunedArtifacts>;
}

type Step = 'containers' | 'images' | 'models';

/** The steps of each mode; `images` is the mode of a prune of images alone. */
const STEPS: Readonly<Record<PruneMode | 'images', readonly Step[]>> = {
  dangling: ['images', 'models'],
  containers: ['containers'],
  volumes: [],
  all: ['containers', 'images', 'models'],
  images: ['images'],
};

/** What a step removed. */
interface Pruned {
  names: string[];
  /** that this freed; absent: a report of containers has none */
  bytes?: number;
  /** what could not be removed -> reason */
  kept?: Record<string, string>;
  isUncounted?: boolean;
}

const PRUNE: Readonly<Record<Step, (agent: PrunableAgent) => Promise<Pruned>>> = {
  containers: async ({ supervisor }) => {
    const { removed, kept } = await supervisor.local.prune();
    return { names: removed, kept };
  },
  images: async (agent) => {
    const { removed, kept } = await agent.prune();
    return {
      names: removed.map(({ reference }) => reference),
      bytes: removed.reduce((sum, { bytes = 0 }) => sum + bytes, 0),
      kept,
      isUncounted: removed.some(({ bytes }) => bytes === undefined),
    };
  },
  models: (agent) => agent.pruneArtifacts('models'),
};

/**
 * Removes what a mode names, and answers what was removed and what stays. The bytes are those that the engine counts for images and
 * the disk for models; a container's own bytes are in no report of v3. A step that fails leaves the others.
 *
 * Throws UNAVAILABLE while the engine is not connected: nothing can be said of it then; the error of a step where all fail.
 */
export async function pruneReport(
  mode: PruneMode | 'images',
  agent: PrunableAgent,
): Promise<z.input<ReturnType<typeof pruneReply>>> {
  const { engine, facts } = agent.supervisor;
  if (STEPS[mode].length > 0 && engine.state !== 'connected')
    throw new LocalApiError(
      'UNAVAILABLE',
      `nothing was pruned: the container engine is not connected: ${engine.error ?? engine.state}`,
    );
  const { done, errors } = await carryOut(STEPS[mode], agent);
  const [containers, images, models] = (['containers', 'images', 'models'] as const).map(
    (step) => done.get(step)?.names ?? [],
  ) as [string[], string[], string[]];
  const deleted = [...containers, ...images];
  const bytes = [...done.values()].reduce((sum, each) => sum + (each.bytes ?? 0), 0);
  return {
    status: Object.keys(errors).length > 0 ? 'partial' : 'ok',
    mode: mode === 'images' ? 'dangling' : mode,
    engine: facts?.kind ?? '',
    message: messageOf(mode, agent, done),
    ...(Object.keys(errors).length > 0 && { errors }),
    deleted,
    deletedCount: deleted.length + (mode === 'all' ? models.length : 0),
    ...(mode === 'all' && {
      ...{ containersDeleted: containers, containersDeletedCount: containers.length },
      ...{ imagesDeleted: images, imagesDeletedCount: images.length },
    }),
    ...((mode === 'all' || mode === 'volumes') && { volumesDeleted: [], volumesDeletedCount: 0 }),
    ...((mode === 'all' || mode === 'dangling') && { modelsRemoved: models, modelsRemovedCount: models.length }),
    ...(mode !== 'containers' && { spaceReclaimedBytes: bytes, spaceReclaimedHuman: decimalSize(bytes) }),
  };
}

/** Carries the steps out; `errors` has the reason by step. */
async function carryOut(steps: readonly Step[], agent: PrunableAgent) {
  const done = new Map<Step, Pruned>();
  const errors: Partial<Record<Step, string>> = {};
  const thrown: unknown[] = [];
  for (const step of steps) {
    try {
      const pruned = await PRUNE[step](agent);
      done.set(step, pruned);
      const kept = Object.entries(pruned.kept ?? {}).map(([name, why]) => `${name}: ${why}`);
      if (kept.length > 0) errors[step] = kept.join('; ');
    } catch (error) {
      thrown.push(error);
      errors[step] = errorText(error);
    }
  }
  if (thrown.length > 0 && done.size === 0) throw thrown[0];
  return { done, errors };
}

function messageOf(mode: PruneMode | 'images', { supervisor }: PrunableAgent, done: ReadonlyMap<Step, Pruned>): string {
  if (mode === 'volumes')
    return 'Volumes are never pruned here: skerry-agent volume prune lists those that nothing uses';
  if (mode === 'containers')
    return supervisor.knowsAll
      ? 'Stopped containers of this agent that no microservice needs'
      : 'It is not known whether all microservices here are wanted, so containers of those that may be stay';
  const uncounted = done.get('images')?.isUncounted ? '; the engine did not count them all' : '';
  return `Only images that this agent pulled${uncounted}`;
}

/** The report of a prune. */
export const pruneReply = () => {
  const names = z.array(z.string()).optional();
  const count = z.int().optional();
  return z.object({
    status: z.enum(['ok', 'partial']),
    mode: z.enum(PRUNE_MODES),
    engine: z.string(),
    message: z.string(),
    errors: z
      .record(z.string(), z.string())
      .optional()
      .describe('containers, images or models -> what could not be removed, and why'),
    deleted: z.array(z.string()),
    deletedCount: z.int(),
    ...{ containersDeleted: names, containersDeletedCount: count, imagesDeleted: names, imagesDeletedCount: count },
    ...{ volumesDeleted: names, volumesDeletedCount: count, modelsRemoved: names, modelsRemovedCount: count },
    spaceReclaimedBytes: z.int().optional(),
    spaceReclaimedHuman: z.string().optional().describe('in powers of 1000'),
  });
};
