import { z } from 'zod';
import { ARTIFACT_NOUNS, type ArtifactKind, type ArtifactRequest } from '../../../domain/artifact.ts';
import { registryIdOf } from '../../../domain/registry-number.ts';
import type { LocalArtifact, LocalArtifacts } from '../../../local/artifacts.ts';
import { LocalApiError } from '../../server/errors.ts';
import { operationReply } from '../../server/fields.ts';
import type { LocalOperation, Operations, OperationWork } from '../../server/operations.ts';

/** What a pull says of itself besides what every operation says. */
export interface ArtifactPullMembers {
  name: string;
  /** absent until a pull that a microservice asked for has found the artifact */
  registryId?: number;
  /** 0..100 */
  progress: number;
  bytesDownloaded: number;
  bytesTotal: number;
}

/** What pulls of models and knowledge need of the agent. */
export interface PullingAgent {
  readonly localArtifacts: Pick<LocalArtifacts, 'pull' | 'pullable'>;
  readonly artifactPulls: Readonly<Record<ArtifactKind, Operations<ArtifactPullMembers>>>;
}

const NOTHING_YET = { progress: 0, bytesDownloaded: 0, bytesTotal: 0 };

/** Begins to pull an artifact of the machine itself, for the admin. Throws CONFLICT while another such pull of this name is under way. */
export function beginPull(
  kind: ArtifactKind,
  artifact: LocalArtifact,
  agent: PullingAgent,
): LocalOperation<ArtifactPullMembers> {
  requireIdle(kind, artifact.view.name, agent);
  const { name, registryId } = artifact.view;
  const members = { name, registryId: registryIdOf(registryId), ...NOTHING_YET };
  return agent.artifactPulls[kind].begin(members, workOf(kind, artifact, agent, { isPatient: false }));
}

/**
 * Begins a pull that a microservice asks for. The answer is the same for every name: whether the machine has such an artifact, and
 * may pull it, is in the operation, which another part of a role grants.
 */
export function beginAskedPull(
  kind: ArtifactKind,
  { name, by }: { name: string; by: string },
  agent: PullingAgent,
): LocalOperation<ArtifactPullMembers> {
  const work: OperationWork<ArtifactPullMembers> = (update, signal) => {
    const artifact = agent.localArtifacts.pullable(kind, name);
    update({ registryId: registryIdOf(artifact.view.registryId) });
    return workOf(kind, artifact, agent, { isPatient: true })(update, signal);
  };
  return agent.artifactPulls[kind].begin({ name, ...NOTHING_YET }, work, by);
}

function workOf(
  kind: ArtifactKind,
  artifact: LocalArtifact,
  { localArtifacts }: PullingAgent,
  { isPatient }: Pick<ArtifactRequest, 'isPatient'>,
): OperationWork<ArtifactPullMembers> {
  return async (update) => {
    const onProgress: ArtifactRequest['onProgress'] = ({ received, total }) =>
      update({
        progress: total > 0 ? Math.min(99, Math.floor((received / total) * 100)) : 0,
        ...{ bytesDownloaded: received, bytesTotal: total },
      });
    await localArtifacts.pull(kind, artifact, { onProgress, isPatient });
    return { progress: 100 };
  };
}

/** Throws CONFLICT while the admin has this artifact pulled; what a microservice asked for gives way. */
export function requireIdle(kind: ArtifactKind, name: string, { artifactPulls }: PullingAgent): void {
  const running = artifactPulls[kind].running.find((operation) => operation.name === name);
  if (!running) return;
  const { operationId } = running;
  throw new LocalApiError(
    'CONFLICT',
    `the ${ARTIFACT_NOUNS[kind]} ${name} is being pulled by operation ${operationId}`,
    {
      operationId,
    },
  );
}

export const pullReply = () =>
  operationReply().extend({
    name: z.string(),
    registryId: z.int().optional().describe('absent until the artifact is found'),
    progress: z.number().describe('percent'),
    ...{ bytesDownloaded: z.number(), bytesTotal: z.number().describe('of the files whose sizes are known') },
  });
