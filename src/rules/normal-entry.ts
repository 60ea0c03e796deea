import { CONTAINER_FIELDS, type NormalContainer, normalContainer } from '../api/container/index.ts';
import { ARCHITECTURES, type Architecture } from '../api/names.ts';
import type { MicroserviceEntry } from '../api/v3/index.ts';
import { isEmpty } from './body-values.ts';

export type ImageArchitecture = Exclude<Architecture, 'auto'>;

/** Architectures that images can be given for, by ascending id. */
export const IMAGE_ARCHITECTURES = ARCHITECTURES.slice(1) as readonly ImageArchitecture[];

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

const normalCatalog = (catalog: MicroserviceEntry['models']) =>
  catalog?.items?.length ? { ...catalog, permissions: catalog.permissions ?? 'ro' } : undefined;

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
