import { z } from 'zod';
import { AgentError } from '../../../domain/agent-error.ts';
import type { MachineControlPlane } from '../../../local/control-plane.ts';
import type { ManifestControlPlane } from '../../../local/control-plane-manifest.ts';
import type { LocalRow } from '../../../local/row.ts';
import { LocalApiError } from '../../server/errors.ts';
import { operationReply } from '../../server/fields.ts';
import type { LocalOperation, Operations } from '../../server/operations.ts';
import { routesWith } from '../../server/route.ts';
import type { DeployingAgent } from './deploy-microservice.ts';
import { APPLY_STAGES, type ApplyStage, applyProgressOf, hasArrived, stageOf } from './follow.ts';
import { validity, validityReply } from './judged.ts';

/** What an apply of the control plane says of itself besides what every operation says. */
export interface ControlPlaneMembers {
  controllerUuid: string;
  generation: number;
  name: string;
  namespace: string;
  image: string;
  mode: 'create' | 'patch';
  stage: ApplyStage;
  containerId?: string | undefined;
  runtimeState?: string | undefined;
}

/** What the control plane of a machine needs of the agent. */
export interface ControlPlaneAgent extends Pick<DeployingAgent, 'own' | 'microservices' | 'refusalOf'> {
  readonly controlPlane: MachineControlPlane;
  readonly supervisor: DeployingAgent['supervisor'] & {
    readonly local: { restart(uuid: string): string | undefined };
  };
  readonly controlPlaneApplies: Operations<ControlPlaneMembers>;
}

export interface ControlPlaneDeployDependencies {
  agent: ControlPlaneAgent;
}

/** An apply has so long, ms; the command line waits as long. */
const BUDGET = 15 * 60_000;

const { route, upload } = routesWith<ControlPlaneDeployDependencies>('deploy');

/** The control plane that is deployed on this machine. */
export const DEPLOY_CONTROL_PLANE_ROUTES = [
  upload({
    method: 'POST',
    path: '/v1/deploy/controlplane:apply',
    operation: 'applyControlPlane',
    summary: 'Deploys the control plane of this machine by its manifest, or changes it; one apply at a time',
    access: 'admin',
    errors: [409, 503],
    reply: {
      form: 'envelope',
      schema: () => z.union([applyReply(), validReply()]),
      status: { other: 202, when: (data) => 'operationId' in data },
    },
    handler: async ({ body, deps: { agent } }) => {
      const manifest = await judged(body.manifest, agent);
      if (body.dryRun) return { ...valid(manifest), dryRun: true as const };
      return apply(manifest, body, agent);
    },
  }),
  route({
    method: 'GET',
    path: '/v1/deploy/controlplane:apply/{operationId}',
    operation: 'getControlPlaneApply',
    summary: 'How far the deployment of the control plane is',
    access: 'admin',
    errors: [404],
    reply: { form: 'envelope', schema: applyReply },
    handler: ({ params: { operationId }, deps: { agent } }) => agent.controlPlaneApplies.get(operationId),
  }),
  upload({
    method: 'POST',
    path: '/v1/deploy/controlplane:validate',
    operation: 'validateControlPlane',
    summary: 'Judges the manifest of a control plane',
    access: 'admin',
    reply: { form: 'envelope', schema: validReply },
    handler: async ({ body, deps: { agent } }) => valid(await judged(body.manifest, agent)),
  }),
];

/** Throws APPLY_IN_PROGRESS while an apply is under way. */
export function requireNoApply({ controlPlaneApplies }: Pick<ControlPlaneAgent, 'controlPlaneApplies'>): void {
  const [running] = controlPlaneApplies.running;
  if (!running) return;
  throw new LocalApiError(
    'APPLY_IN_PROGRESS',
    `the control plane is being applied since ${running.startedAt}; wait for its end`,
    { activeOperationId: running.operationId },
  );
}

/** Continues the apply in which an earlier process of the agent has ended. */
export function resumeApply(agent: ControlPlaneAgent): void {
  const { row } = agent.controlPlane;
  if (row && row.desiredState !== 'deleted' && row.controlPlane?.isApplying) begin(row, 'patch', agent);
}

async function judged(manifest: string, agent: ControlPlaneAgent): Promise<ManifestControlPlane> {
  // Most agents never get a manifest.
  const { readControlPlaneManifest } = await import('../../../local/control-plane-manifest.ts');
  const controlPlane = readControlPlaneManifest(manifest);
  const refused = agent.refusalOf(controlPlane);
  if (refused !== undefined) throw new AgentError('INVALID_ARGUMENT', refused);
  return controlPlane;
}

/** Nothing is awaited between the look for an apply under way and the begin of this one. */
function apply(
  manifest: ManifestControlPlane,
  form: { manifest: string; sourceName?: string | undefined },
  agent: ControlPlaneAgent,
): LocalOperation<ControlPlaneMembers> {
  requireNoApply(agent);
  const { row, mode } = agent.controlPlane.deploy(manifest, form);
  const operation = begin(row, mode, agent);
  const { failure, crash } = agent.supervisor.record(row.uuid) ?? {};
  // What failed before is tried again at once.
  if (failure || crash) agent.supervisor.local.start(row.uuid);
  return operation;
}

function begin(
  row: LocalRow,
  mode: ControlPlaneMembers['mode'],
  agent: ControlPlaneAgent,
): LocalOperation<ControlPlaneMembers> {
  const { name = '', namespace = '' } = row.controlPlane ?? {};
  const members: ControlPlaneMembers = {
    ...{ controllerUuid: row.uuid, generation: row.generation, name, namespace },
    ...{ image: row.view?.imageId ?? '', mode, stage: 'parsing' },
  };
  return agent.controlPlaneApplies.begin(members, (update, signal) => follow(row, agent, update, signal));
}

async function follow(
  deployed: LocalRow,
  agent: ControlPlaneAgent,
  update: (members: Partial<ControlPlaneMembers>) => void,
  signal: AbortSignal,
): Promise<Partial<ControlPlaneMembers>> {
  const { uuid } = deployed;
  let failure: unknown;
  const isOver = (): boolean => {
    const progress = applyProgressOf(agent, uuid);
    const stage = stageOf(progress);
    const { status } = progress;
    update({
      ...(stage && { stage }),
      ...(status && { containerId: status.containerId, runtimeState: status.status.toLowerCase() }),
    });
    try {
      return hasArrived(deployed, progress) && isHealthy(status?.healthStatus);
    } catch (error) {
      failure = error;
      return true;
    }
  };
  const isDone = await agent.supervisor.until(isOver, BUDGET, signal);
  // The next start of the agent continues with it.
  if (signal.aborted) throw new AgentError('UNAVAILABLE', 'the agent ends; it looks at this again when it starts');
  if (isDone && failure === undefined) {
    agent.controlPlane.succeed();
    return { stage: 'done' };
  }
  throw failed(
    failure ?? new AgentError('UNAVAILABLE', `it is not ready after ${BUDGET / 60_000} minutes`),
    deployed,
    agent,
  );
}

/** Throws where it is known that it does not become ready. */
function isHealthy(health: string | undefined): boolean {
  if (health?.toLowerCase() === 'unhealthy')
    throw new AgentError('UNAVAILABLE', 'it runs, and does not become ready (skerry-agent ms logs controller)');
  return health?.toLowerCase() === 'healthy';
}

/** What ran before runs again, unless the row is not of this apply any more. */
function failed(failure: unknown, deployed: LocalRow, agent: ControlPlaneAgent): Error {
  const error = failure as Error;
  const row = agent.own.rows.get(deployed.uuid);
  if (row?.desiredState === 'deleted' || row?.generation !== deployed.generation) return error;
  const message = error.message.replace(/\. The agent goes on trying$/, '');
  if (agent.controlPlane.fail()) {
    const isStopped = agent.own.rows.get(deployed.uuid)?.desiredState === 'stopped';
    const now = isStopped ? 'The former manifest counts again, and it is stopped' : 'What ran before runs again';
    return new AgentError('UNAVAILABLE', `${message}. ${now}`);
  }
  return new AgentError('UNAVAILABLE', `${message}. The agent goes on trying`);
}

const valid = ({ name, namespace, image }: ManifestControlPlane) => ({
  ...validity('ControlPlane'),
  ...{ name, namespace, image },
});

function validReply() {
  return validityReply('ControlPlane').extend({
    ...{ name: z.string(), namespace: z.string(), image: z.string() },
    dryRun: z.literal(true).optional(),
  });
}

function applyReply() {
  return operationReply().extend({
    ...{ controllerUuid: z.string(), generation: z.int(), name: z.string(), namespace: z.string(), image: z.string() },
    mode: z.enum(['create', 'patch']),
    stage: z.enum(APPLY_STAGES),
    ...{ containerId: z.string().optional(), runtimeState: z.string().optional() },
  });
}
