import { ARTIFACT_KINDS, ARTIFACT_NOUNS, type ArtifactKind } from '../../domain/artifact.ts';
import { ApiError } from '../errors.ts';
import { bare, ok, type Route } from '../route.ts';

/** What this machine has for its containers to mount. */
export const CONTENT_ROUTES: Route[] = [
  ...ARTIFACT_KINDS.flatMap(artifactRoutes),
  {
    method: 'GET',
    path: '/v1/volume-mounts',
    access: 'admin',
    handler: (_request, { agent }) => {
      const items = [...agent.volumeMounts()].sort((a, b) => (a.name < b.name ? -1 : 1));
      return bare({ items, count: items.length });
    },
  },
];

/** The same routes for models and for knowledge. */
function artifactRoutes(kind: ArtifactKind): Route[] {
  return [
    {
      method: 'GET',
      path: `/v1/${kind}`,
      access: 'admin',
      handler: (_request, { agent }) => {
        const items = [...agent.artifacts(kind)].sort((a, b) => (a.name < b.name ? -1 : 1));
        return bare({ items: items.map(({ uuid, bindRefCount, ...item }) => item), count: items.length });
      },
    },
    {
      method: 'GET',
      path: `/v1/${kind}/{name}`,
      access: 'admin',
      handler: ({ parameters: { name = '' } }, { agent }) => {
        const item = agent.artifacts(kind).find((each) => each.name === name);
        if (!item) throw new ApiError('NOT_FOUND', `no ${ARTIFACT_NOUNS[kind]} "${name}" on this node`);
        return bare(item);
      },
    },
    {
      method: 'POST',
      path: `/v1/${kind}:prune`,
      access: 'admin',
      handler: async (_request, { agent }) => {
        const { names: removed } = await agent.pruneArtifacts(kind);
        return ok({ mode: 'dangling', removed, blobsRemoved: removed.length, staleCleaned: 0 });
      },
    },
  ];
}
