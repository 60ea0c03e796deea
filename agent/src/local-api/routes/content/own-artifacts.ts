import { z } from 'zod';
import { BOUNDS } from '../../../../../src/api/bounds.ts';
import { ARTIFACT_KINDS, ARTIFACT_NOUNS, type ArtifactKind } from '../../../domain/artifact.ts';
import type { LocalArtifacts } from '../../../local/artifacts.ts';
import { LocalApiError } from '../../server/errors.ts';
import { routesWith } from '../../server/route.ts';
import { beginAskedPull, beginPull, type PullingAgent, pullReply, requireIdle } from './artifact-pulls.ts';

/** What pulls and removals of models and knowledge need of the agent. */
export interface OwnArtifactDependencies {
  agent: PullingAgent & {
    readonly localArtifacts: Pick<LocalArtifacts, 'pull' | 'pullable' | 'apply' | 'remove'>;
  };
}

const { route } = routesWith<OwnArtifactDependencies>('content');

/** The models and knowledge of the machine itself: pulled and removed by name. */
export const OWN_ARTIFACT_ROUTES = ARTIFACT_KINDS.flatMap((kind) => {
  const name = kind === 'models' ? 'Model' : 'Knowledge';
  const noun = ARTIFACT_NOUNS[kind];
  return [
    route({
      method: 'POST',
      path: `/v1/${kind}:pull`,
      operation: `pull${name}`,
      summary: `Pulls the ${noun} of this name again; with repo and registryId it is added or changed first`,
      access: { resource: `${kind}/pull`, verb: 'create' },
      body: pullBody,
      errors: [404, 409, 503],
      reply: { form: 'envelope', status: 202, schema: pullReply },
      handler: async ({ body, caller, deps: { agent } }) => {
        const isNamed = Object.entries(body).every(([member, value]) => member === 'name' || value === undefined);
        const { microservice: by } = caller;
        // To say what a name means is to deploy.
        if (by !== '' && !isNamed)
          throw new LocalApiError('FORBIDDEN', 'a microservice may pull by name what the machine has, and add nothing');
        if (by !== '') return beginAskedPull(kind, { name: body.name, by }, agent);
        if (isNamed) return beginPull(kind, agent.localArtifacts.pullable(kind, body.name), agent);
        return beginPull(kind, await defined(kind, body, agent), agent);
      },
    }),
    route({
      method: 'GET',
      path: `/v1/${kind}:pull/{operationId}`,
      operation: `get${name}Pull`,
      summary: `How far the pull of a ${noun} is`,
      access: { resource: `${kind}/pull/status`, verb: 'get' },
      errors: [404],
      reply: { form: 'envelope', schema: pullReply },
      handler: ({ params: { operationId }, caller, deps: { agent } }) =>
        agent.artifactPulls[kind].get(operationId, caller.microservice),
    }),
    route({
      method: 'DELETE',
      path: `/v1/${kind}/{name}`,
      operation: `remove${name}`,
      summary: `Removes a ${noun} of the machine itself, and its content`,
      access: 'admin',
      errors: [404, 409, 503],
      reply: { form: 'envelope', schema: () => z.object({ status: z.literal('ok'), name: z.string() }) },
      handler: ({ params, deps: { agent } }) => {
        requireIdle(kind, params.name, agent);
        agent.localArtifacts.remove(kind, params.name);
        return { status: 'ok', name: params.name };
      },
    }),
  ];
});

function pullBody() {
  return z.strictObject({
    name: z.string().min(1).max(63),
    repo: z.string().max(BOUNDS.url).optional().describe('repository without host'),
    revision: z.string().max(BOUNDS.name).optional(),
    registryId: z.int().min(1).max(BOUNDS.id).optional().describe('a registry of this machine'),
    files: z
      .array(z.string().max(BOUNDS.path))
      .max(BOUNDS.artifactFiles)
      .optional()
      .describe('of a hub: paths, or globs'),
    format: z.string().max(32).optional(),
  });
}

/** The artifact that a request describes, added or changed by it. */
async function defined(
  kind: ArtifactKind,
  { name, ...spec }: z.output<ReturnType<typeof pullBody>>,
  agent: OwnArtifactDependencies['agent'],
) {
  const { repo, registryId } = spec;
  if (repo === undefined || registryId === undefined) {
    const field = repo === undefined ? 'repo' : 'registryId';
    throw new LocalApiError(
      'INVALID_ARGUMENT',
      `${field} is missing: repo and registryId belong together, and name alone pulls again what is known`,
      { field },
    );
  }
  // Most agents never get one.
  const { artifactOfMembers } = await import('../../../local/content-manifests.ts');
  const artifact = artifactOfMembers(kind, { name, ...spec, registryId });
  requireIdle(kind, name, agent);
  return agent.localArtifacts.apply(kind, artifact);
}
