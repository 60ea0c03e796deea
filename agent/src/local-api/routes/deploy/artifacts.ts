import { z } from 'zod';
import { ARTIFACT_KINDS, type ArtifactKind } from '../../../domain/artifact.ts';
import type { ArtifactManifest, LocalArtifacts } from '../../../local/artifacts.ts';
import { LocalApiError, toApiError } from '../../server/errors.ts';
import type { LocalOperation } from '../../server/operations.ts';
import { routesWith } from '../../server/route.ts';
import {
  type ArtifactPullMembers,
  beginPull,
  type PullingAgent,
  pullReply,
  requireIdle,
} from '../content/artifact-pulls.ts';
import { acceptedReply, validity, validityReply } from './judged.ts';

/** What deploying models and knowledge needs of the agent. */
export interface ArtifactDeployDependencies {
  agent: PullingAgent & {
    readonly localArtifacts: Pick<LocalArtifacts, 'pull' | 'pullable' | 'judge' | 'apply'>;
  };
}

const { upload } = routesWith<ArtifactDeployDependencies>('deploy');

/** A pull that was begun, or why it was not. */
type BegunPull = LocalOperation<ArtifactPullMembers> | { name: string; error: string };

/** Models and knowledge that are deployed on this machine by manifests of one or several documents. */
export const DEPLOY_ARTIFACT_ROUTES = ARTIFACT_KINDS.flatMap((kind) => {
  const manifestKind = kind === 'models' ? 'Model' : 'Knowledge';
  return [
    upload({
      method: 'POST',
      path: `/v1/deploy/${kind}:apply`,
      operation: `apply${manifestKind}`,
      summary: `Adds or changes ${kind} of this machine, and begins to pull them`,
      access: 'admin',
      errors: [409, 503],
      reply: { form: 'envelope', schema: () => applyReply(kind, manifestKind) },
      handler: async ({ body, deps: { agent } }) => {
        const manifests = await judged(kind, body.manifest, agent);
        const { dryRun } = body;
        const pulls = dryRun ? [] : apply(kind, manifests, agent);
        return { accepted: true as const, dryRun, ...summaryOf(kind, manifestKind, manifests), pulls };
      },
    }),
    upload({
      method: 'POST',
      path: `/v1/deploy/${kind}:validate`,
      operation: `validate${manifestKind}`,
      summary: `Judges a manifest of ${kind}`,
      access: 'admin',
      errors: [409],
      reply: {
        form: 'envelope',
        schema: () =>
          validityReply(manifestKind).extend({
            ...{ name: z.string(), count: z.int(), names: z.array(z.string()).optional() },
          }),
      },
      handler: async ({ body, deps: { agent } }) => {
        const names = (await judged(kind, body.manifest, agent)).map(({ name }) => name);
        const [name = ''] = names;
        const several = names.length > 1 && { names };
        return { ...validity(manifestKind), name, count: names.length, ...several };
      },
    }),
  ];
});

/** Reads a manifest, and judges all of it before any of it is applied. */
async function judged(
  kind: ArtifactKind,
  manifest: string,
  agent: ArtifactDeployDependencies['agent'],
): Promise<ArtifactManifest[]> {
  // Most agents never get a manifest.
  const { readArtifactManifests } = await import('../../../local/content-manifests.ts');
  const manifests = readArtifactManifests(kind, manifest);
  for (const each of manifests) {
    agent.localArtifacts.judge(kind, each);
    requireIdle(kind, each.name, agent);
  }
  return manifests;
}

/** All of them are durable before the first one is pulled. */
function apply(
  kind: ArtifactKind,
  manifests: readonly ArtifactManifest[],
  agent: ArtifactDeployDependencies['agent'],
): BegunPull[] {
  const saved: string[] = [];
  const artifacts = manifests.map((manifest) => {
    try {
      const artifact = agent.localArtifacts.apply(kind, manifest);
      saved.push(manifest.name);
      return artifact;
    } catch (error) {
      const known = toApiError(error);
      if (!known || saved.length === 0) throw error;
      throw new LocalApiError(known.code, `${known.message}. Applied: ${saved.join(', ')}`, known.details);
    }
  });
  return artifacts.map((artifact): BegunPull => {
    try {
      return beginPull(kind, artifact, agent);
    } catch (error) {
      const known = toApiError(error);
      if (!known) throw error;
      return { name: artifact.view.name, error: known.message };
    }
  });
}

function summaryOf(kind: ArtifactKind, manifestKind: string, manifests: readonly ArtifactManifest[]) {
  const rows = manifests.map(({ labels, registry, ...row }) => ({
    ...row,
    registryId: registry,
    source: 'local' as const,
  }));
  const [first] = rows;
  return {
    kind: manifestKind,
    count: rows.length,
    ...(rows.length === 1 && first && { name: first.name }),
    [kind]: rows,
  };
}

const artifactReply = () =>
  z.object({
    ...{ name: z.string(), repo: z.string(), revision: z.string(), registryId: z.int() },
    ...{ files: z.array(z.string()), format: z.string().optional(), source: z.literal('local') },
  });

const applyReply = (kind: ArtifactKind, manifestKind: string) =>
  z.object({
    ...acceptedReply(manifestKind).shape,
    count: z.int(),
    name: z.string().optional().describe('of the one that it describes'),
    [kind]: z.array(artifactReply()),
    pulls: z.array(z.union([pullReply(), z.object({ name: z.string(), error: z.string() })])),
  });
