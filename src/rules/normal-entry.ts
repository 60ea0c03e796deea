import {
  CONTAINER_FIELD_NAMES,
  CONTAINER_FIELDS,
  type ContainerField,
  type EntryContainer,
  fieldRow,
  isAbsent,
} from '../api/container/index.ts';
import { ARCHITECTURES, type Architecture } from '../api/names.ts';
import type { MicroserviceEntry } from '../api/v3/index.ts';
import { isEmpty } from './body-values.ts';

export type ImageArchitecture = Exclude<Architecture, 'auto'>;

/** Architectures that images can be given for, by ascending id. */
export const IMAGE_ARCHITECTURES = ARCHITECTURES.slice(1) as readonly ImageArchitecture[];

type Value<F extends ContainerField> = NonNullable<EntryContainer[F]>;
type Item<F extends ContainerField> = Value<F> extends (infer I)[] ? I : never;
type ItemDefault<F extends ContainerField> = (typeof CONTAINER_FIELDS)[F] extends { itemDefaults: infer D } ? D : never;
type NormalItem<F extends ContainerField> = Item<F> & Required<Pick<Item<F>, keyof ItemDefault<F> & keyof Item<F>>>;

/** The value of a container field: absent members of items have their defaults, kernel parameters are text. */
export type NormalValue<F extends ContainerField> = F extends 'sysctls'
  ? Record<string, string>
  : [ItemDefault<F>] extends [never]
    ? Value<F>
    : NormalItem<F>[];

/** Container settings with one spelling per field; empty values and defaults are absent. */
export type NormalContainer = { [F in ContainerField]?: NormalValue<F> };

/** An entry with one spelling per field, so that no other code handles aliases. Empty values are absent. */
export interface NormalEntry {
  name: string;
  uuid?: string;
  isActivated: boolean;
  agent?: { name?: string; uuid?: string };
  images: Partial<Record<ImageArchitecture, string>>;
  /** a number is an id, text a name; absent: the public hub */
  registry?: number | string;
  catalogId?: number | string;
  /** any JSON */
  config?: unknown;
  /** absent: 0 */
  minReadySeconds?: number;
  schedule: number;
  container: NormalContainer;
  models?: MicroserviceEntry['models'];
  knowledge?: MicroserviceEntry['knowledge'];
  template?: MicroserviceEntry['template'];
  serviceAccount?: MicroserviceEntry['serviceAccount'];
  busConfig?: MicroserviceEntry['busConfig'];
}

/** Default start order of a microservice. */
const DEFAULT_SCHEDULE = 50;

/** The normal form of an entry: aliases are resolved, empty values are absent, defaults are filled in. */
export function normalEntry(entry: MicroserviceEntry): NormalEntry {
  const { x86, riscv, registry, catalogId, ...images } = entry.images ?? {};
  return present<NormalEntry>({
    name: entry.name,
    uuid: entry.uuid,
    isActivated: entry.isActivated ?? true,
    agent: filled(entry.agent),
    images: present({
      amd64: images.amd64 ?? x86,
      arm64: images.arm64,
      riscv64: images.riscv64 ?? riscv,
      arm: images.arm,
    }),
    registry: normalReference(registry),
    catalogId: normalReference(catalogId) || undefined,
    config: entry.config ?? undefined,
    minReadySeconds: entry.minReadySeconds || undefined,
    schedule: entry.schedule ?? DEFAULT_SCHEDULE,
    container: normalContainer(entry.container ?? {}),
    models: normalCatalog(entry.models),
    knowledge: normalCatalog(entry.knowledge),
    template: entry.template,
    serviceAccount: entry.serviceAccount,
    busConfig: filled(
      entry.busConfig ?? (entry.busEnabled === undefined ? undefined : { busAccess: entry.busEnabled }),
    ),
  });
}

/** An item of a field with defaults for its absent members. */
export function normalItem<F extends ContainerField>(field: F, item: Item<F>): NormalItem<F> {
  const normal = { ...(item as Record<string, unknown>) };
  for (const [member, value] of Object.entries(fieldRow(field).itemDefaults ?? {})) normal[member] ??= value;
  return normal as NormalItem<F>;
}

const normalCatalog = (catalog: MicroserviceEntry['models']) =>
  catalog?.items?.length ? { ...catalog, permissions: catalog.permissions ?? 'ro' } : undefined;

/** The normal form of items and values that differ from how they are written. */
const NORMAL: { readonly [F in ContainerField]?: (value: Value<F>) => NormalValue<F> | undefined } = {
  sysctls: (map) => Object.fromEntries(Object.entries(map).map(([key, value]) => [key, String(value)])),
  healthCheck: (check) => (check.test?.length ? check : undefined),
};

function normalContainer(container: EntryContainer): NormalContainer {
  const normal: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(container)) {
    const field = SPELLINGS.get(key);
    if (!field || isAbsent(field, value) || (key !== field && container[field] !== undefined)) continue;
    const { itemDefaults } = fieldRow(field);
    const change = NORMAL[field] as ((value: unknown) => unknown) | undefined;
    const items = value as never[];
    const changed = itemDefaults ? items.map((item) => normalItem(field, item)) : change ? change(value) : value;
    if (changed !== undefined) normal[field] = changed;
  }
  return normal as NormalContainer;
}

/** The fields by each of their spellings. */
const SPELLINGS: ReadonlyMap<string, ContainerField> = new Map(
  CONTAINER_FIELD_NAMES.flatMap((field) => {
    const { alias } = fieldRow(field);
    return [[field, field] as const, ...(alias ? [[alias.name, field] as const] : [])];
  }),
);

/** Size of a container's log, MiB; 0 and none mean the default. */
export const logSizeOf = (size: number | undefined): number => size || CONTAINER_FIELDS.logSize.shown;

/** Reads show the default. A write of that default keeps the stored value, since a change would replace the container. */
export function keepLogSize(entry: MicroserviceEntry, before: MicroserviceEntry | undefined): MicroserviceEntry {
  const [now, old] = [entry.container?.logSize, before?.container?.logSize];
  if (!before || now === old || logSizeOf(now) !== logSizeOf(old)) return entry;
  const { logSize: _, ...container } = entry.container ?? {};
  const kept = { ...container, ...(old !== undefined && { logSize: old }) };
  const { container: __, ...rest } = entry;
  return { ...rest, ...(Object.keys(kept).length > 0 && { container: kept }) };
}

/** A reference by id or name: digits are an id; empty is absent. */
export function normalReference(reference: number | string | undefined): number | string | undefined {
  if (typeof reference !== 'string') return reference;
  const text = reference.trim();
  if (text === '') return undefined;
  return /^[0-9]{1,15}$/.test(text) ? Number(text) : text;
}

/**
 * Image of an entry for an architecture id. Id 0 (not known yet) takes the image of the lowest architecture id; absent
 * when there is none.
 */
export function imageFor(entry: Pick<NormalEntry, 'images'>, archId: number): string | undefined {
  if (archId > 0) return entry.images[ARCHITECTURES[archId] as ImageArchitecture];
  const first = IMAGE_ARCHITECTURES.find((architecture) => entry.images[architecture]);
  return first && entry.images[first];
}

const filled = <T>(value: T | undefined): T | undefined => (isEmpty(value) ? undefined : value);

/** The object without members that are undefined. A plain loop, since lists make it twice for each of their entries. */
function present<T extends object>(object: T): T {
  const kept: Partial<T> = {};
  for (const key of Object.keys(object) as (keyof T)[]) if (object[key] !== undefined) kept[key] = object[key];
  return kept as T;
}
