import { CONTAINER_FIELD_NAMES, fieldRow } from '../../../../api/container/index.ts';
import type { ApplicationTemplate, MicroserviceEntry, MicroserviceTemplate } from '../../../../api/v3/index.ts';
import { type Fields, isEmpty } from '../../../../rules/body-values.ts';
import { isObject } from '../../../../rules/document.ts';
import { DomainError, invalid } from '../../../../rules/errors.ts';
import type { Rendering } from '../../../../rules/renderer.ts';
import { readEntry } from '../entry/document.ts';
import { FLAT_FIELDS, patchEntry } from '../entry/flat.ts';
import { type TemplateRef, variablesOf } from './variables.ts';

/**
 * What a template and a request make together (docs/spec/workloads.md#templates): a few members of the request win, all
 * others come from the template, and the request fills what the template leaves out. A member is taken whole from one.
 */

/** Members of an application that the request decides. */
const OF_THE_REQUEST = ['name', 'description', 'isActivated', 'isSystem'] as const;

/** The application of a request with a template, to be rendered; what the template adds may have expressions. */
export function applicationRendering(
  template: ApplicationTemplate,
  ref: TemplateRef,
  request: Fields,
  field: string,
): Rendering {
  const { template: _own, ...body } = structuredClone(template.spec.application) as Fields;
  if (isEmpty(body))
    throw invalid(`${field}: the template "${ref.name}" is empty`, field, 'APPLICATION_TEMPLATE_INVALID');
  const { template: _, ...rest } = request;
  const given = Object.fromEntries(OF_THE_REQUEST.flatMap((key) => (isEmpty(rest[key]) ? [] : [[key, rest[key]]])));
  if (Array.isArray(body.microservices)) body.microservices = body.microservices.map(withParsedTexts);
  return {
    document: { ...rest, ...body, ...given },
    variables: variablesOf(template.spec.variables, ref, field),
    only: Object.keys(body).flatMap((key) => (Object.hasOwn(given, key) ? [] : [[key]])),
  };
}

/** Members of the body of a microservice template that belong to each microservice. */
const OF_EACH = new Set(['name', 'uuid', 'application', 'agent', 'nodeUuid', 'agentName', 'flowId', 'template']);

/** The body of a microservice template without members that belong to each microservice. */
export const templateBody = (body: Fields): Fields =>
  Object.fromEntries(Object.entries(body).filter(([key]) => !OF_EACH.has(key)));

/** The body of a microservice template for one entry, to be rendered. */
export function entryRendering(
  template: MicroserviceTemplate,
  ref: TemplateRef,
  { name, agent }: MicroserviceEntry,
  application: string,
  field: string,
): Rendering {
  const body = withParsedTexts(templateBody(structuredClone(template.spec.microservice) as Fields));
  if (isEmpty(body))
    throw invalid(`${field}: the template "${ref.name}" is empty`, field, 'MICROSERVICE_TEMPLATE_INVALID');
  const node = {
    ...(agent && { agent }),
    ...(agent?.name !== undefined && { agentName: agent.name }),
    ...(agent?.uuid !== undefined && { nodeUuid: agent.uuid }),
  };
  return {
    document: { ...body, ...node, name, application },
    variables: variablesOf(template.spec.variables, ref, field),
    only: Object.keys(body).map((key) => [key]),
  };
}

/** The part of an entry that a rendered body is. Throws a DomainError that names the template. */
export function entryPart(rendered: Fields, name: string, ref: TemplateRef, field: string): MicroserviceEntry {
  const body = templateBody(rendered);
  try {
    return readEntryOfAnyForm({ ...body, name }, '');
  } catch (error) {
    if (!(error instanceof DomainError)) throw error;
    throw invalid(`${field}: the template "${ref.name}": ${error.message}`, field, 'MICROSERVICE_TEMPLATE_INVALID');
  }
}

/** An entry in the form of a REST body or of a YAML file, whether or not it is complete. */
export function readEntryOfAnyForm(value: unknown, path: string): MicroserviceEntry {
  if (!isFlat(value)) return readEntry(value, path);
  const { name, ...fields } = value;
  if (typeof name !== 'string' || name === '') throw invalid(`${path ? `${path}.` : ''}name: is required`, 'name');
  return patchEntry({ name }, fields).entry;
}

/** Whether an object has members that only the flat form of REST has. */
const isFlat = (value: unknown): value is Fields =>
  isObject(value) &&
  !isObject(value.container) &&
  (Array.isArray(value.images) || ONLY_FLAT.some((key) => key in value));

const ONLY_FLAT = ['cmd', 'portMappings', ...FLAT_FIELDS].filter(
  (key) =>
    ![
      ...['name', 'uuid', 'isActivated', 'images', 'config', 'schedule', 'minReadySeconds', 'models', 'knowledge'],
      ...['template', 'serviceAccount', 'busConfig'],
    ].includes(key),
);

/** The entry with the part of its template, which has precedence; without the reference to the template. */
export function overlaid(entry: MicroserviceEntry, part: MicroserviceEntry): MicroserviceEntry {
  const { template: _, images, container, busConfig, busEnabled, ...rest } = entry;
  const { name: _name, images: ofTemplate, container: containerOfTemplate, ...more } = part;
  const bus = 'busConfig' in more || 'busEnabled' in more ? {} : { busConfig, busEnabled };
  return withoutUndefined({
    ...rest,
    ...bus,
    ...more,
    images: overlaidImages(images, ofTemplate),
    container: overlaidContainer(container, containerOfTemplate),
  });
}

type Images = MicroserviceEntry['images'];
type Container = MicroserviceEntry['container'];

/** The images of all architectures are one member of the flat form. */
function overlaidImages(own: Images, ofTemplate: Images): Images {
  if (!own || !ofTemplate) return ofTemplate ?? own;
  const { registry, catalogId, ...images } = own;
  const { registry: _, catalogId: __, ...others } = ofTemplate;
  return withoutUndefined({ ...(isEmpty(others) ? images : {}), registry, catalogId, ...ofTemplate });
}

function overlaidContainer(own: Container, ofTemplate: Container): Container {
  if (!own || !ofTemplate) return ofTemplate ?? own;
  const merged: Fields = { ...own };
  for (const field of CONTAINER_FIELD_NAMES) {
    const spellings = [field, ...(fieldRow(field).alias ? [fieldRow(field).alias?.name as string] : [])];
    if (spellings.some((spelling) => spelling in ofTemplate)) for (const spelling of spellings) delete merged[spelling];
  }
  return { ...merged, ...ofTemplate } as Container;
}

/** JSON in texts is parsed where it can be, so that expressions in it keep their types. */
function withParsedTexts<T>(entry: T): T {
  if (!isObject(entry)) return entry;
  const parsed = Object.fromEntries(
    ['config', 'annotations'].flatMap((key) => {
      const value = jsonIn(entry[key]);
      return value === undefined ? [] : [[key, value]];
    }),
  );
  return { ...entry, ...parsed };
}

function jsonIn(text: unknown): unknown {
  if (typeof text !== 'string') return undefined;
  try {
    return JSON.parse(text) ?? undefined;
  } catch {
    return undefined;
  }
}

const withoutUndefined = <T extends object>(object: T): T =>
  Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined)) as T;
