import { z } from 'zod';
import { artifactStatusSchema } from '../../../../../src/wire/artifacts.ts';
import {
  ARTIFACT_KINDS,
  ARTIFACT_NOUNS,
  type ArtifactItem,
  type ArtifactKind,
  type PrunedArtifacts,
} from '../../../domain/artifact.ts';
import type { SystemFilesItem } from '../../../domain/system-files.ts';
import type { VolumeMountItem } from '../../../domain/volume-mounts.ts';
import { LocalApiError } from '../../server/errors.ts';
import { choice } from '../../server/fields.ts';
import { routesWith } from '../../server/route.ts';

/** What models, knowledge, volume mounts and the system's files need of the agent. */
export interface ContentDependencies {
  agent: {
    artifacts(kind: ArtifactKind): readonly ArtifactItem[];
    /** Removes the artifacts of a kind that nothing uses. */
    pruneArtifacts(kind: ArtifactKind): Promise<PrunedArtifacts>;
    volumeMounts(): readonly VolumeMountItem[];
    systemFiles(): readonly SystemFilesItem[];
  };
}

const { route } = routesWith<ContentDependencies>('content');

const listOf = <T extends z.ZodType>(item: T) => z.object({ items: z.array(item), count: z.int() });

const artifact = () =>
  artifactStatusSchema.extend({
    repo: z.string(),
    revision: z.string(),
    registryId: z.int(),
    files: z.array(z.string()).readonly(),
    format: z.string().optional(),
    bindRefCount: z.int().describe('microservices whose catalogs name it'),
    pulledAt: z.number().optional().describe('when the content that is here was complete, Unix ms'),
    shadowed: z
      .literal(true)
      .optional()
      .describe('the controller has linked another artifact of this name, which counts'),
  });

const volumeMount = () =>
  z.object({
    uuid: z.string(),
    name: z.string(),
    type: z.enum(['secret', 'configMap']).optional(),
    state: z.enum(['Ready', 'Pending', 'Failed']),
    keys: z.int().describe('how many are here'),
    size: z.int().describe('bytes'),
    changedAt: z.number().optional().describe('Unix ms'),
    lastError: z.string(),
  });

const systemFileSet = () =>
  z.object({
    name: z.string(),
    state: z
      .enum(['Ready', 'Pending', 'Failed'])
      .describe('Ready: all content that the controller listed last is here'),
    files: z.int().describe('how many are here'),
    size: z.int().describe('bytes'),
    changedAt: z.number().optional().describe('Unix ms'),
    lastError: z.string(),
  });

/** What this machine has for its containers to mount. */
export const CONTENT_ROUTES = [
  ...ARTIFACT_KINDS.flatMap(artifactRoutes),
  route({
    method: 'GET',
    path: '/v1/volume-mounts',
    operation: 'listVolumeMounts',
    summary: 'The volume mounts of this machine, without their content',
    access: 'admin',
    reply: { form: 'bare', schema: () => listOf(volumeMount()) },
    handler: ({ deps: { agent } }) => {
      const items = [...agent.volumeMounts()].sort((a, b) => (a.name < b.name ? -1 : 1));
      return { items, count: items.length };
    },
  }),
  route({
    method: 'GET',
    path: '/v1/system-files',
    operation: 'listSystemFiles',
    summary: 'The sets of files that the system has on this machine, without their content',
    access: 'admin',
    reply: { form: 'bare', schema: () => listOf(systemFileSet()) },
    handler: ({ deps: { agent } }) => {
      const items = [...agent.systemFiles()].sort((a, b) => (a.name < b.name ? -1 : 1));
      return { items, count: items.length };
    },
  }),
];

/** The same routes for models and for knowledge. */
function artifactRoutes(kind: ArtifactKind) {
  const name = kind === 'models' ? 'Models' : 'Knowledge';
  return [
    route({
      method: 'GET',
      path: `/v1/${kind}`,
      operation: `list${name}`,
      summary: `The ${kind} of this machine`,
      access: { resource: kind, verb: 'get' },
      reply: { form: 'envelope', schema: () => listOf(artifact().omit({ uuid: true, bindRefCount: true })) },
      handler: ({ caller, deps: { agent } }) => {
        const reached = agent.artifacts(kind).filter(({ name }) => caller.mayName(name));
        const items = reached.sort((a, b) => (a.name < b.name ? -1 : 1));
        return { items: items.map(({ uuid, bindRefCount, ...item }) => item), count: items.length };
      },
    }),
    route({
      method: 'GET',
      path: `/v1/${kind}/{name}`,
      operation: `get${name.replace(/s$/, '')}`,
      summary: `One ${ARTIFACT_NOUNS[kind]} of this machine`,
      access: { resource: kind, verb: 'get' },
      errors: [404],
      reply: { form: 'envelope', schema: artifact },
      handler: ({ params: { name }, deps: { agent } }) => {
        const item = agent.artifacts(kind).find((each) => each.name === name);
        if (!item) throw new LocalApiError('NOT_FOUND', `no ${ARTIFACT_NOUNS[kind]} "${name}" on this node`);
        return item;
      },
    }),
    route({
      method: 'POST',
      path: `/v1/${kind}:prune`,
      operation: `prune${name}`,
      summary: `Removes the ${kind} that no list names and no microservice has`,
      access: 'admin',
      query: () => z.object({ mode: choice(['dangling'], 'dangling', 'the only mode') }),
      errors: [503],
      reply: {
        form: 'envelope',
        schema: () =>
          z.object({
            mode: z.literal('dangling'),
            removed: z.array(z.string()),
            blobsRemoved: z.int().describe('contents, of which artifacts may share one'),
            staleCleaned: z.int().describe('downloads that nothing waits for'),
          }),
      },
      handler: async ({ deps: { agent } }) => {
        const { names: removed, blobs, downloads } = await agent.pruneArtifacts(kind);
        return { mode: 'dangling', removed, blobsRemoved: blobs, staleCleaned: downloads };
      },
    }),
  ];
}
