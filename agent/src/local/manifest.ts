import { z } from 'zod';
import { BOUNDS } from '../../../src/api/bounds.ts';
import { containerSchema, normalContainer } from '../../../src/api/container/index.ts';
import { labelName } from '../../../src/api/meta.ts';
import {
  BUILT_IN_REGISTRIES,
  LOCAL_APPLICATION,
  RESERVED_ENV_PREFIX,
  RESERVED_LABEL_PREFIX,
  RESERVED_LOCAL_NAMES,
} from '../../../src/api/names.ts';
import { anyJson, integer, mapOf, object, text } from '../../../src/api/schema.ts';
import { imageReference, microserviceSchema } from '../../../src/api/v3/microservice.ts';
import type { MicroserviceView } from '../../../src/wire/agent.ts';
import { containerMembers } from '../../../src/wire/container.ts';
import { canonicalJson } from '../../../src/wire/digest.ts';
import { yamlText } from '../../../src/yaml/text.ts';
import { MANIFEST_VERSION } from '../domain/names.ts';
import { localRegistryNumber } from '../domain/registry-number.ts';
import { invalidManifest, readManifestDocument, SHOWN_LENGTH } from './documents.ts';

const manifestSchema = object({
  apiVersion: z.literal(MANIFEST_VERSION),
  kind: z.literal('Microservice'),
  metadata: object({
    name: labelName(),
    namespace: text({ max: BOUNDS.name }).optional(),
    labels: mapOf(text({ max: BOUNDS.annotationValue }), BOUNDS.annotations).optional(),
  }),
  spec: object({
    image: imageReference,
    registry: integer(1, BOUNDS.id).optional(),
    models: microserviceSchema.shape.models,
    knowledge: microserviceSchema.shape.knowledge,
    schedule: integer(0, 100).optional(),
    config: anyJson().optional(),
    container: containerSchema.optional(),
  }),
});
type Manifest = z.infer<typeof manifestSchema>;

/** A microservice as a manifest describes it. */
export interface ManifestMicroservice {
  name: string;
  image: string;
  /** in the numbers of this machine; absent: nothing is pulled */
  registry: number | undefined;
  /** its view under a uuid */
  view(uuid: string): MicroserviceView;
}

/**
 * Reads the manifest of a microservice (docs/spec/agent-local-api.md#manifest-of-a-microservice). Throws an AgentError that names
 * the first thing that is wrong; no value of a variable or of the config is in it.
 */
export function readMicroserviceManifest(source: string): ManifestMicroservice {
  const manifest = parsed(source);
  const { metadata, spec } = manifest;
  const wrong = RULES.map((rule) => rule(manifest)).find(Boolean);
  if (wrong) throw invalid(wrong);
  return {
    name: metadata.name,
    image: spec.image,
    registry: spec.registry,
    view: (uuid) => viewOf(manifest, uuid),
  };
}

const invalid = invalidManifest;

function parsed(source: string): Manifest {
  return readManifestDocument(source, manifestSchema, { prepare: withOneSpelling, secret: SECRET });
}

/** `cmd` is another spelling of `commands`; of both, `commands` counts. */
function withOneSpelling(document: unknown): unknown {
  const { spec } = (document ?? {}) as { spec?: { container?: Record<string, unknown> } };
  const container = spec?.container;
  if (!container || typeof container !== 'object' || !('cmd' in container && 'commands' in container)) return document;
  const { cmd, ...rest } = container;
  return { ...(document as object), spec: { ...spec, container: rest } };
}

/** Members whose values no message repeats: they may be secret. */
const SECRET: ReadonlySet<PropertyKey> = new Set(['value', 'config']);

const VOLUME_NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/;
const PLATFORM = /^[a-z0-9]+\/[a-z0-9]+(\/[a-z0-9]+)?$/;

/** What no schema of a field says. The first answer is the refusal. */
const RULES: readonly ((manifest: Manifest) => string | undefined | false)[] = [
  ({ metadata: { name } }) =>
    RESERVED_LOCAL_NAMES.includes(name) &&
    `metadata.name: ${name} is reserved: ${LOCAL_APPLICATION}.${name} is a name of the machine itself`,
  ({ metadata: { labels = {} }, spec: { container } }) => {
    const keys = [...Object.keys(labels), ...Object.keys(container?.annotations ?? {})];
    const reserved = keys.find((key) => key.startsWith(RESERVED_LABEL_PREFIX));
    return (
      reserved !== undefined && `labels: the prefix ${RESERVED_LABEL_PREFIX} of ${reserved} is reserved for the agent`
    );
  },
  ({ spec: { container } }) => {
    const reserved = container?.env?.find(({ key }) => key.startsWith(RESERVED_ENV_PREFIX));
    return (
      reserved && `spec.container.env: the prefix ${RESERVED_ENV_PREFIX} of ${reserved.key} is reserved for the agent`
    );
  },
  ({ spec: { container } }) => {
    const referring = container?.env?.find(({ value }) => value === undefined);
    return (
      referring && `spec.container.env: ${referring.key} needs a value: Secrets and ConfigMaps are of a controller`
    );
  },
  ({ spec: { container } }) => {
    const foreign = container?.volumes?.find(({ type }) => type === 'volumeMount');
    return (
      foreign &&
      `spec.container.volumes: ${foreign.containerDestination}: volume mounts are of a controller; use bind or volume`
    );
  },
  ({ spec: { container } }) => {
    const unnamed = container?.volumes?.find((one) => one.type === 'volume' && !VOLUME_NAME.test(one.hostDestination));
    return (
      unnamed &&
      `spec.container.volumes: hostDestination ${JSON.stringify(unnamed.hostDestination.slice(0, SHOWN_LENGTH))} must be the name of a volume: letters, digits, "_", "." and "-"`
    );
  },
  ({ spec: { container } }) => {
    const relative = container?.volumes?.find(
      ({ type = 'bind', hostDestination }) => type === 'bind' && !hostDestination.startsWith('/'),
    );
    return (
      relative &&
      `spec.container.volumes: hostDestination ${JSON.stringify(relative.hostDestination.slice(0, SHOWN_LENGTH))} must be an absolute path`
    );
  },
  ({ spec: { container } }) => {
    const scoped = container?.volumes?.find(({ type, scope }) => scope !== undefined && type !== 'volume');
    return scoped && `spec.container.volumes: ${scoped.containerDestination}: only the type volume has a scope`;
  },
  ({ spec: { container } }) => {
    const referring = container?.extraHosts?.find(({ address }) => address.includes('$'));
    return (
      referring && `spec.container.extraHosts: ${referring.name}: an address or a name; references are of a controller`
    );
  },
  ({ spec: { container } }) => {
    const platform = container?.platform;
    return (
      !!platform &&
      !PLATFORM.test(platform) &&
      `spec.container.platform: ${platform.slice(0, SHOWN_LENGTH)} must be os/architecture, such as linux/arm64`
    );
  },
  ({ spec: { config } }) =>
    Buffer.byteLength(configText(config)) > BOUNDS.configBytes &&
    `spec.config: more than ${BOUNDS.configBytes} bytes as JSON`,
  (manifest) => {
    const paths = mountPaths(manifest);
    const twice = paths.find((path, index) => paths.indexOf(path) !== index);
    return twice !== undefined && `spec: two mounts have the path ${twice} in the container`;
  },
];

const configText = (config: unknown = {}): string => (typeof config === 'string' ? config : canonicalJson(config));

function mountPaths({ spec: { container, models, knowledge } }: Manifest): string[] {
  const paths = [
    ...(container?.volumes ?? []).map(({ containerDestination }) => containerDestination),
    ...(container?.tmpfs ?? []).map(({ containerPath }) => containerPath),
    ...[models, knowledge].flatMap((catalog) => (catalog?.bindPath ? [catalog.bindPath] : [])),
  ];
  return paths.map((path) => path.replace(/(?<!\/)\/+$/, '') || '/');
}

/** The view of a microservice of the machine. */
export function viewOf(
  { metadata: { name, labels }, spec }: Pick<Manifest, 'metadata' | 'spec'>,
  uuid: string,
): MicroserviceView {
  const { registry = BUILT_IN_REGISTRIES.local.id, schedule = 50, config, container = {}, models, knowledge } = spec;
  const annotations = { ...labels, ...container.annotations };
  const written = { ...container, ...(Object.keys(annotations).length > 0 && { annotations }) };
  return {
    ...{ uuid, name, application: LOCAL_APPLICATION, imageId: spec.image, schedule },
    registryId: localRegistryNumber(registry),
    config: configText(config),
    ...{ rebuild: false, rebuildCount: 0, revision: '', isSystem: false },
    ...containerMembers(normalContainer(written), {
      // Nobody says which values are secret, so all of them are.
      env: (variables) => variables.map(({ key, value = '' }) => ({ key, value, secret: true })),
      extraHosts: (hosts) => hosts.map((host) => `${host.name}:${host.address}`),
      runtime: (runtime) => runtime,
      volumes: (volumes) => volumes,
    }),
    ...(models?.items?.length && { models: catalogOf(models) }),
    ...(knowledge?.items?.length && { knowledge: catalogOf(knowledge) }),
    serviceAccount: { name, rules: [] },
    ...{ isRouter: false, isBus: false, isController: false },
  };
}

const catalogOf = ({ bindPath, permissions = 'ro', items = [] }: NonNullable<Manifest['spec']['models']>) => ({
  bindPath,
  permissions,
  items,
});

const MASK = '***';

/** A manifest for answers, without the values of its variables and its config: any of them may be secret. */
export function maskedManifest(source: string): string {
  const { metadata, spec, ...rest } = parsed(source);
  const { env } = spec.container ?? {};
  const container = env && { ...spec.container, env: env.map(({ key }) => ({ key, value: MASK })) };
  const masked = { ...spec, ...(spec.config !== undefined && { config: MASK }), ...(container && { container }) };
  return yamlText({ ...rest, metadata, spec: masked });
}
