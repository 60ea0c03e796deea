import { z } from 'zod';
import { ARTIFACT_NOUNS, type ArtifactKind } from '../../../domain/artifact.ts';
import { registryIdOf } from '../../../domain/registry-number.ts';
import type { LocalArtifact, LocalArtifacts } from '../../../local/artifacts.ts';
import { LocalApiError } from '../../server/errors.ts';
import { operationReply } from '../../server/fields.ts';
import type { LocalOperation, Operations } from '../../server/operations.ts';

/** What a pull says of itself besides what every operation says. */
export interface ArtifactPullMembers {
  name: string;
  registryId: number;
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

/** Begins to pull an artifact of the machine itself. Throws CONFLICT while an operation of this name is under way. */
export function beginPull(
  kind: ArtifactKind,
  artifact: LocalArtifact,
  agent: PullingAgent,
): LocalOperation<ArtifactPullMembers> {
  requireIdle(kind, artifact.view.name, agent);
  const { name, registryId } = artifact.view;
  const members = { name, registryId: registryIdOf(registryId), progress: 0, bytesDownloaded: 0, bytesTotal: 0 };
  return agent.artifactPulls[kind].begin(members, async (update) => {
    await agent.localArtifacts.pull(kind, artifact, ({ received, total }) =>
      update({
        progress: total > 0 ? Math.min(99, Math.floor((received / total) * 100)) : 0,
        ...{ bytesDownloaded: received, bytesTotal: total },
      }),
    );
    return { progress: 100 };
  });
}

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
    registryId: z.int(),
    progress: z.number().describe('percent'),
    ...{ bytesDownloaded: z.number(), bytesTotal: z.number().describe('of the files whose sizes are known') },
  });
