import { BOUNDS } from '../../../../api/bounds.ts';
import {
  CONTAINER_FIELD_NAMES,
  type ContainerField,
  fieldRow,
  normalItem,
  portSchema,
  volumeSchema,
} from '../../../../api/container/index.ts';
import { ARCHITECTURES } from '../../../../api/names.ts';
import { type CatalogItem, type MicroserviceEntry, microserviceSchema } from '../../../../api/v3/index.ts';
import {
  booleanOf,
  type Fields,
  fieldsOf,
  isEmpty,
  jsonOf,
  listOf,
  textOf,
  withoutEmpty,
} from '../../../../rules/body-values.ts';
import { quoted } from '../../../../rules/document.ts';
import { type DomainError, invalid } from '../../../../rules/errors.ts';
import { idOf } from '../../../../rules/identity.ts';
import { IMAGE_ARCHITECTURES, keepLogSize, normalEntry, normalReference } from '../../../../rules/normal-entry.ts';
import { formatPath, validated, validateSpec } from '../../../../rules/validate.ts';
import { canonicalJson } from '../../../../wire/digest.ts';
import { imageSourceOf, imagesOf } from '../../../catalog/rules/catalog-images.ts';
import { catalogCode } from './catalogs.ts';
import { readContainerValue, withoutReferredValues } from './container-values.ts';

/** The flat JSON body of the REST routes (docs/spec/workloads.md#container-fields). */
export interface FlatMicroservice {
  [field: string]: unknown;
  name?: string;
  application?: string;
  nodeUuid?: string;
  agentName?: string;
  /** JSON text */
  config?: string;
  /** JSON text of a string map */
  annotations?: string;
  registryId?: number;
  catalogItemId?: number;
  images?: { containerImage: string; archId: number }[];
}

/** A create body as read. */
export interface FlatCreate {
  entry: MicroserviceEntry;
  /** name of the application, when the body names one */
  application?: string;
  /** the body requests a rebuild */
  rebuild: boolean;
}

type Entry = MicroserviceEntry;
type Volume = NonNullable<NonNullable<Entry['container']>['volumes']>[number];
type Port = { internal: number; external: number; protocol: 'tcp' | 'udp' };
type RegistryId = (ref: number | string) => number | undefined;
/** The catalog item that a reference means. */
type CatalogItemOf = (ref: number | string) => CatalogItem | undefined;

export interface FlatOptions {
  /** without it, images are not compared with those of the catalog item */
  catalogItem?: CatalogItemOf;
}

/** One field of the flat form and its path in the entry. */
interface Row {
  flat: string;
  /** path in the entry */
  entry: string;
  /** other spellings of the field in stored entries; a write of the field removes them */
  replaces?: readonly string[];
  /** flat -> entry; undefined removes the field */
  write?: (value: unknown, field: string) => unknown;
  /** entry -> flat; undefined leaves the field out */
  read?: (value: never, registryId: RegistryId) => unknown;
}

/** A field whose value is the same in both forms. */
const same = (name: string): Row => ({ flat: name, entry: name });

function containerRow(name: ContainerField): Row {
  const { flatName, alias } = fieldRow(name);
  return {
    flat: flatName,
    entry: `container.${name}`,
    ...(alias && { replaces: [`container.${alias.name}`] }),
    write: (value, field) => readContainerValue(name, name === 'env' ? withoutReferredValues(value) : value, field),
    ...(name === 'annotations' && { read: canonicalJson }),
  };
}

/** The table between the flat form and the entry, for both directions. */
const TABLE: readonly Row[] = [
  same('name'),
  same('uuid'),
  same('isActivated'),
  { flat: 'nodeUuid', entry: 'agent.uuid', replaces: ['agent.name'] },
  { flat: 'agentName', entry: 'agent.name', replaces: ['agent.uuid'] },
  { flat: 'images', entry: 'images', write: imagesFromFlat, read: imagesToFlat },
  { flat: 'registryId', entry: 'images.registry', write: idFromFlat, read: idToFlat },
  { flat: 'catalogItemId', entry: 'images.catalogId', write: idFromFlat, read: (id) => id },
  { flat: 'config', entry: 'config', write: configFromBody, read: configText },
  same('schedule'),
  same('minReadySeconds'),
  ...CONTAINER_FIELD_NAMES.map(containerRow),
  { flat: 'models', entry: 'models', write: catalogFromFlat },
  { flat: 'knowledge', entry: 'knowledge', write: catalogFromFlat },
  same('template'),
  same('serviceAccount'),
  { flat: 'busConfig', entry: 'busConfig', replaces: ['busEnabled'] },
];

/** Fields of the flat form, for documentation and tests. */
export const FLAT_FIELDS: readonly string[] = TABLE.map((row) => row.flat);

/** The entry of a create body. Throws DomainError for a body that is invalid without regard to other objects. */
export function entryFromFlat(body: unknown, { catalogItem }: FlatOptions = {}): FlatCreate {
  const flat = fieldsOf(body);
  const entry = applied({}, flat);
  requireImages(entry);
  requireItemsImages(entry, flat, catalogItem);
  if (entry.name === undefined) throw invalid('name: is required', 'name');
  return {
    entry: checked(entry),
    ...(isEmpty(flat.application) ? {} : { application: textOf(flat.application, 'application') }),
    rebuild: booleanOf(flat.rebuild, 'rebuild') ?? false,
  };
}

/**
 * The entry after a PATCH body: absent fields keep their value, null and empty remove it, lists and objects replace.
 * Throws DomainError, also for a changed name, uuid or application.
 */
export function patchEntry(
  entry: MicroserviceEntry,
  body: unknown,
  { application, uuid = entry.uuid, catalogItem }: FlatOptions & { application?: string; uuid?: string } = {},
): { entry: MicroserviceEntry; rebuild: boolean } {
  const { uuid: bodyUuid, name, ...flat } = fieldsOf(body);
  if (!isEmpty(name) && name !== entry.name) throw immutable('name', name, entry.name);
  if (!isEmpty(bodyUuid) && uuid !== undefined && bodyUuid !== uuid) throw immutable('uuid', bodyUuid, uuid);
  if (!isEmpty(flat.application) && application !== undefined && flat.application !== application)
    throw immutable('application', flat.application, application);
  const patched = applied(structuredClone(entry) as Fields, flat);
  if ('images' in flat) requireImages(patched);
  requireItemsImages(patched, flat, catalogItem);
  return {
    entry: keepLogSize(checked(patched), entry),
    rebuild: booleanOf(flat.rebuild, 'rebuild') ?? false,
  };
}

/** The rows of the table as reads need them: lists of thousands of entries split no path. */
const READS = TABLE.map(({ entry, flat, read }) => {
  const [first = '', second] = entry.split('.');
  return {
    first,
    second,
    flatName: flat,
    read: read as ((value: unknown, registryId: RegistryId) => unknown) | undefined,
  };
});

/**
 * The flat form of an entry; `registryId` resolves a registry's name (absent: unresolved names are left out). Images and
 * registry are those of the catalog item when `catalogItem` finds it.
 */
export function flatFromEntry(
  entry: MicroserviceEntry,
  { registryId = () => undefined, catalogItem = () => undefined }: FlatOptions & { registryId?: RegistryId } = {},
): FlatMicroservice {
  const stored = normalEntry(entry);
  const found = imageSourceOf(stored, (_, ref) => catalogItem(ref));
  const { registry, images, ...normal } = found.item ? { ...stored, ...found } : stored;
  const catalogId = (found.item && idOf(found.item)) ?? stored.catalogId;
  const source = { ...normal, images: { ...images, registry, catalogId } } as Fields;
  const flat: FlatMicroservice = {};
  for (const { first, second, flatName, read } of READS) {
    const member = source[first];
    const value = second === undefined ? member : (member as Fields | undefined)?.[second];
    if (value === undefined) continue;
    const shown = read ? read(value, registryId) : value;
    if (shown !== undefined) flat[flatName] = shown;
  }
  return flat;
}

/** One port mapping as its own route takes it. Throws DomainError. */
export function portFromFlat(body: unknown): Port {
  return normalItem('ports', validateSpec(portSchema, withoutEmpty(fieldsOf(body)), { tolerant: true }));
}

/** One volume mapping as its own route takes it. Throws DomainError; a `serviceAccount` mapping is refused. */
export function volumeFromFlat(body: unknown): Volume {
  const [volume] = readContainerValue('volumes', [fieldsOf(body)], 'volumeMapping') as Fields[];
  if (!volume)
    throw invalid(
      'type: the controller makes the mappings of service accounts and of the message bus; use bind, volume or volumeMount',
      'type',
    );
  return normalItem('volumes', validateSpec(volumeSchema, volume, { tolerant: true }));
}

/** A config body: JSON text, or an object; undefined when it is empty. Throws for text that is no JSON, and for other values. */
export function configFromBody(body: unknown): unknown {
  if (isEmpty(body)) return undefined;
  if (typeof body !== 'string' && (typeof body !== 'object' || Array.isArray(body)))
    throw invalid(`config: ${quoted(body)}; must be an object, or JSON text`, 'config');
  const config = typeof body === 'string' ? jsonOf(body, 'config') : body;
  const size = Buffer.byteLength(configText(config));
  if (size > BOUNDS.configBytes)
    throw invalid(`config: ${size} bytes of JSON; must be at most ${BOUNDS.configBytes}`, 'config');
  return config ?? undefined;
}

/** Canonical JSON text of a config, `{}` when there is none. */
export function configText(config: unknown): string {
  return config === undefined || config === null ? '{}' : canonicalJson(config);
}

/** Applies the fields of a flat body to an entry, in the order of the table. */
function applied(entry: Fields, flat: Fields): Fields {
  const body = resolved(flat, entry);
  for (const row of TABLE) {
    if (!(row.flat in body)) continue;
    const given = body[row.flat];
    const written = isEmpty(given) || !row.write ? given : row.write(given, row.flat);
    const value = isEmpty(written) ? undefined : written;
    for (const path of row.replaces ?? []) remove(entry, path);
    if (row.flat === 'images') replaceImages(entry, value as Record<string, string> | undefined);
    else if (value === undefined) remove(entry, row.entry);
    else put(entry, row.entry, value);
  }
  return entry;
}

/** The body with one spelling per field, after the rules between fields have been applied. */
function resolved(flat: Fields, entry: Fields): Fields {
  const { busEnabled, busAccess, ...body } = flat;
  for (const name of CONTAINER_FIELD_NAMES) {
    const { flatName, wireName, alias } = fieldRow(name);
    if (alias && body[alias.name] !== undefined && isEmpty(body[flatName])) body[flatName] = body[alias.name];
    if (body[flatName] === undefined && body[wireName] !== undefined) body[flatName] = body[wireName];
  }
  if (busEnabled !== undefined && isEmpty(body.busConfig))
    body.busConfig = isEmpty(busEnabled) ? undefined : { busAccess: booleanOf(busEnabled, 'busEnabled') };
  if (!isEmpty(body.nodeUuid) && !isEmpty(body.agentName))
    throw invalid('nodeUuid, agentName: both name the node; give one', 'agentName');
  // Empty text is ignored, and so is null when the other field has a value; null alone removes the node.
  for (const [field, other] of NODE_FIELDS)
    if (body[field] === '' || body[field] === undefined || (isEmpty(body[field]) && !isEmpty(body[other])))
      delete body[field];
  if (!isEmpty(busAccess)) {
    const bus = (body.busConfig ?? entry.busConfig ?? {}) as Fields;
    if (busAccess !== (bus.busAccess ?? entry.busEnabled ?? false))
      throw invalid('busAccess: stands in busConfig; give busConfig.busAccess', 'busAccess');
  }
  return body;
}

function requireImages({ images, template }: Fields): void {
  const { registry: _, ...named } = (images ?? {}) as Fields;
  if (isEmpty(named) && isEmpty(template))
    throw invalid(
      'images: the microservice has no images; give 1 to 4 of {containerImage, archId}, or a catalogItemId',
      'images',
      'MICROSERVICE_DOES_NOT_HAVE_IMAGES',
    );
}

/** Images that come with a catalog item are those of the item: they are stored nowhere else. */
function requireItemsImages({ images }: Fields, flat: Fields, catalogItem: CatalogItemOf = () => undefined): void {
  const { registry: _, catalogId, ...given } = (images ?? {}) as Fields;
  const ref = normalReference(catalogId as number | string | undefined);
  const item = ref && !isEmpty(flat.images) ? catalogItem(ref) : undefined;
  if (!item) return;
  const theirs: Fields = imagesOf(item);
  const other = IMAGE_ARCHITECTURES.find((one) => given[one] !== undefined && given[one] !== theirs[one]);
  if (other)
    throw invalid(
      `images: ${JSON.stringify(given[other])} for ${other}; the catalog item ${ref} has ${JSON.stringify(theirs[other]) ?? 'none'}: leave images out, or catalogItemId`,
      'images',
      'CATALOG_NOT_MATCH_IMAGES',
    );
}

const NODE_FIELDS = [
  ['nodeUuid', 'agentName'],
  ['agentName', 'nodeUuid'],
] as const;

/** The entry after validation; an error names the field as the flat form spells it. */
function checked(entry: Fields): MicroserviceEntry {
  if (isEmpty(entry.agent)) delete entry.agent;
  for (const member of ['images', 'container']) if (isEmpty(entry[member])) delete entry[member];
  const result = validated(microserviceSchema, entry, { tolerant: true });
  if (result.ok) return result.value;
  const { violation } = result;
  const field = flatPath(violation.path, entry);
  const message = field ? `${field}: ${violation.message}` : violation.message;
  throw invalid(message, field || undefined, catalogCode(violation, entry));
}

/** The member of the flat form for a path of the entry, such as `agentName` for `agent.name`. */
export const flatName = (path: string): string => TABLE.find(({ entry }) => entry === path)?.flat ?? path;

/** A path in the entry as the flat form spells it. */
function flatPath(path: readonly (string | number)[], { images = {} }: Fields): string {
  const listed = Object.keys(images as Fields).filter((key) => IMAGE_KEYS.some((known) => known === key));
  const image = path[0] === 'images' ? listed.indexOf(String(path[1])) : -1;
  if (image >= 0) return `images[${image}].containerImage`;
  for (let length = Math.min(path.length, 2); length > 0; length--) {
    const row = TABLE.find((candidate) => candidate.entry === path.slice(0, length).join('.'));
    if (row) return formatPath(path.slice(length), row.flat);
  }
  const [first, ...rest] = path;
  return formatPath(first === 'container' ? rest : path);
}

/** The numbers of architectures, for messages. */
const ARCHITECTURE_IDS = '1 (amd64), 2 (arm64), 3 (riscv64) or 4 (arm)';

const IMAGE_KEYS = [...IMAGE_ARCHITECTURES, 'x86', 'riscv'] as const;

function replaceImages(entry: Fields, images: Record<string, string> | undefined): void {
  const { ...rest } = (entry.images ?? {}) as Fields;
  for (const key of IMAGE_KEYS) delete rest[key];
  entry.images = { ...rest, ...images };
}

function imagesFromFlat(value: unknown, field: string): Record<string, string> | undefined {
  const images: Record<string, string> = {};
  if (!Array.isArray(value))
    throw invalid(
      `${field}: ${quoted(value)}; must be a list of {containerImage, archId} with the archId ${ARCHITECTURE_IDS}`,
      field,
    );
  value.forEach((item, index) => {
    const at = `${field}[${index}]`;
    const { containerImage, archId } = fieldsOf(item, at);
    const id = Number(archId);
    const architecture = Number.isInteger(id) && id > 0 ? ARCHITECTURES[id] : undefined;
    if (!architecture) throw invalid(`${at}.archId: ${quoted(archId)}; must be ${ARCHITECTURE_IDS}`, `${at}.archId`);
    if (images[architecture] !== undefined)
      throw invalid(`${at}.archId: ${id} is given twice; one image per architecture`, `${at}.archId`);
    images[architecture] = textOf(containerImage, `${at}.containerImage`);
  });
  return Object.keys(images).length > 0 ? images : undefined;
}

function imagesToFlat(value: Record<string, unknown>): FlatMicroservice['images'] | undefined {
  const images = IMAGE_ARCHITECTURES.flatMap((architecture) =>
    typeof value[architecture] === 'string'
      ? [{ containerImage: value[architecture], archId: ARCHITECTURES.indexOf(architecture) }]
      : [],
  );
  return images.length > 0 ? images : undefined;
}

function idFromFlat(value: unknown, field: string): number | undefined {
  const id = typeof value === 'string' ? normalReference(value) : value;
  if (typeof id !== 'number' || !Number.isSafeInteger(id) || id < 0)
    throw invalid(`${field}: ${JSON.stringify(value)}; must be an integer id`, field);
  return id === 0 ? undefined : id;
}

function idToFlat(value: number | string, registryId: RegistryId): number | undefined {
  return registryId(value) ?? (typeof value === 'number' ? value : BUILT_IN_WORDS[value]);
}

/** Names in the YAML form of the two built-in registries (docs/spec/workloads.md#images-and-registries). */
const BUILT_IN_WORDS: Readonly<Record<string, number>> = { remote: 1, local: 2 };

/** Items of a catalog are sent as names or as `{name}`. */
function catalogFromFlat(value: unknown, field: string): Fields | undefined {
  const { bindPath, permissions, items } = fieldsOf(value, field);
  if (isEmpty(items) && isEmpty(bindPath)) return undefined;
  return withoutEmpty({
    bindPath,
    permissions,
    items: isEmpty(items)
      ? undefined
      : listOf(items, `${field}.items`).map((item) => (typeof item === 'string' ? { name: item } : item)),
  });
}

const immutable = (field: string, given: unknown, is: string): DomainError =>
  invalid(`${field}: ${JSON.stringify(given)}; is immutable and is ${JSON.stringify(is)}`, field);

/** Paths have at most two parts. */
function put(target: Fields, path: string, value: unknown): void {
  const [first = '', second] = path.split('.');
  target[first] = second === undefined ? value : { ...(target[first] as Fields | undefined), [second]: value };
}

function remove(target: Fields, path: string): void {
  const [first = '', second] = path.split('.');
  if (second === undefined) delete target[first];
  else if (target[first]) {
    const { [second]: _, ...rest } = target[first] as Fields;
    target[first] = rest;
  }
}
