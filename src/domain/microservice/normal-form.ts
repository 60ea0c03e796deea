import type { ContainerSpec } from '../../api/container/index.ts';
import { ARCHITECTURES, type Architecture } from '../../api/names.ts';
import type { MicroserviceEntry } from '../../api/v3/index.ts';

export type ImageArchitecture = Exclude<Architecture, 'auto'>;

/** Architectures that images can be given for, by ascending id. */
export const IMAGE_ARCHITECTURES = ARCHITECTURES.slice(1) as readonly ImageArchitecture[];

/** Container settings with one spelling per field; empty text, lists and maps are absent. */
export type NormalContainer = Omit<ContainerSpec, 'cmd'>;

type Port = NonNullable<ContainerSpec['ports']>[number];
type Volume = NonNullable<ContainerSpec['volumes']>[number];

/** An entry with one spelling per field, so that nothing behind it knows an alias. Empty means absent. */
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

/** Start order of a microservice that names none. */
export const DEFAULT_SCHEDULE = 50;

/** The one normal form of an entry: aliases resolved, empty is absent, defaults are filled in. */
export function normalEntry(entry: MicroserviceEntry): NormalEntry {
  const { cmd, ...container } = entry.container ?? {};
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
    container: normalContainer({ ...container, commands: container.commands ?? cmd }),
    models: normalCatalog(entry.models),
    knowledge: normalCatalog(entry.knowledge),
    template: entry.template,
    serviceAccount: entry.serviceAccount,
    busConfig: filled(
      entry.busConfig ?? (entry.busEnabled === undefined ? undefined : { busAccess: entry.busEnabled }),
    ),
  });
}

export const normalPort = (port: Port) => ({ ...port, protocol: port.protocol ?? 'tcp' });
export const normalVolume = (volume: Volume) => ({
  ...volume,
  type: volume.type ?? 'bind',
  scope: volume.scope ?? 'private',
});
const normalCatalog = (catalog: MicroserviceEntry['models']) =>
  catalog?.items?.length ? { ...catalog, permissions: catalog.permissions ?? 'ro' } : undefined;

function normalContainer(container: NormalContainer): NormalContainer {
  const kept = Object.entries(container).filter(([, value]) => !isEmpty(value) && value !== false);
  const normal: NormalContainer = Object.fromEntries(kept);
  if (normal.ports) normal.ports = normal.ports.map(normalPort);
  if (normal.volumes) normal.volumes = normal.volumes.map(normalVolume);
  if (normal.devices)
    normal.devices = normal.devices.map((device) => ({ ...device, permissions: device.permissions ?? 'rwm' }));
  if (normal.healthCheck && !normal.healthCheck.test?.length) delete normal.healthCheck;
  if (normal.logSize === 0) delete normal.logSize;
  if (normal.sysctls)
    normal.sysctls = Object.fromEntries(Object.entries(normal.sysctls).map(([key, value]) => [key, String(value)]));
  return normal;
}

/** Size of a container's log, MiB; 0 and none mean the default. */
export const logSizeOf = (size: number | undefined): number => size || 10;

/** Reads show the default. Sent back, it changes nothing of what is stored, or the container would be replaced. */
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
export function imageFor(entry: NormalEntry, archId: number): string | undefined {
  if (archId > 0) return entry.images[ARCHITECTURES[archId] as ImageArchitecture];
  const first = IMAGE_ARCHITECTURES.find((architecture) => entry.images[architecture]);
  return first && entry.images[first];
}

const isEmpty = (value: unknown): boolean =>
  value === undefined ||
  value === null ||
  value === '' ||
  (typeof value === 'object' && Object.keys(value as object).length === 0);

const filled = <T>(value: T | undefined): T | undefined => (isEmpty(value) ? undefined : value);

/** The object without members that are undefined. */
function present<T extends object>(object: T): T {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined)) as T;
}
