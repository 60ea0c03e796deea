import {
  type Application,
  type Artifact,
  type ArtifactKind,
  KNOWLEDGE_FORMATS,
  type Registry,
} from '../../../../api/v3/index.ts';
import { registryId, uuidOf } from '../../../../rules/identity.ts';
import type { Find } from '../../../../rules/inputs.ts';
import { v3Name } from '../../../../rules/names.ts';
import { normalReference } from '../../../../rules/normal-entry.ts';
import type { Verdict } from '../../../../rules/verdict.ts';
import type { ArtifactView } from '../../../../wire/artifacts.ts';
import { isNodeCache, normalType, resolveRegistry } from '../../../catalog/rules/registry.ts';

/** Everything in which models and knowledge differ. Both kinds are artifacts: docs/spec/workloads.md#models-and-knowledge. */
export const ARTIFACTS = {
  models: {
    noun: 'model',
    code: 'MODEL',
    catalogCode: 'MICROSERVICE_CATALOG',
    nodeFullCode: 'NODE_MODELS_FULL',
    reasons: { notFound: 'ModelNotFound', notReady: 'ModelNotReady', nodeFull: 'NodeModelsFull' },
    /** a hub has many variants of one model side by side */
    hubNeedsFiles: true,
  },
  knowledge: {
    noun: 'knowledge',
    code: 'KNOWLEDGE',
    catalogCode: 'MICROSERVICE_KNOWLEDGE',
    nodeFullCode: 'NODE_KNOWLEDGE_FULL',
    reasons: { notFound: 'KnowledgeNotFound', notReady: 'KnowledgeNotReady', nodeFull: 'NodeKnowledgeFull' },
    hubNeedsFiles: false,
  },
} as const satisfies Readonly<Record<ArtifactKind, object>>;

export const isArtifactKind = (key: string): key is ArtifactKind => Object.hasOwn(ARTIFACTS, key);

/** The registry that an artifact names: a number is an id, text a name; undefined when the text is empty. */
export const artifactRegistryRef = ({ spec: { registryId: id, registry } }: Artifact): number | string | undefined =>
  normalReference(id ?? registry);

/** The registry of an artifact, when it exists. */
function artifactRegistry(artifact: Artifact, find: Find): Registry | undefined {
  const ref = artifactRegistryRef(artifact);
  return ref === undefined ? undefined : resolveRegistry(find, ref);
}

/** The format in one spelling. Knowledge may name any; what is not known counts as `unknown`. */
export function normalFormat(kind: ArtifactKind, format: string | undefined): string | undefined {
  if (kind === 'models' || !format) return format || undefined;
  const word = format.toLowerCase();
  return KNOWLEDGE_FORMATS.has(word) ? word : 'unknown';
}

/** Why an artifact cannot be pulled. */
export function artifactVerdict(kind: ArtifactKind, artifact: Artifact, find: Find): Verdict | undefined {
  const { noun, code, hubNeedsFiles } = ARTIFACTS[kind];
  const ref = artifactRegistryRef(artifact);
  const registry = artifactRegistry(artifact, find);
  const ofRegistry = { field: 'registryId' } as const;
  const shown = JSON.stringify(ref ?? '');
  if (!registry)
    return {
      ...ofRegistry,
      reason: 'RegistryNotFound',
      status: 404,
      code: 'REGISTRY_NOT_FOUND',
      message: `registryId: no registry ${shown}`,
    };
  if (isNodeCache(registry))
    return {
      ...ofRegistry,
      reason: 'RegistryWrongType',
      status: 400,
      code: 'INVALID_REGISTRY_TYPE',
      message: `registryId: the registry ${shown} is the node's own cache of images, from which no ${noun} can be pulled`,
    };
  if (registryId(registry) === undefined)
    return {
      ...ofRegistry,
      reason: 'RegistryNotReady',
      status: 409,
      code: 'REGISTRY_NOT_READY',
      message: `registryId: the registry ${shown} has no id yet`,
      passes: true,
    };
  const isHub = normalType(registry.spec.type) === 'hub';
  const named = artifact.spec.files?.length ?? 0;
  if (isHub && hubNeedsFiles && named === 0)
    return {
      reason: 'FilesRequired',
      status: 400,
      code: `${code}_HF_FILES_REQUIRED`,
      field: 'files',
      message: `files: are required for a ${noun} of the hub ${shown}, for example ["*.gguf"]`,
    };
  if (!isHub && named > 0)
    return {
      reason: 'FilesForbidden',
      status: 400,
      code: `${code}_OCI_FILES_FORBIDDEN`,
      field: 'files',
      message: `files: must be absent, since ${shown} is a registry of type oci, from which a ${noun} is pulled as a whole`,
    };
  return undefined;
}

/** v3 read; `find` gives the id of a registry that the artifact names by its name. */
export function artifactRead(kind: ArtifactKind, artifact: Artifact, find: Find): Record<string, unknown> {
  const { repo, revision, files } = artifact.spec;
  const registry = artifactRegistry(artifact, find);
  const ref = artifactRegistryRef(artifact);
  const id = (registry && registryId(registry)) ?? (typeof ref === 'number' ? ref : undefined);
  const format = normalFormat(kind, artifact.spec.format);
  return {
    name: v3Name(artifact),
    repo,
    revision: revision ?? '',
    ...(id !== undefined && { registryId: id }),
    files: files ?? [],
    ...(format !== undefined && { format }),
  };
}

/** Names of the artifacts of a kind that the entries of an application bind. */
export function boundNames(application: Application, kind: ArtifactKind): ReadonlySet<string> {
  const names = new Set<string>();
  for (const entry of application.spec.microservices ?? [])
    for (const { name } of entry[kind]?.items ?? []) names.add(name);
  return names;
}

/** An artifact and its registry, as a node needs both; undefined while its registry cannot be found. */
export function nodeArtifact(kind: ArtifactKind, artifact: Artifact, find: Find) {
  const registry = artifactRegistry(artifact, find);
  const view = registry && artifactView(kind, artifact, registry);
  return view && { view, registry };
}

/** What the content of an artifact is pulled from; undefined while its registry cannot be found. */
export function pullSource(artifact: Artifact, find: Find): ArtifactSource | undefined {
  const registry = artifactRegistry(artifact, find);
  return registry && sourceIn(artifact, registry);
}

type ArtifactSource = Omit<ArtifactView, 'uuid' | 'name' | 'format'>;

function sourceIn(
  { spec: { repo, revision = '', files = [] } }: Artifact,
  registry: Registry,
): ArtifactSource | undefined {
  const id = registryId(registry);
  return id === undefined ? undefined : { repo, revision, registryId: id, files };
}

function artifactView(kind: ArtifactKind, artifact: Artifact, registry: Registry): ArtifactView | undefined {
  const source = sourceIn(artifact, registry);
  const format = normalFormat(kind, artifact.spec.format);
  return (
    source && { uuid: uuidOf(artifact), name: v3Name(artifact), ...source, ...(format !== undefined && { format }) }
  );
}
