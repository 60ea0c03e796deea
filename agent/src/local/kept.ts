import { BUILT_IN_REGISTRIES } from '../../../src/api/names.ts';
import type { MicroserviceView, RegistryView } from '../../../src/wire/agent.ts';
import type { Entry } from '../domain/entry.ts';
import type { MicroserviceRecord } from '../domain/record.ts';
import type { LocalRow } from './row.ts';

/** Registries of kept microservices have numbers below this: controllers have positive numbers, registries of the machine numbers above it. */
export const FIRST_KEPT = -1_000_000;

/** A microservice that a controller placed, as it is when its membership ends. */
export interface PlacedMicroservice {
  uuid: string;
  /** absent: only its container is known */
  entry: Entry | undefined;
  record: MicroserviceRecord | undefined;
}

/** The row by which a microservice becomes the machine's own. `taken`: numbers of registries that other rows have. */
export function keptRow(
  { uuid, entry, record }: PlacedMicroservice,
  registries: ReadonlyMap<number, RegistryView>,
  taken: readonly number[],
  time: string,
): LocalRow {
  const view = entry?.kind === 'run' ? entry.view : record?.lastGood;
  const { application = record?.application ?? '', name = record?.name ?? '' } =
    view ?? (entry?.kind === 'hold' ? entry : {});
  return {
    ...{ uuid, origin: 'kept', application, name },
    ...(view && withOwnRegistry(view, registries, taken)),
    desiredState: record?.stoppedLocally ? 'stopped' : 'running',
    ...{ generation: 1, createdAt: time, updatedAt: time },
  };
}

/** The view with a number of its registry that no controller uses, and that registry. */
function withOwnRegistry(
  view: MicroserviceView,
  registries: ReadonlyMap<number, RegistryView>,
  taken: readonly number[],
): Pick<LocalRow, 'view' | 'registry'> {
  const { registryId } = view;
  const registry = registries.get(registryId);
  const isBuiltIn = Object.values(BUILT_IN_REGISTRIES).some(({ id }) => id === registryId);
  if (registryId === BUILT_IN_REGISTRIES.local.id || (isBuiltIn && !registry)) return { view };
  const id = Math.min(FIRST_KEPT, ...taken) - 1;
  return { view: { ...view, registryId: id }, ...(registry && { registry: { ...registry, id } }) };
}
