import { type MicroserviceEntry, microserviceSchema } from '../../api/v3/index.ts';
import { invalid } from '../errors.ts';
import { isObject, readDocument, refuseExpressions } from './document.ts';
import { validateSpec } from './validate.ts';

/** What an uploaded Microservice document asks for. */
export interface MicroserviceUpload {
  entry: MicroserviceEntry;
  /** from `app/ms` or spec.application */
  application?: string;
  rebuild: boolean;
}

/**
 * An uploaded Microservice document (already parsed YAML). On an update `name` and `application` are those of the entry,
 * and the document must name the same. Throws DomainError.
 */
export function readMicroserviceUpload(
  document: unknown,
  { name, application }: { name?: string; application?: string } = {},
): MicroserviceUpload {
  refuseExpressions(document);
  const { metadata, spec } = readDocument(document, 'Microservice');
  const named = splitName(metadata.name);
  const { application: specApplication, rebuild, ...rest } = spec;
  if (name !== undefined && named.name !== name)
    throw invalid(`metadata.name: ${JSON.stringify(named.name)}; must equal ${JSON.stringify(name)}`, 'metadata.name');
  const owner = oneApplication(named.application, specApplication);
  if (application !== undefined && owner !== undefined && owner !== application)
    throw invalid(
      `spec.application: ${JSON.stringify(owner)}; is immutable and is ${JSON.stringify(application)}`,
      'spec.application',
    );
  return {
    entry: readEntry({ ...rest, name: named.name }, 'spec'),
    ...(owner !== undefined && { application: owner }),
    rebuild: rebuild === true,
  };
}

/** `ms` or `app/ms`. */
function splitName(text: string): { application?: string; name: string } {
  const parts = text.split('/');
  if (parts.length > 2 || parts.includes(''))
    throw invalid(
      `metadata.name: ${JSON.stringify(text)}; must be <microservice> or <application>/<microservice>`,
      'metadata.name',
    );
  const [first = '', second] = parts;
  return second === undefined ? { name: first } : { application: first, name: second };
}

function oneApplication(fromName: string | undefined, fromSpec: unknown): string | undefined {
  if (fromSpec === undefined || fromSpec === null || fromSpec === '') return fromName;
  if (typeof fromSpec !== 'string') throw invalid('spec.application: must be text', 'spec.application');
  if (fromName !== undefined && fromName !== fromSpec)
    throw invalid(
      `spec.application: ${JSON.stringify(fromSpec)}; metadata.name says ${JSON.stringify(fromName)}`,
      'spec.application',
    );
  return fromSpec;
}

/** An entry in the YAML form. Unknown fields are dropped, as v3 does. `path` stands before the names of fields. */
export function readEntry(value: unknown, path: string): MicroserviceEntry {
  if (!isObject(value)) throw invalid(`${path}: must be an object`, path);
  return validateSpec(microserviceSchema, tidy(value), { tolerant: true, path });
}

type Fields = Record<string, unknown>;

/**
 * What files of existing v3 users may hold and a Kubernetes object cannot: empty text for "not set", numbers where text
 * is meant, scopes in capital letters, both spellings of commands, bindings of the service account.
 */
function tidy(entry: Fields): Fields {
  const { agent, images, container, ...rest } = entry;
  return {
    ...rest,
    ...(isObject(agent) ? optional('agent', withoutEmpty(agent)) : given('agent', agent)),
    ...(isObject(images) ? { images: withoutEmpty(images) } : given('images', images)),
    ...(isObject(container) ? { container: tidyContainer(container) } : given('container', container)),
  };
}

function tidyContainer(container: Fields): Fields {
  const { annotations, env, volumes, cmd, ...rest } = withoutEmpty(container);
  return {
    ...rest,
    ...(rest.commands === undefined ? given('cmd', cmd) : {}),
    ...(isObject(annotations)
      ? { annotations: Object.fromEntries(Object.entries(annotations).map(([key, value]) => [key, textOf(value)])) }
      : given('annotations', annotations)),
    ...(Array.isArray(env)
      ? { env: env.map((item) => (isObject(item) && 'value' in item ? { ...item, value: textOf(item.value) } : item)) }
      : given('env', env)),
    ...(Array.isArray(volumes) ? { volumes: volumes.flatMap(tidyVolume) } : given('volumes', volumes)),
  };
}

/** The controller alone injects the binding of the service account; only volumes have a scope. */
function tidyVolume(volume: unknown): unknown[] {
  if (!isObject(volume)) return [volume];
  if (volume.type === 'serviceAccount') return [];
  const { scope, ...rest } = withoutEmpty(volume);
  if (volume.type !== 'volume' || scope === undefined) return [rest];
  return [{ ...rest, scope: typeof scope === 'string' ? scope.toLowerCase() : scope }];
}

const textOf = (value: unknown): unknown =>
  typeof value === 'number' || typeof value === 'boolean' ? String(value) : value;

const withoutEmpty = (fields: Fields): Fields =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== '' && value !== null));

const given = (key: string, value: unknown): Fields => (value === undefined ? {} : { [key]: value });
const optional = (key: string, value: Fields): Fields => (Object.keys(value).length > 0 ? { [key]: value } : {});
