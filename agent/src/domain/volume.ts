import { join } from 'node:path';
import type { VolumeMapping } from '../../../src/api/container/index.ts';
import { EngineError } from '../engine-port/error.ts';

/**
 * Volumes: directories of the agent that outlive their containers, by paths below the directory of volumes:
 *
 *     data/<microservice uuid>/<name>    private: of one microservice
 *     shared/<name>                      shared: of all microservices of the machine that name it
 */
export const PRIVATE_FOLDER = 'data';
export const SHARED_FOLDER = 'shared';

/** A volume's name is one path segment, so that what the controller sends cannot leave the volumes' directory. */
const VOLUME_NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/;

/** Whether a text can be the name of a volume, or the uuid that a private one is of. */
export function isVolumeName(text: string): boolean {
  return VOLUME_NAME.test(text);
}

/** Where the data of a `volume` mapping lives on this machine. Throws EngineError for names that are no names. */
export function volumePath(mapping: VolumeMapping, uuid: string, volumesDirectory: string): string {
  const name = mapping.hostDestination;
  if (!isVolumeName(name)) throw new EngineError('Invalid', `volume name "${name}" is not a plain name`);
  if (!isVolumeName(uuid)) throw new EngineError('Invalid', 'the uuid is not a plain name');
  return join(volumesDirectory, volumeSubpath(mapping.scope === 'shared' ? { uuid: null, name } : { uuid, name }));
}

/** Names one volume of the machine; without a uuid a shared one. */
export interface VolumeKey {
  uuid: string | null;
  name: string;
}

/** The path of a volume below the directory of volumes. */
export function volumeSubpath({ uuid, name }: VolumeKey): string {
  return uuid === null ? `${SHARED_FOLDER}/${name}` : `${PRIVATE_FOLDER}/${uuid}/${name}`;
}

/** A microservice that is to run, and that has a volume. */
export interface VolumeConsumer {
  uuid: string;
  application: string;
  name: string;
  /** who wants it: a controller, or the machine itself */
  source: 'managed' | 'local';
}

/** What a volume holds: data of a microservice, or of the control plane that runs on this machine. */
export type VolumeKind = 'workload' | 'controlplane';

/** A volume of this machine and who wants it (docs/spec/agent-local-api.md#volumes). */
export interface VolumeClaim extends VolumeKey {
  scope: 'private' | 'shared';
  kind: VolumeKind;
  consumers: VolumeConsumer[];
  hostPath: string;
  /** whether a desired microservice has it; also while the desired state is not known */
  desired: boolean;
  /** RFC 3339; absent while it is desired */
  unreferencedAt?: string;
}

/** A volume that a prune is about. */
export interface PrunedVolume extends Omit<VolumeClaim, 'consumers' | 'desired'> {
  /** why it stays */
  reason?: string;
}

/** What a prune did, or would do. */
export interface VolumePruneReport {
  /** partial: a volume could not be destroyed, as its reason says */
  status: 'ok' | 'partial';
  orphans: true;
  yes: boolean;
  force: boolean;
  dryRun: boolean;
  /** what a prune with these flags destroys */
  candidates: PrunedVolume[];
  deleted: PrunedVolume[];
  /** what nothing wants and stays all the same */
  skipped: PrunedVolume[];
}
