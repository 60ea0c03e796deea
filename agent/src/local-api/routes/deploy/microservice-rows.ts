import { z } from 'zod';
import type { MicroserviceStatus } from '../../../../../src/wire/agent.ts';
import type { LocalRow } from '../../../local/row.ts';
import { LocalApiError } from '../../server/errors.ts';

/** What the picture of a row is made from. */
export interface RowAgent {
  readonly own: { readonly rows: ReadonlyMap<string, LocalRow> };
  /** undefined until the engine was read once */
  microservices(): readonly MicroserviceStatus[] | undefined;
  readonly supervisor: { record(uuid: string): { failure?: { count: number } } | undefined };
}

/** A deployed microservice, as the routes of `deploy` show it (docs/spec/agent-local-api.md#deployed-microservices). */
export async function deployedItem(agent: RowAgent, row: LocalRow) {
  const status = agent.microservices()?.find(({ id }) => id === row.uuid);
  const state = (status?.status ?? 'UNKNOWN').toLowerCase();
  const isObserved = row.view !== undefined && status?.revision === row.view.revision;
  return {
    ...{ uuid: row.uuid, application: row.application, name: row.name, origin: row.origin, sourceName: row.sourceName },
    manifestYaml: row.manifest === undefined ? undefined : await masked(row.manifest),
    image: row.view?.imageId,
    ...{ state, runtimeState: state, containerId: status?.containerId, desiredState: row.desiredState },
    ...{ lastError: status?.errorMessage || status?.lastError, restartCount: status?.restartCount ?? 0 },
    failureCount: agent.supervisor.record(row.uuid)?.failure?.count ?? 0,
    generation: row.generation,
    ...(isObserved && { observedGeneration: row.generation }),
    ...{ createdAt: row.createdAt, updatedAt: row.updatedAt, deletedAt: row.deletedAt },
  };
}

/** Most agents never show a manifest. */
async function masked(manifest: string): Promise<string> {
  const { maskedManifest } = await import('../../../local/manifest.ts');
  return maskedManifest(manifest);
}

export const deployedReply = () =>
  z.object({
    ...{ uuid: z.string(), application: z.string(), name: z.string() },
    origin: z
      .enum(['deployed', 'kept', 'controlplane'])
      .describe('kept: a controller placed it and left it to the machine'),
    sourceName: z.string().optional(),
    manifestYaml: z.string().optional().describe('values of variables and the config are masked'),
    image: z.string().optional(),
    ...{ state: z.string(), runtimeState: z.string(), containerId: z.string().optional() },
    desiredState: z.enum(['running', 'stopped', 'deleted']),
    ...{ lastError: z.string().optional(), restartCount: z.int(), failureCount: z.int() },
    generation: z.int().describe('raised by each manifest that asks for something else'),
    observedGeneration: z.int().optional().describe('present where the latest one runs'),
    ...{ createdAt: z.string(), updatedAt: z.string(), deletedAt: z.string().optional() },
  });

/** The control plane has routes of its own, which mask more. */
export const isDeployed = ({ origin }: LocalRow): boolean => origin !== 'controlplane';

/** The row that a selector means: its uuid, its name, or `application.name`. */
export function findRow({ own }: RowAgent, selector: string): LocalRow {
  const rows = [...own.rows.values()].filter(isDeployed);
  const lower = selector.toLowerCase();
  const found = rows.filter(
    ({ uuid, application, name }) =>
      uuid === selector || name.toLowerCase() === lower || `${application}.${name}`.toLowerCase() === lower,
  );
  // A microservice that was removed gives way to another one of its name.
  const living = found.filter(({ desiredState }) => desiredState !== 'deleted');
  const [row, second] = living.length > 0 ? living : found;
  if (!row)
    throw new LocalApiError('NOT_FOUND', `no microservice "${selector.slice(0, 300)}" was deployed on this machine`);
  if (second)
    throw new LocalApiError(
      'INVALID_ARGUMENT',
      `"${selector}" means several: ${found.map(({ uuid }) => uuid).join(', ')}`,
    );
  return row;
}
