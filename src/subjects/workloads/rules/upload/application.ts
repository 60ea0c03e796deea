import { BOUNDS } from '../../../../api/bounds.ts';
import {
  type Application,
  type ApplicationSpec,
  applicationSpecSchema,
  type MicroserviceEntry,
} from '../../../../api/v3/index.ts';
import { isEmpty } from '../../../../rules/body-values.ts';
import { isObject, readDocument, requireName, requireUnchanged } from '../../../../rules/document.ts';
import { DomainError, invalid } from '../../../../rules/errors.ts';
import { applicationId, applicationUuid } from '../../../../rules/identity.ts';
import { v3Name } from '../../../../rules/names.ts';
import { validateSpec } from '../../../../rules/validate.ts';
import { readEntry } from '../entry/document.ts';
import { entryFromFlat, type FlatOptions } from '../entry/flat.ts';
import { readEntryOfAnyForm } from '../templates/overlay.ts';
import { readTemplateRef } from '../templates/variables.ts';

/** An uploaded or posted application as read. */
export interface ApplicationUpload {
  name: string;
  spec: ApplicationSpec;
  /** names of the entries whose body requests a rebuild */
  rebuild: readonly string[];
  /** names of the entries whose body has isActivated */
  saysActivated: readonly string[];
  /** whether the document had the member `microservices` at all (PUT semantics) */
  hasMicroservices: boolean;
  /** whether the document had the member `isActivated` */
  hasIsActivated: boolean;
}

/**
 * An uploaded Application document (already parsed YAML), in the form of the v3 files or of kubectl. `path` is the name
 * in the path of an update. Throws DomainError.
 */
export function readApplicationUpload(document: unknown, { path, isAnyForm }: ReadOptions = {}): ApplicationUpload {
  const { metadata, spec } = readDocument(document, 'Application');
  const name = isAbsent(spec.name) ? metadata.name : spec.name;
  if (typeof name === 'string') requireName(name, path, 'metadata.name');
  return readApplication(
    { ...spec, name },
    isAnyForm
      ? readOfAnyForm
      : (entry, at) => ({ entry: readEntry(entry, at), rebuild: isObject(entry) && entry.rebuild === true }),
    'spec',
  );
}

/** A JSON body of `POST /application` and `PUT /application/{name}`: microservices in the flat form. */
export function readApplicationBody(
  body: unknown,
  { path, isAnyForm, ...options }: ReadOptions & FlatOptions = {},
): ApplicationUpload {
  if (!isObject(body)) throw invalid('body: must be an object');
  const name = isAbsent(body.name) ? path : body.name;
  if (name === undefined) throw invalid('name: is required', 'name');
  if (typeof name === 'string') requireName(name, path, 'name');
  // The controller assigns uuid and number of an application.
  const { uuid: _uuid, id: _id, ...fields } = body;
  const read: ReadEntry = isAnyForm ? readOfAnyForm : (entry, at) => within(at, () => entryFromFlat(entry, options));
  return readApplication({ ...fields, name }, read, '');
}

interface ReadOptions {
  /** name in the path of an update */
  path?: string;
  /** the entries come from a template, in the form of REST bodies or of files */
  isAnyForm?: boolean;
}

const readOfAnyForm: ReadEntry = (entry, at) => ({
  entry: within(at, () => readEntryOfAnyForm(entry, '')),
  rebuild: isObject(entry) && entry.rebuild === true,
});

type ReadEntry = (entry: unknown, at: string) => { entry: MicroserviceEntry; rebuild: boolean };

function readApplication(fields: Record<string, unknown>, read: ReadEntry, prefix: string): ApplicationUpload {
  const { microservices, isSystem, template, ...rest } = fields;
  const at = (field: string) => (prefix ? `${prefix}.${field}` : field);
  if (isSystem === true) throw systemRefused(at('isSystem'));
  const has = microservices !== undefined && microservices !== null;
  if (has && !Array.isArray(microservices))
    throw invalid(`${at('microservices')}: must be a list`, at('microservices'));
  const given = has ? (microservices as unknown[]) : [];
  if (given.length > BOUNDS.entries)
    throw invalid(`${at('microservices')}: must have at most ${BOUNDS.entries} items`, at('microservices'));
  // REST replaces the reference by what the template adds before it reads; whatever is left is for the controller.
  const isFromTemplate = !isEmpty(template);
  if (isFromTemplate) readTemplateRef(template, at('template'));
  const entries = given.map((entry, index) => read(entry, `${at('microservices')}[${index}]`));
  const spec = validateSpec(
    applicationSpecSchema,
    {
      ...withoutEmpty(rest),
      ...(isFromTemplate && { template }),
      ...(has && { microservices: entries.map(({ entry }) => entry) }),
    },
    { tolerant: true, path: prefix },
  );
  const { name = '', ...kept } = spec;
  const names = (which: (index: number) => boolean) =>
    entries.flatMap(({ entry }, index) => (which(index) ? [entry.name] : []));
  return {
    name,
    spec: kept,
    rebuild: names((index) => entries[index]?.rebuild ?? false),
    saysActivated: names((index) => saysActivated(given[index])),
    hasMicroservices: has,
    hasIsActivated: saysActivated(rest),
  };
}

const saysActivated = (value: unknown): boolean => isObject(value) && !isAbsent(value.isActivated);

/** A JSON body of `PATCH /application/{name}`: metadata only; null removes. Returns the changed spec. */
export function patchApplication(application: Application, body: unknown): ApplicationSpec {
  if (!isObject(body)) throw invalid('body: must be an object');
  const { spec } = application;
  const { name, uuid, id, isSystem } = body;
  requireUnchanged('name', name, v3Name(application));
  requireUnchanged('uuid', uuid, applicationUuid(application));
  requireUnchanged('id', id, applicationId(application));
  if (!isAbsent(isSystem) && isSystem !== (spec.isSystem ?? false)) throw systemRefused('isSystem');
  const sent = PATCHED.filter((field) => body[field] !== undefined);
  const values = validateSpec(
    applicationSpecSchema,
    withoutEmpty(Object.fromEntries(sent.map((field) => [field, body[field]]))),
    { tolerant: true },
  );
  const patched: ApplicationSpec = { ...spec };
  for (const field of sent) {
    if (values[field] === undefined) delete (patched as Partial<ApplicationSpec>)[field];
    else Object.assign(patched, { [field]: values[field] });
  }
  return patched;
}

const PATCHED = ['description', 'isActivated', 'busConfig'] as const;

const systemRefused = (field: string) =>
  invalid(`${field}: cannot be set or cleared; applications of the system are made by the controller`, field);

/** Runs a reader and prefixes the field of its error with the path of the value that it read. */
function within<T>(place: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof DomainError)) throw error;
    const { status, code, field, name, message } = error;
    const text = field && message.startsWith(field) ? `${place}.${message}` : `${place}: ${message}`;
    throw new DomainError(status, code, text, { name, field: field ? `${place}.${field}` : place });
  }
}

const withoutEmpty = (fields: Record<string, unknown>) =>
  Object.fromEntries(Object.entries(fields).filter(([key, value]) => !isAbsent(value) || key === 'name'));

const isAbsent = (value: unknown): boolean => value === undefined || value === null || value === '';
