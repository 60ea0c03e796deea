import {
  hasGivenId,
  type Identified,
  type Identity,
  idToRecord,
  idVerdict,
  uuidToRecord,
  type Verdict,
} from '../domain/index.ts';
import type { Kind, KindObject } from '../kinds/index.ts';
import { isOlder } from '../stores/oldest.ts';
import { storeOf } from '../stores/stores.ts';
import type { ControllerDependencies } from './dependencies.ts';

/**
 * The identity to record: the recorded one, else the one that the spec asks for if it is free, else a new one. Of two
 * objects that ask for the same one the older gets it. An object in deletion keeps its identity.
 */
export async function identityOf<T extends KindObject>(
  { stores, ids }: Pick<ControllerDependencies, 'stores' | 'ids'>,
  kind: Kind<T>,
  object: T,
  signal: AbortSignal,
): Promise<Identity> {
  if (object.metadata.deletionTimestamp) return identityOnRecord(object);
  const { definition, identity } = kind;
  const store = storeOf(stores, kind);
  const isAnothers = (index: 'uuid' | 'id', wanted: string | number, precedes = isOlder<T>) =>
    store
      .byIndex(index, String(wanted))
      .some(
        (other) =>
          other.metadata.uid !== object.metadata.uid && (other.status?.[index] === wanted || precedes(other, object)),
      );
  /** Of two objects without a record, one with an assigned number precedes one that only asks for it. */
  const precedes = (wanted: number) => (a: T, b: T) =>
    hasGivenId(a, wanted) === hasGivenId(b, wanted) ? isOlder(a, b) : hasGivenId(a, wanted);
  const isTaken = (id: number) =>
    identity.isReserved?.(object, id) || ids.isIssued(definition.kind, id) || isAnothers('id', id, precedes(id));
  const uuid = identity.uuid && uuidToRecord(object, (wanted) => isAnothers('uuid', wanted));
  const id = identity.id && (idToRecord(object, isTaken) ?? (await ids.next(definition.kind, signal)));
  return { ...(uuid && { uuid }), ...(id && { id }) };
}

/** The verdict on an object that asks for the number of another one. */
export function idTaken<T extends KindObject>(
  { stores }: Pick<ControllerDependencies, 'stores'>,
  kind: Kind<T>,
  object: T,
  given: number | undefined,
): Verdict | undefined {
  const { id } = object.spec;
  const others = id === undefined ? [] : storeOf(stores, kind).byIndex('id', String(id));
  return idVerdict(object, given, others.find(({ metadata }) => metadata.uid !== object.metadata.uid)?.metadata.name);
}

const identityOnRecord = ({ status }: Identified): Identity => ({
  ...(status?.uuid && { uuid: status.uuid }),
  ...(status?.id && { id: status.id }),
});
