import { X509Certificate } from 'node:crypto';
import { z } from 'zod';
import { BOUNDS } from '../../../src/api/bounds.ts';
import { labelName } from '../../../src/api/meta.ts';
import { integer, mapOf, object, oneOf, text } from '../../../src/api/schema.ts';
import { KNOWLEDGE_FORMATS, knowledgeResource } from '../../../src/api/v3/knowledge.ts';
import { modelResource } from '../../../src/api/v3/model.ts';
import { registrySpecSchema } from '../../../src/api/v3/registry.ts';
import type { RuntimeClassView } from '../../../src/wire/agent.ts';
import type { ArtifactKind } from '../domain/artifact.ts';
import { MANIFEST_VERSION } from '../domain/names.ts';
import { isLoopback } from '../domain/reference.ts';
import { LOCAL_REGISTRY_IDS } from '../domain/registry-number.ts';
import type { ArtifactManifest } from './artifacts.ts';
import { invalidManifest, readDocuments, readManifestDocument } from './documents.ts';
import type { RegistryManifest } from './registries.ts';

const head = <const Kind extends string>(kind: Kind) => ({
  apiVersion: z.literal(MANIFEST_VERSION),
  kind: z.literal(kind),
});

const credential = () => text({ min: 1, max: BOUNDS.name }).optional();

const registryManifest = object({
  ...head('Registry'),
  spec: object({
    id: integer(1, LOCAL_REGISTRY_IDS.last).optional(),
    type: oneOf('oci', 'hub').default('oci'),
    url: registrySpecSchema.shape.url,
    private: z.boolean(),
    username: credential(),
    password: text({ min: 1, max: 16 * 1024 }).optional(),
    email: registrySpecSchema.shape.email,
    ca: text({ min: 1, max: BOUNDS.certificateBundle }).optional(),
    insecure: z.boolean().default(false),
  }),
});
type RegistrySpec = z.output<typeof registryManifest>['spec'];

/** The url may hold what somebody took for a place of credentials. */
const SECRET: ReadonlySet<PropertyKey> = new Set(['url', 'username', 'password', 'email', 'ca']);

/** What no schema of a field says. The first answer is the refusal. */
const REGISTRY_RULES: readonly ((spec: RegistrySpec) => string | undefined | false)[] = [
  ({ private: isPrivate, username, password }) =>
    !isPrivate &&
    (username ?? password) !== undefined &&
    'spec.private: false, and there are credentials: say true, or leave username and password out',
  ({ private: isPrivate, type, username, password }) =>
    isPrivate &&
    type === 'oci' &&
    (username === undefined || password === undefined) &&
    'spec.username, spec.password: a private registry of the type oci needs both',
  ({ private: isPrivate, type, password }) =>
    isPrivate && type === 'hub' && password === undefined && 'spec.password: a private hub needs its token here',
  ({ type, username }) =>
    type === 'hub' && username !== undefined && 'spec.username: a hub knows its users by the token alone',
  ({ type, email }) => type === 'hub' && email !== undefined && 'spec.email: a hub has no use for it',
  ({ url, insecure }) =>
    /^http:/i.test(url) &&
    !insecure &&
    !isLoopback(url.replace(/^http:\/\//i, '').split('/')[0] ?? '') &&
    'spec.url: http:// needs insecure: true',
  ({ ca }) => ca !== undefined && !isBundle(ca) && 'spec.ca: must be certificates as PEM, in base64',
];

/** Whether a text is a list of certificates that can be read. */
function isBundle(ca: string): boolean {
  if (!/^[A-Za-z0-9+/]+=*$/.test(ca.replace(/\s/g, ''))) return false;
  const pem = Buffer.from(ca, 'base64').toString('latin1');
  const certificates = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  try {
    return certificates.length > 0 && certificates.every((each) => new X509Certificate(each).raw.length > 0);
  } catch {
    return false;
  }
}

/** Reads the manifest of a registry. Throws an AgentError that repeats neither credentials nor the url. */
export function readRegistryManifest(source: string): RegistryManifest {
  const { spec } = readManifestDocument(source, registryManifest, { secret: SECRET });
  const wrong = REGISTRY_RULES.map((rule) => rule(spec)).find(Boolean);
  if (wrong) throw invalidManifest(wrong);
  const { id, type, url, private: isPrivate, username = '', password = '', email: userEmail = '', ca = '' } = spec;
  return {
    ...(id !== undefined && { id }),
    ...{ type, url, isPublic: !isPrivate, username, password, userEmail, ca: ca.replace(/\s/g, '') },
    insecure: spec.insecure,
  };
}

const artifactManifest = <const Kind extends string, Format extends z.ZodType<string>>(
  kind: Kind,
  { repo, revision, files }: typeof modelResource.spec.shape | typeof knowledgeResource.spec.shape,
  format: Format,
) =>
  object({
    ...head(kind),
    metadata: object({
      name: labelName(),
      labels: mapOf(text({ max: BOUNDS.annotationValue }), BOUNDS.annotations).optional(),
    }),
    spec: object({
      ...{ repo, revision, files },
      registry: integer(1, LOCAL_REGISTRY_IDS.last),
      format: format.optional(),
    }),
  });

const ARTIFACT_MANIFESTS = {
  models: artifactManifest(
    'Model',
    modelResource.spec.shape,
    oneOf('gguf', 'safetensors', 'onnx', 'pytorch', 'tensorrt', 'unknown'),
  ),
  knowledge: artifactManifest('Knowledge', knowledgeResource.spec.shape, oneOf('unknown', ...KNOWLEDGE_FORMATS)),
};

/** Reads a manifest of models, or of knowledge: one or several documents, each of another name. */
export function readArtifactManifests(kind: ArtifactKind, source: string): ArtifactManifest[] {
  const documents = readDocuments(source, ARTIFACT_MANIFESTS[kind], { secret: new Set() });
  const names = documents.map(({ metadata }) => metadata.name);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) throw invalidManifest(`metadata.name: ${twice} is there twice`);
  return documents.map(
    ({ metadata: { name, labels }, spec: { repo, revision = '', files = [], registry, format } }) => ({
      ...{ name, labels, repo, revision, files, registry },
      ...(format !== undefined && { format }),
    }),
  );
}

/** An artifact as a request of its members describes it, judged as in a manifest. */
export function artifactOfMembers(
  kind: ArtifactKind,
  { name, registryId: registry, ...spec }: { name: string; registryId: number; [member: string]: unknown },
): ArtifactManifest {
  const head = { apiVersion: MANIFEST_VERSION, kind: kind === 'models' ? 'Model' : 'Knowledge' };
  const [manifest] = readArtifactManifests(
    kind,
    JSON.stringify({ ...head, metadata: { name }, spec: { ...spec, registry } }),
  );
  return manifest as ArtifactManifest;
}

const runtimeClassManifest = object({
  ...head('RuntimeClass'),
  metadata: object({ name: labelName() }),
  handler: text({
    min: 1,
    max: BOUNDS.name,
    pattern: '^[A-Za-z0-9][A-Za-z0-9._-]*$',
    expects: 'the name of a runtime of the engine',
  }),
});

/** Reads the manifest of a runtime class. */
export function readRuntimeClassManifest(source: string): RuntimeClassView {
  const { metadata, handler } = readManifestDocument(source, runtimeClassManifest, { secret: new Set() });
  return { name: metadata.name, handler };
}
