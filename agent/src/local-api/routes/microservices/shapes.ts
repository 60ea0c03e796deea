import { z } from 'zod';
import {
  type MicroserviceStatus,
  type MicroserviceView,
  microserviceStatusSchema,
  microserviceViewSchema,
} from '../../../../../src/wire/agent.ts';
import { stringMap } from '../../../domain/digest.ts';
import type { Entry } from '../../../domain/entry.ts';
import type { MicroserviceRecord } from '../../../domain/record.ts';
import type { MicroserviceSource } from '../../../domain/wanted.ts';
import type { Container } from '../../../engine-port/container.ts';
import { LocalApiError } from '../../server/errors.ts';
import type { ReachFilter } from '../../server/grants.ts';

const MASK = '***';

/** What the pictures of microservices are made from. */
export interface ShownAgent {
  /** who wants a microservice: a controller, or the machine itself */
  sourceOf(uuid: string): MicroserviceSource;
  readonly supervisor: {
    readonly containers: readonly Container[];
    readonly desired: readonly Entry[];
    /** whether it is known that a microservice without an entry is not to run here */
    isUnwanted(uuid: string): boolean;
    record(uuid: string): Pick<MicroserviceRecord, 'stoppedLocally'> | undefined;
  };
  /** undefined until the engine was read once */
  microservices(): readonly MicroserviceStatus[] | undefined;
  view(uuid: string): MicroserviceView | undefined;
}

/** The image that a microservice runs, and the one that it is to run where that is another. */
function imagesOf(agent: ShownAgent, status: MicroserviceStatus): { image: string; wantedImage?: string } {
  const wanted = agent.view(status.id)?.imageId;
  const image = (status.containerId && (status.image ?? status.imageId)) || wanted || '';
  return image === wanted ? { image } : { image, wantedImage: wanted };
}

const typeOf = (source: MicroserviceSource) => (source === 'controlplane' ? ('controller' as const) : source);

/** An item of `GET /v1/ms`. */
export function listItem(agent: ShownAgent, status: MicroserviceStatus) {
  return {
    uuid: status.id,
    name: status.name ?? '',
    application: status.application ?? '',
    source: agent.sourceOf(status.id),
    type: typeOf(agent.sourceOf(status.id)),
    state: status.status,
    reason: status.reason,
    ...imagesOf(agent, status),
    containerId: status.containerId ?? '',
    podId: status.podId,
    restartCount: status.restartCount,
    percentage: status.percentage,
    startTime: status.startTime,
    healthStatus: status.healthStatus,
    healthMessage: status.healthMessage,
    errorMessage: status.errorMessage || undefined,
    cpuUsage: status.cpuUsage,
    memoryUsage: status.memoryUsage,
    ports: status.ports,
  };
}

/** `GET /v1/ms/{id}` (docs/spec/agent-local-api.md#microservices). What came from Secrets is masked. */
export function inspection(agent: ShownAgent, status: MicroserviceStatus) {
  const view = agent.view(status.id);
  const row = agent.supervisor.record(status.id);
  const container = agent.supervisor.containers.find(({ id }) => id === status.containerId);
  return {
    ...listItem(agent, status),
    imageId: status.imageId,
    revision: status.revision,
    statusText: statusText(status),
    ipAddress: status.ipAddress,
    createdAt: timeText(container?.createdAt),
    updatedAt: timeText(container?.startedAt),
    desiredState: wantedState(agent, status.id),
    runtimeState: status.status.toLowerCase(),
    env: Object.fromEntries((view?.env ?? []).map(({ key, value, secret }) => [key, secret ? MASK : value])),
    ports: view?.portMappings ?? [],
    labels: { ...stringMap(view?.annotations ?? '{}'), ...container?.stamps },
    volumes: view?.volumeMappings ?? [],
    models: view?.models,
    knowledge: view?.knowledge,
    lastError: status.lastError,
    lastErrorAt: status.lastErrorAt,
    heldLocally: row?.stoppedLocally !== undefined,
    notHonoured: status.notHonoured ?? [],
    desiredRevision: view?.revision,
  };
}

const timeText = (time: number | undefined) => (time ? new Date(time).toISOString() : undefined);

/** The state that a microservice is to have; undefined while that is not known. */
function wantedState({ supervisor }: ShownAgent, uuid: string): 'running' | 'stopped' | 'deleted' | undefined {
  const entry = supervisor.desired.find((each) => each.uuid === uuid);
  if (!entry) return supervisor.isUnwanted(uuid) ? 'deleted' : undefined;
  const isStopped = supervisor.record(uuid)?.stoppedLocally || (entry.kind === 'hold' && entry.stop);
  return isStopped ? 'stopped' : 'running';
}

function statusText({ status, reason, errorMessage, percentage }: MicroserviceStatus): string {
  const parts = [status, reason && `(${reason})`, percentage !== undefined && `${percentage} %`]
    .filter(Boolean)
    .join(' ');
  return errorMessage ? `${parts}: ${errorMessage}` : parts;
}

/**
 * The microservice that a selector means: its uuid, `application.name` or `application/name`, its name where that is unique, or the beginning
 * of its container's id.
 */
export function findMicroservice(agent: ShownAgent, selector: string, reach: ReachFilter): MicroserviceStatus {
  const items = agent.microservices()?.filter(reach);
  if (!items) throw new LocalApiError('UNAVAILABLE', 'the container engine has not been looked at yet');
  const lower = selector.toLowerCase();
  const rules: ((item: MicroserviceStatus) => boolean)[] = [
    ({ id }) => id === selector,
    ({ application, name }) => ['.', '/'].some((between) => `${application}${between}${name}`.toLowerCase() === lower),
    ({ name }) => name?.toLowerCase() === lower,
    ({ containerId }) => /^[0-9a-f]{3,64}$/.test(lower) && containerId?.startsWith(lower) === true,
  ];
  for (const rule of rules) {
    const found = items.filter(rule);
    if (found.length > 1) {
      const names = found.map(({ application, name, id }) => `${application}.${name} (${id})`).join(', ');
      throw new LocalApiError('INVALID_ARGUMENT', `"${selector}" means several microservices: ${names}`);
    }
    if (found[0]) return found[0];
  }
  throw new LocalApiError('NOT_FOUND', `no microservice "${selector}" on this node`);
}

/** The schema of an item of `GET /v1/ms`. */
export const listItemReply = () => {
  const { podId, restartCount, percentage, startTime, ...status } = microserviceStatusSchema.shape;
  const source = z.enum(['managed', 'local', 'controlplane']);
  const type = z.enum(['managed', 'local', 'controller']);
  return z.object({
    ...{ uuid: z.string(), name: z.string(), application: z.string(), source, type },
    state: status.status,
    reason: status.reason,
    image: z.string(),
    wantedImage: z.string().optional().describe('where another image is to run'),
    containerId: z.string(),
    ...{ podId, restartCount, percentage, startTime },
    healthStatus: status.healthStatus,
    healthMessage: status.healthMessage.describe('exit code and output of the health check while it fails'),
    errorMessage: status.errorMessage,
    cpuUsage: status.cpuUsage,
    memoryUsage: status.memoryUsage,
    ports: status.ports,
  });
};

/** The schema of `GET /v1/ms/{id}`. */
export const inspectionReply = () => {
  const { shape: status } = microserviceStatusSchema;
  const { shape: view } = microserviceViewSchema;
  return listItemReply().extend({
    ...{ imageId: status.imageId, revision: status.revision, desiredRevision: z.string().optional() },
    statusText: z.string(),
    ipAddress: status.ipAddress,
    createdAt: z.string().optional().describe('when its container was made'),
    updatedAt: z.string().optional().describe('when its container was started'),
    desiredState: z.enum(['running', 'stopped', 'deleted']).optional(),
    runtimeState: z.string().describe('the state, in lower case'),
    env: z.record(z.string(), z.string().optional()).describe('values of Secrets are masked'),
    ports: view.portMappings,
    labels: z.record(z.string(), z.string()).describe('annotations, and what the agent stamps on containers'),
    volumes: view.volumeMappings,
    ...{ models: view.models, knowledge: view.knowledge },
    ...{ lastError: status.lastError, lastErrorAt: status.lastErrorAt },
    heldLocally: z.boolean().describe('it was stopped on this machine'),
    notHonoured: status.notHonoured,
  });
};
