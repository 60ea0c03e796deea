import { storeOf } from '../datastore/stores.ts';
import type { Kind } from '../kinds/definition.ts';
import type { KindObject } from '../kinds/object.ts';
import { type Identified, idToRecord, idVerdict, type ObjectIdentity, uuidToRecord } from '../rules/identity.ts';
import { holder } from '../rules/precedence.ts';
import type { Verdict } from '../rules/verdict.ts';
import type { ControllerDependencies } from './dependencies.ts';

/**
 * The identity to record: the recorded one, else the one that the spec asks for if it is free, else a new one. Of several
 * objects that ask for the same one, `holder` says which gets it. An object in deletion keeps its identity.
 */
export async function identityOf<T extends KindObject>(
  { stores, ids }: Pick<ControllerDependencies, 'stores' | 'ids'>,
  kind: Kind<T>,
  object: T,
  signal: AbortSignal,
): Promise<ObjectIdentity> {
  if (object.metadata.deletionTimestamp) return identityOnRecord(object);
  const { definition, identity, builtIns } = kind;
  const store = storeOf(stores, kind);
  const isAnothers = (index: 'uuid' | 'id', wanted: string | number) => {
    const others = store.byIndex(index, String(wanted)).filter(({ metadata }) => metadata.uid !== object.metadata.uid);
    return others.length > 0 && holder([...others, object], { builtIns, [index]: wanted }) !== object;
  };
  const isTaken = (id: number) =>
    identity.isReserved?.(object, id) || ids.isIssued(definition.kind, id) || isAnothers('id', id);
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

const identityOnRecord = ({ status }: Identified): ObjectIdentity => ({
  ...(status?.uuid && { uuid: status.uuid }),
  ...(status?.id && { id: status.id }),
});
