import type { MicroserviceView, RegistryView } from '../../../src/wire/agent.ts';
import type { Entry } from '../domain/entry.ts';
import type { MicroserviceRecord } from '../domain/record.ts';
import { formatReference, parseReference } from '../domain/reference.ts';
import { pullReference } from '../domain/target.ts';

/** Knowledge of the microservices of this machine. */
export interface ImageWants {
  /** what the machine is to run, as far as it is known */
  readonly desired: readonly Entry[];
  /** microservices that have a container, or may have one */
  readonly present: readonly string[];
  record(uuid: string): Pick<MicroserviceRecord, 'lastGood'> | undefined;
}

type ImageUser = Pick<MicroserviceView, 'uuid' | 'application' | 'name'>;

/**
 * The images that microservices of this machine run or are to run, by their references in full, each with the microservices,
 * by name. `again` has views that are not to run now and may run again. Pure.
 */
export function wantedImages(
  wants: ImageWants,
  registries: ReadonlyMap<number, RegistryView>,
  again: readonly MicroserviceView[] = [],
): Map<string, ImageUser[]> {
  const views: MicroserviceView[] = [
    ...wants.desired.flatMap((entry) => (entry.kind === 'run' ? [entry.view] : [])),
    ...wants.present.flatMap((uuid) => wants.record(uuid)?.lastGood ?? []),
    ...again,
  ];
  const wanted = new Map<string, Map<string, ImageUser>>();
  for (const view of views) {
    const reference = pullReference(view, registries);
    if (reference === undefined) continue;
    const full = inFull(reference);
    const { uuid, application, name } = view;
    wanted.set(full, (wanted.get(full) ?? new Map()).set(uuid, { uuid, application, name }));
  }
  const byName = (a: ImageUser, b: ImageUser) => (nameOfUser(a) < nameOfUser(b) ? -1 : 1);
  return new Map([...wanted].map(([reference, users]) => [reference, [...users.values()].sort(byName)]));
}

/** For people. */
const nameOfUser = ({ application, name }: ImageUser): string => `${application}.${name}`;

/** One spelling of a reference. */
export const inFull = (reference: string): string => formatReference(parseReference(reference));
