import { KubeConfig } from '@kubernetes/client-node';
import type { ResourceDefinition } from '../api/meta.ts';
import { API_VERSION } from '../api/names.ts';
import { structuralOf } from '../api/normal-form.ts';
import { prune, type Structural } from '../api/structural.ts';
import { createRest } from '../assembly/rest.ts';
import { createRoutes } from '../assembly/routes.ts';
import type { Kind } from '../kinds/definition.ts';
import { ApiError, createClient, type KubeClient } from '../kube/mod.ts';
import { type Fields, isEmpty, withoutEmpty } from '../rules/body-values.ts';
import { isObject } from '../rules/document.ts';
import { KINDS } from '../subjects/kinds.ts';
import { createTestClient, type TestClient } from './_client.ts';
import { createMemoryDependencies } from './_memory.ts';
import { objectsByKey, type RestDependencies } from './contract/dependencies.ts';

/**
 * The ways by which a document of a kind comes in: kubectl (the API server, with the strict field validation that kubectl asks for),
 * a YAML file and a JSON body of REST. Nothing is stored: what REST would create, the API server judges in a dry run.
 */

export interface Answer {
  accepted: boolean;
  /** of the refusal; several, since the API server names all violations */
  refusals: readonly string[];
  status: number;
  code: string;
}

export interface Doors extends AsyncDisposable {
  kubectl(kind: ResourceDefinition, spec: unknown, name?: string): Promise<Answer>;
  /** Through each door of REST that the kind has. */
  yaml(kind: Kind, spec: unknown, name?: string): Promise<Answer | undefined>;
  json(kind: Kind, spec: unknown, name?: string): Promise<Answer | undefined>;
  client: TestClient;
}

const NAME = 'corpus';

/** REST over these dependencies, and how it answers the creation of an object. */
export async function serveDry(deps: RestDependencies, cleanup: AsyncDisposableStack) {
  const server = cleanup.use(createRest({ deps }));
  const { port } = await server.listen({ port: 0, host: '127.0.0.1' });
  const client = createTestClient(`http://127.0.0.1:${port}`, createRoutes(KINDS));
  let callers = 0;
  const answer = async (path: string, request: { json?: unknown; yaml?: string }): Promise<Answer> => {
    // Limits of files and bytes are per caller.
    const { status, body } = await client.post(path, { ...request, token: `caller-${callers++}` });
    const { code = '', message = '' } = (body ?? {}) as { code?: string; message?: string };
    return { accepted: status < 300, refusals: status < 300 ? [] : [message], status, code };
  };
  return { client, answer };
}

export async function openDoors(kubeconfig: string): Promise<Doors> {
  const cleanup = new AsyncDisposableStack();
  const kube = cleanup.use(clientFor(kubeconfig));
  const deps = dryDependencies(kube);
  const { client, answer } = await serveDry(deps, cleanup);
  const seen = new Map<string, Promise<Answer>>();
  return {
    client,
    kubectl(kind, spec, name = NAME) {
      const key = JSON.stringify([kind.kind, spec, name]);
      const object = { apiVersion: API_VERSION, kind: kind.kind, metadata: { name }, spec };
      const known =
        seen.get(key) ?? strictDryRun(kube, `/apis/${API_VERSION}/namespaces/default/${kind.plural}`, object);
      seen.set(key, known);
      return known;
    },
    async yaml(kind, spec, name = NAME) {
      const path = yamlPath(kind);
      const document = { apiVersion: API_VERSION, kind: kind.definition.kind, metadata: { name }, spec };
      return path === undefined ? undefined : answer(path, { yaml: JSON.stringify(document) });
    },
    async json(kind, spec, name = NAME) {
      const path = kind.rest.crud?.path ?? OWN_PATHS[kind.key];
      if (isObject(spec) && kind.definition.hasLabelNames && spec.name !== undefined) return undefined;
      if (namesByText(spec)) return undefined;
      const body = isObject(spec) ? { ...bodyOf(kind, spec), name: isUnset(spec.name) ? name : spec.name } : spec;
      return path === undefined ? undefined : answer(path, { json: body });
    },
    [Symbol.asyncDispose]: () => cleanup.disposeAsync(),
  };
}

export const clientFor = (kubeconfig: string): KubeClient =>
  createClient({
    config: () => {
      const config = new KubeConfig();
      config.loadFromFile(kubeconfig);
      return config;
    },
  });

const OWN_PATHS: Readonly<Record<string, string>> = { nodes: '/node', applications: '/application' };

const yamlPath = (kind: Kind): string | undefined =>
  kind.key === 'applications' ? '/application/yaml' : kind.rest.crud?.upload && `${kind.rest.crud.path}/yaml`;

/** What the API server says of an object under the strict field validation that kubectl asks for. */
export async function strictDryRun(kube: KubeClient, path: string, object: object): Promise<Answer> {
  try {
    await kube.request('POST', `${path}?dryRun=All&fieldValidation=Strict`, object);
    return { accepted: true, refusals: [], status: 201, code: '' };
  } catch (error) {
    if (!(error instanceof ApiError) || (error.status !== 422 && error.status !== 400)) throw error;
    const causes = error.details.causes?.map(({ field = '', message = '' }) => `${field}: ${message}`) ?? [];
    return {
      accepted: false,
      refusals: causes.length > 0 ? causes : [error.message],
      status: error.status,
      code: error.reason,
    };
  }
}

/** Dependencies of REST in memory whose creates are dry runs on the API server; any token is that of an administrator. */
function dryDependencies(kube: KubeClient): RestDependencies {
  const deps = createMemoryDependencies({
    authenticator: { authenticate: async (name) => ({ name, groups: [] }) },
    authorizer: { allowed: async () => true },
  });
  const dry = Object.entries(KINDS).map(([key, { resource }]) => [
    key,
    {
      ...objectsByKey(deps, key),
      create: (object: { metadata: object }) =>
        kube.create(resource as never, { ...object, metadata: { ...object.metadata, namespace: 'default' } } as never, {
          dryRun: true,
        }),
      replace: async (object: unknown) => object,
    },
  ]);
  return { ...deps, ...Object.fromEntries(dry) };
}

/** The flat JSON body for a spec, as far as names differ; for applications also those of their entries. */
function bodyOf(kind: Kind, spec: Record<string, unknown>): Record<string, unknown> {
  if (kind.key !== 'applications' || !Array.isArray(spec.microservices)) return spec;
  return { ...spec, microservices: spec.microservices.map((entry) => (isObject(entry) ? flatOf(entry) : entry)) };
}

/** Whether an entry names a registry or a catalog item by a name, which the flat form cannot. */
const namesByText = (spec: unknown): boolean =>
  isObject(spec) &&
  Array.isArray(spec.microservices) &&
  spec.microservices.some((entry) => {
    const images = isObject(entry) && isObject(entry.images) ? entry.images : {};
    return [images.registry, images.catalogId].some((ref) => typeof ref === 'string' && !/^\d*$/.test(ref));
  });

const IMAGE_IDS: Readonly<Record<string, number>> = { amd64: 1, x86: 1, arm64: 2, riscv64: 3, riscv: 3, arm: 4 };

function flatOf({ agent, images, container, config, ...rest }: Record<string, unknown>): Record<string, unknown> {
  const { volumes, ...fields } = isObject(container) ? container : {};
  const { registry, catalogId, ...byArchitecture } = isObject(images) ? images : {};
  const { name, uuid, ...otherAgent } = isObject(agent) ? agent : {};
  return {
    ...rest,
    ...otherAgent,
    ...(name !== undefined && { agentName: name }),
    ...(uuid !== undefined && { nodeUuid: uuid }),
    ...(config !== undefined && { config: JSON.stringify(config) }),
    // The flat form needs an image.
    images: Object.entries({ ...(images === undefined && { amd64: 'a:1' }), ...byArchitecture }).map(
      ([architecture, containerImage]) => ({ archId: IMAGE_IDS[architecture], containerImage }),
    ),
    ...(registry !== undefined && { registryId: registry }),
    ...(catalogId !== undefined && { catalogItemId: catalogId }),
    ...fields,
    ...(volumes !== undefined && { volumeMappings: volumes }),
  };
}

/** Members of specs that no body of REST has: the controller gives identities and marks its own, and passwords go into Secrets. */
const NOT_IN_BODIES: readonly string[] = ['uuid', 'id', 'passwordSecretRef', 'isSystem'];
/** A body may ask for a node of the system and for the number of a registry, and the file of an application for its identity. */
const isInBodies = (kind: Kind, name: string, door: Door) =>
  !NOT_IN_BODIES.includes(name) ||
  (kind.key === 'nodes' && name === 'isSystem') ||
  (kind.key === 'registries' && name === 'id') ||
  (kind.key === 'applications' && name !== 'isSystem' && door === 'yaml');
export type Door = 'yaml' | 'json';

const isUnset = (value: unknown) => value === undefined || value === null || value === '';

/**
 * The document as REST reads it: empty text and null mean "not set" (docs/spec/rest-v3.md#conventions), unknown members of some kinds
 * are dropped, and identity and links are not part of it.
 */
export function readAs(kind: Kind, spec: unknown, door: Door): unknown {
  if (!isObject(spec)) return spec;
  const { properties = {} } = structuralOf(kind.definition.spec);
  const schema = structuralOf(kind.definition.spec);
  // The files that this sends are of the product's own API, which drops nothing.
  const isStrict = kind.rest.crud?.closed || (door === 'yaml' && !hasMapForList(spec, schema));
  const known = isStrict ? spec : prune(spec, schema).value;
  const set = Object.entries(known as object).filter(
    ([name, value]) => !isUnset(value) && !(name in properties && !isInBodies(kind, name, door)),
  );
  const read = Object.fromEntries(set);
  if (kind.key !== 'applications') return read;
  if (isEmpty(read.template)) delete read.template;
  else if (isObject(read.template)) read.template = withoutEmpty(read.template);
  const { microservices } = read;
  if (!Array.isArray(microservices)) return read;
  return { ...read, microservices: microservices.map((entry) => (isObject(entry) ? entryAs(entry, door) : entry)) };
}

/** Of a map in the place of a list the API server says that its members are unknown, and REST that it must be a list. */
function hasMapForList(value: unknown, { items, properties = {} }: Structural): boolean {
  if (Array.isArray(value)) return items !== undefined && value.some((item) => hasMapForList(item, items));
  if (!isObject(value)) return false;
  if (items) return true;
  return Object.entries(value).some(([key, member]) => {
    const known = Object.hasOwn(properties, key) ? properties[key] : undefined;
    return known !== undefined && hasMapForList(member, known);
  });
}

/** What files of existing clients may have in an entry (docs/spec/workloads.md#uploads). */
function entryAs({ agent, container, images, template, busEnabled, ...rest }: Fields, door: Door): Fields {
  const given = (name: string, value: unknown, tidy: (fields: Fields) => Fields = withoutEmpty) =>
    value === undefined ? {} : { [name]: isObject(value) ? tidy(value) : value };
  return {
    ...rest,
    ...(isObject(agent) && isEmpty(withoutEmpty(agent)) ? {} : given('agent', agent)),
    ...given('images', images),
    ...given('container', container, (fields) => containerAs(fields, door)),
    ...(isEmpty(template) ? {} : { template }),
    ...(busEnabled !== undefined && (door === 'yaml' || rest.busConfig === undefined) && { busEnabled }),
  };
}

function containerAs(container: Fields, door: Door): Fields {
  const { cmd, ...fields } = withoutEmpty(container);
  const tidied = Object.entries(fields).map(([name, value]) => [name, valueAs(name, value, door)]);
  return { ...Object.fromEntries(tidied), ...(cmd !== undefined && fields.commands === undefined && { cmd }) };
}

const ITEMS: readonly string[] = ['ports', 'volumes', 'extraHosts', 'devices', 'tmpfs', 'env'];
const isPlain = (value: unknown) => typeof value === 'number' || typeof value === 'boolean';

function valueAs(name: string, value: unknown, door: Door): unknown {
  if (name === 'annotations' && isEmpty(value)) return {};
  if (name === 'annotations' && isObject(value))
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, isPlain(one) ? String(one) : one]));
  if (name === 'healthCheck' && isObject(value))
    return Object.fromEntries(Object.entries(value).filter(([, member]) => !isEmpty(member)));
  if (!ITEMS.includes(name) || !Array.isArray(value)) return value;
  return value.map((item) => {
    if (!isObject(item)) return item;
    const { value, scope, ...fields } = item;
    // A JSON body may have what a read shows beside a reference.
    const isShown = door === 'json' && !(isUnset(fields.valueFromSecret) && isUnset(fields.valueFromConfigMap));
    const literal = isShown ? undefined : value;
    return {
      ...withoutEmpty(fields),
      ...(!isUnset(literal) && { value: isPlain(literal) ? String(literal) : literal }),
      ...(literal === '' && { value: '' }),
      ...(scope !== undefined && fields.type === 'volume' && { scope: String(scope).toLowerCase() }),
    };
  });
}

/** Acts on all items, some at a time. */
export async function inParallel<T>(items: readonly T[], act: (item: T) => Promise<void>, width = 16): Promise<void> {
  const left = items.values();
  const worker = async () => {
    for (const item of left) await act(item);
  };
  await Promise.all(Array.from({ length: width }, worker));
}
