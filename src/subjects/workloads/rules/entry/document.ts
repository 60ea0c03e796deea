import { CONTAINER_FIELD_NAMES, fieldRow } from '../../../../api/container/index.ts';
import { type MicroserviceEntry, microserviceSchema } from '../../../../api/v3/index.ts';
import { type Fields, isEmpty, withoutEmpty } from '../../../../rules/body-values.ts';
import { isObject, readDocument } from '../../../../rules/document.ts';
import { invalid } from '../../../../rules/errors.ts';
import { validateSpec } from '../../../../rules/validate.ts';
import { readContainerValue } from './container-values.ts';

/** An uploaded Microservice document as read. */
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
  return validateSpec(microserviceSchema, tidy(value, path), { tolerant: true, path });
}

/**
 * What files of existing v3 users may have and a Kubernetes object cannot: empty text for "not set", both spellings of a
 * container field, and what `readContainerValue` accepts.
 */
function tidy(entry: Fields, path: string): Fields {
  const { agent, images, container, template, ...rest } = entry;
  const given = (key: string, value: unknown, tidied: (fields: Fields) => Fields): Fields =>
    value === undefined ? {} : { [key]: isObject(value) ? tidied(value) : value };
  return {
    ...rest,
    ...(isObject(agent) && isEmpty(withoutEmpty(agent)) ? {} : given('agent', agent, withoutEmpty)),
    ...given('images', images, withoutEmpty),
    ...(isEmpty(template) ? {} : { template }),
    ...given('container', container, (fields) => tidyContainer(withoutEmpty(fields), path)),
  };
}

function tidyContainer(container: Fields, path: string): Fields {
  const tidied = { ...container };
  for (const name of CONTAINER_FIELD_NAMES) {
    const { alias } = fieldRow(name);
    if (tidied[name] !== undefined) {
      tidied[name] = readContainerValue(name, tidied[name], `${path}.container.${name}`);
      if (alias) delete tidied[alias.name];
    }
  }
  return tidied;
}
