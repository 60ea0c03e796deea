import { type VolumeClaim, type VolumeKey, type VolumeKind, volumeSubpath } from '../../domain/volume.ts';
import { graceLeft, type UnreferencedRecords } from './unreferenced.ts';
import { isWanted, type WantedVolumes } from './wanted.ts';

/** The facts by which a volume is judged. */
export interface VolumeFacts {
  wanted: WantedVolumes | undefined;
  records: UnreferencedRecords;
  /** counted time */
  now: number;
  /** who has a volume mounted */
  mountedBy(key: VolumeKey): string | undefined;
  /** microservices of the control plane that runs here */
  isControlPlane(uuid: string): boolean;
}

/** A volume as the local API shows it. Pure. */
export function claimOf(
  key: VolumeKey,
  hostPath: string,
  { wanted, records, isControlPlane }: Pick<VolumeFacts, 'wanted' | 'records' | 'isControlPlane'>,
): VolumeClaim {
  const { uuid, name } = key;
  const path = volumeSubpath(key);
  const record = records.get(path);
  const desired = isWanted(path, wanted);
  const consumer = uuid === null ? undefined : wanted?.microservices.get(uuid);
  return {
    ...{ name, uuid, hostPath, desired },
    scope: uuid === null ? 'shared' : 'private',
    kind: kindOf(key, isControlPlane),
    consumers: uuid === null ? [...(wanted?.shared.get(name) ?? [])] : consumer ? [consumer] : [],
    ...(!desired && record && { unreferencedAt: new Date(record.at).toISOString() }),
  };
}

function kindOf({ uuid }: VolumeKey, isControlPlane: VolumeFacts['isControlPlane']): VolumeKind {
  return uuid !== null && isControlPlane(uuid) ? 'controlplane' : 'workload';
}

type Refusal = (key: VolumeKey, facts: VolumeFacts, force: boolean) => string | undefined | false;

const isMounted: Refusal = (key, { mountedBy }) => {
  const by = mountedBy(key);
  return by !== undefined && `it is mounted by ${by}`;
};

/** Nothing lifts these. */
const ALWAYS: readonly Refusal[] = [
  (key, { isControlPlane }) =>
    kindOf(key, isControlPlane) === 'controlplane' && 'it belongs to the control plane of this machine',
  isMounted,
];

/** What keeps a volume from being destroyed when a person names it. */
const DESTROY: readonly Refusal[] = [
  ...ALWAYS,
  (_, { wanted }, force) =>
    !wanted &&
    !force &&
    'the desired state of this machine is not known, so every volume counts as wanted; force lifts it',
  ({ uuid, name }, { wanted }) => {
    const consumers = uuid === null ? (wanted?.shared.get(name) ?? []) : [];
    return consumers.length > 0 && `${consumers.map((each) => each.name || each.uuid).join(', ')} has it`;
  },
  ({ uuid }, { wanted }, force) =>
    uuid === null &&
    wanted?.isEachShared &&
    !force &&
    'of a microservice that is to run here nothing tells which shared volumes it has; force lifts it',
  ({ uuid }, { wanted }, force) =>
    uuid !== null && wanted?.microservices.has(uuid) && !force && 'its microservice is to run here; force lifts it',
];

/** What keeps a volume from being destroyed by a purge or a prune. */
const SWEEP: readonly Refusal[] = [
  ...ALWAYS,
  (key, { wanted }) => isWanted(volumeSubpath(key), wanted) && 'something that is to run here has it',
];
const PRUNE: readonly Refusal[] = [
  ...SWEEP,
  (key, { records, now }, force) => !force && graceLeft(records.get(volumeSubpath(key)), now),
];

/** What keeps a volume of the control plane from being destroyed with it. */
const WITH_CONTROL_PLANE: readonly Refusal[] = [
  ({ uuid }, { wanted }) => uuid !== null && wanted?.microservices.has(uuid) && 'the control plane is to run here',
  isMounted,
];

const RULES = { destroy: DESTROY, purge: SWEEP, prune: PRUNE, controlPlane: WITH_CONTROL_PLANE } as const;

/** Why a volume may not be destroyed in this way, in a part of a sentence; undefined when it may. Pure. */
export function destroyRefusal(
  way: keyof typeof RULES,
  key: VolumeKey,
  facts: VolumeFacts,
  force = false,
): string | undefined {
  for (const rule of RULES[way]) {
    const answer = rule(key, facts, force);
    if (answer) return answer;
  }
  return undefined;
}
