import { BOUNDS } from '../api/bounds.ts';
import { UUID_PATTERN } from '../api/meta.ts';
import { BUILT_IN_REGISTRIES, LABELS } from '../api/names.ts';
import type { Application, EdgeNode, Registry } from '../api/v3/index.ts';
import { isReservedFor } from './built-in.ts';
import type { Verdict } from './verdict.ts';

/**
 * The identity of an object for machines and v3 clients, independent of its manifest. The status records it, since no
 * manifest and no `kubectl replace` changes a status. Labels repeat it, since backups contain labels and an object has them
 * from its creation. The spec may name an identity to take over, for example after the datastore was lost.
 */
export interface Identified {
  metadata: { uid?: string; labels?: Record<string, string> };
  spec: { uuid?: string; id?: number };
  status?: { uuid?: string; id?: number };
}

/** The recorded identity. */
export interface ObjectIdentity {
  uuid?: string;
  id?: number;
}

/** The uuid of an application. */
export const applicationUuid = (application: Application): string => uuidOf(application);

/** The uuid of a node. */
export const nodeUuid = (node: EdgeNode): string => uuidOf(node);

/** The number of an application in the v3 API; absent until the controller assigns it. */
export const applicationId = (application: Application): number | undefined => idOf(application);

/** The number of a registry, by which v3 clients and microservices name it; absent until the controller assigns it. */
export function registryId(registry: Registry): number | undefined {
  const id = idOf(registry);
  return id !== undefined && isReserved(registry, id) ? undefined : id;
}

/** The numbers of built-in registries belong to them even when another registry asks for one first. */
const isReserved = (registry: Registry, id: number): boolean => isReservedFor(RESERVED, registry, id);
const RESERVED = Object.values(BUILT_IN_REGISTRIES).map(({ id, name }) => ({ name, spec: { id } }));

/** The recorded uuid, else the one that the spec asks for, else the uid of the API server. */
export function uuidOf(object: Identified): string {
  return object.status?.uuid ?? object.spec.uuid ?? labelledUuid(object) ?? object.metadata.uid ?? '';
}

/** The recorded number, else the one that the spec asks for. */
export function idOf(object: Identified): number | undefined {
  for (const id of [object.status?.id, object.spec.id, labelledId(object)]) if (isId(id)) return id;
  return undefined;
}

/**
 * The uuid to record. A label with the uuid of another object was copied with that object, and does not count. Absent
 * while the uuid that the spec asks for belongs to another object; once that one is deleted, this object gets it.
 */
export function uuidToRecord(object: Identified, isTaken: (uuid: string) => boolean): string | undefined {
  if (object.status?.uuid) return object.status.uuid;
  if (object.spec.uuid) return isTaken(object.spec.uuid) ? undefined : object.spec.uuid;
  const labelled = labelledUuid(object);
  return labelled && !isTaken(labelled) ? labelled : object.metadata.uid;
}

/** The number to record; absent when the object needs a new one. */
export function idToRecord(object: Identified, isTaken: (id: number) => boolean): number | undefined {
  if (isId(object.status?.id)) return object.status.id;
  for (const id of [object.spec.id, labelledId(object)]) if (isId(id) && !isTaken(id)) return id;
  return undefined;
}

/** The verdict on an object whose name belongs to another one. */
export const nameTaken = (kind: string, name: string, owner: string): Verdict => ({
  reason: 'NameTaken',
  status: 409,
  code: 'DUPLICATE_NAME',
  field: 'name',
  message: `the ${kind} name "${name}" belongs to the object ${owner}`,
});

/** The verdict on an object whose uuid belongs to another one. */
export const uuidTaken = (kind: string, uuid: string, owner: string): Verdict => ({
  reason: 'UuidTaken',
  status: 409,
  code: 'DUPLICATE_UUID',
  field: 'uuid',
  message: `the ${kind} uuid ${uuid} belongs to the object ${owner}`,
});

/** The verdict on an object that asks for the number of another one; it gets a different number. */
export function idVerdict(
  object: Identified,
  given: number | undefined,
  holder: string | undefined,
): Verdict | undefined {
  const asked = object.spec.id;
  if (!isId(asked) || given === undefined || asked === given) return undefined;
  const owner = holder === undefined ? 'is not free' : `belongs to ${holder}`;
  return {
    reason: 'IdTaken',
    status: 409,
    code: 'DUPLICATE_ID',
    field: 'id',
    message: `the id ${asked} ${owner}; this object was given ${given}: leave spec.id out`,
  };
}

/** The labels that repeat an identity. */
export function identityLabels({ uuid, id }: ObjectIdentity): Record<string, string> {
  return { ...(uuid && { [LABELS.uuid]: uuid }), ...(id && { [LABELS.id]: String(id) }) };
}

const UUID = new RegExp(UUID_PATTERN);

function labelledUuid({ metadata: { labels } }: Identified): string | undefined {
  const uuid = labels?.[LABELS.uuid];
  return uuid !== undefined && UUID.test(uuid) ? uuid : undefined;
}

function labelledId({ metadata: { labels } }: Identified): number | undefined {
  const id = labels?.[LABELS.id];
  return id !== undefined && /^[1-9][0-9]{0,9}$/.test(id) ? Number(id) : undefined;
}

/**
 * How firmly an object has an identity: 2 when its status records it, 1 when its label has it, as after a restore that left
 * statuses out, 0 when only its spec asks for it.
 */
export function firmness(
  object: Identified,
  { uuid, id }: ObjectIdentity | { uuid?: undefined; id?: undefined },
): number {
  if (uuid !== undefined) return object.status?.uuid === uuid ? 2 : Number(labelledUuid(object) === uuid);
  if (id !== undefined) return object.status?.id === id ? 2 : Number(labelledId(object) === id);
  return 0;
}

/** Whether a verdict says that the name or the uuid belongs to another object. */
export const isIdentityTaken = (verdict: Pick<Verdict, 'reason'> | undefined): boolean =>
  verdict?.reason === 'NameTaken' || verdict?.reason === 'UuidTaken';

const isId = (id: number | undefined): id is number =>
  Number.isInteger(id) && Number(id) >= 1 && Number(id) <= BOUNDS.id;
