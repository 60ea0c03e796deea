import { AgentError } from '../../../domain/agent-error.ts';
import { ARTIFACT_KINDS, ARTIFACT_NOUNS, type ArtifactItem, type ArtifactKind } from '../../../domain/artifact.ts';
import type { ManifestMicroservice } from '../../../local/manifest.ts';
import type { Deployment } from '../../../local/own-microservices.ts';
import type { LocalRow } from '../../../local/row.ts';
import type { LocalOperation, Operations } from '../../server/operations.ts';
import { type ApplyStage, applyProgressOf, type FollowedAgent, hasArrived, stageOf } from './follow.ts';

/** What an apply says of itself besides what every operation says. */
export interface ApplyMembers {
  kind: 'Microservice';
  name: string;
  image: string;
  stage: ApplyStage;
  /** the uuid of the microservice */
  deploymentId?: string;
}

/** What deploying a microservice needs of the agent. */
export interface DeployingAgent extends FollowedAgent {
  readonly own: FollowedAgent['own'] & {
    deploy(deployment: Deployment): { row: LocalRow; isOther: boolean };
  };
  /** Why this machine takes no such microservice: its policy, its registries, or its engine. */
  refusalOf(microservice: ManifestMicroservice): string | undefined;
  artifacts(kind: ArtifactKind): readonly ArtifactItem[];
  readonly microserviceApplies: Operations<ApplyMembers>;
  readonly supervisor: FollowedAgent['supervisor'] & {
    record(uuid: string): { failure?: unknown; crash?: unknown } | undefined;
    readonly local: { start(uuid: string): string | undefined };
    until(condition: () => boolean, milliseconds: number, signal?: AbortSignal): Promise<boolean>;
  };
}

/** An apply has so long, ms. */
const BUDGET = 30 * 60_000;

/** Reads a manifest and judges whether this machine takes it. Throws an AgentError that says why not. */
export async function judgedManifest(manifest: string, agent: DeployingAgent): Promise<ManifestMicroservice> {
  // Most agents never get a manifest.
  const { readMicroserviceManifest } = await import('../../../local/manifest.ts');
  const microservice = readMicroserviceManifest(manifest);
  const refused = artifactRefusal(microservice, agent) ?? agent.refusalOf(microservice);
  if (refused !== undefined) throw new AgentError('INVALID_ARGUMENT', refused);
  return microservice;
}

/** The first model or item of knowledge that this machine does not have, or cannot get. */
function artifactRefusal(microservice: ManifestMicroservice, agent: DeployingAgent): string | undefined {
  const view = microservice.view('');
  for (const kind of ARTIFACT_KINDS)
    for (const { name } of view[kind]?.items ?? []) {
      const item = agent.artifacts(kind).find((each) => each.name === name);
      const noun = ARTIFACT_NOUNS[kind];
      if (!item) return `spec.${kind}: this machine has no ${noun} "${name}"`;
      if (item.state === 'Failed') return `spec.${kind}: the ${noun} "${name}" could not be pulled: ${item.lastError}`;
    }
  return undefined;
}

/** The models and knowledge that a microservice waits for once it is deployed. */
export function artifactsBefore(
  microservice: ManifestMicroservice,
  agent: Pick<DeployingAgent, 'artifacts'>,
): string[] {
  const view = microservice.view('');
  return ARTIFACT_KINDS.flatMap((kind) =>
    (view[kind]?.items ?? [])
      .filter(({ name }) => agent.artifacts(kind).find((each) => each.name === name)?.state !== 'Ready')
      .map(({ name }) => `${kind}/${name}`),
  );
}

/**
 * Deploys a microservice, and begins to follow how far it comes. Its row is durable when this returns: the wish then
 * survives whatever becomes of the operation.
 */
export function applyMicroservice(
  microservice: ManifestMicroservice,
  form: { manifest: string; sourceName?: string | undefined },
  agent: DeployingAgent,
): LocalOperation<ApplyMembers> {
  const { name, image, view } = microservice;
  let deployed: LocalRow | undefined;
  // First, so that an apply that cannot be followed changes nothing; its work begins after this function.
  const operation = agent.microserviceApplies.begin(
    { kind: 'Microservice', name, image, stage: 'parsing' },
    async (update, signal) => {
      if (!deployed) throw new AgentError('UNAVAILABLE', 'nothing was deployed');
      update({ deploymentId: deployed.uuid });
      return follow(deployed, agent, update, signal);
    },
  );
  deployed = agent.own.deploy({ name, view, ...form }).row;
  const { uuid } = deployed;
  const { failure, crash } = agent.supervisor.record(uuid) ?? {};
  // What failed before is tried again at once.
  if (failure || crash) agent.supervisor.local.start(uuid);
  return { ...operation, deploymentId: uuid };
}

async function follow(
  deployed: LocalRow,
  agent: DeployingAgent,
  update: (members: Partial<ApplyMembers>) => void,
  signal: AbortSignal,
): Promise<Partial<ApplyMembers>> {
  const { uuid } = deployed;
  let failure: unknown;
  const isOver = (): boolean => {
    const progress = applyProgressOf(agent, uuid);
    const stage = stageOf(progress);
    if (stage) update({ stage });
    try {
      return hasArrived(deployed, progress);
    } catch (error) {
      failure = error;
      return true;
    }
  };
  const isInTime = await agent.supervisor.until(isOver, BUDGET, signal);
  if (failure) throw failure;
  if (!isInTime) {
    const { status } = applyProgressOf(agent, uuid);
    throw new AgentError('UNAVAILABLE', `it is still ${status?.status ?? 'unknown'}. The agent goes on trying`);
  }
  update({ stage: 'persisting' });
  return { stage: 'done' };
}
