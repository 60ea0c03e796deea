import type { MicroserviceEntry } from '../../api/v3/index.ts';

/** The flat JSON body of the REST routes (document 1, Microservice). */
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

/** What a create body asks for. */
export interface FlatCreate {
  entry: MicroserviceEntry;
  /** name of the application, when the body names one */
  application?: string;
  /** the body orders a rebuild */
  rebuild: boolean;
}

/** The entry that a create body asks for. Throws DomainError for what is wrong in itself. */
export function entryFromFlat(_body: unknown): FlatCreate {
  throw new Error('not written yet');
}

/**
 * The entry after a PATCH body: absent fields keep their value, null and empty remove it, lists and objects replace.
 * Throws DomainError, also for a changed name or application.
 */
export function patchEntry(
  _entry: MicroserviceEntry,
  _body: unknown,
  _options?: { application?: string },
): { entry: MicroserviceEntry; rebuild: boolean } {
  throw new Error('not written yet');
}

/** The flat form of an entry; `registryId` resolves a registry's name (absent: unresolved names are left out). */
export function flatFromEntry(
  _entry: MicroserviceEntry,
  _options?: { registryId?: (ref: number | string) => number | undefined },
): FlatMicroservice {
  throw new Error('not written yet');
}

/** One port mapping, volume mapping as their own routes take them; throws DomainError. */
export function portFromFlat(_body: unknown): { internal: number; external: number; protocol: 'tcp' | 'udp' } {
  throw new Error('not written yet');
}
export function volumeFromFlat(
  _body: unknown,
): NonNullable<NonNullable<MicroserviceEntry['container']>['volumes']>[number] {
  throw new Error('not written yet');
}

/** A config body: JSON text, or any JSON value; undefined when it is empty. Throws DomainError for text that is no JSON. */
export function configFromBody(_body: unknown): unknown {
  throw new Error('not written yet');
}

/** Canonical JSON text of a config, `{}` when there is none. */
export function configText(_config: unknown): string {
  throw new Error('not written yet');
}
