import { type Identified, type Identity, idToRecord, uuidToRecord } from '../domain/index.ts';
import type { KubeObject } from '../kube/mod.ts';
import { isOlder } from '../stores/oldest.ts';

/** Who else there is of a kind. A kind without numbers, or without uuids, leaves them out. */
export interface Others<T> {
  withUuid?(uuid: string): readonly T[];
  withId?(id: number): readonly T[];
  /** whether a number is kept for somebody else */
  isReserved?(id: number): boolean;
  /** a number that nobody has */
  nextId?(): Promise<number>;
}

/**
 * The identity to record: what is on record, what is asked for as far as it is free, else a new one. Of two that ask for
 * one the older gets it. What is being deleted keeps what it has.
 */
export async function identityOf<T extends KubeObject & Identified>(
  object: T,
  { withUuid, withId, isReserved, nextId }: Others<T>,
): Promise<Identity> {
  if (object.metadata.deletionTimestamp) return identityOnRecord(object);
  const isAnothers = (others: readonly T[], has: (other: T) => boolean) =>
    others.some((other) => other.metadata.uid !== object.metadata.uid && (has(other) || isOlder(other, object)));
  const uuid =
    withUuid && uuidToRecord(object, (wanted) => isAnothers(withUuid(wanted), ({ status }) => status?.uuid === wanted));
  const id =
    withId &&
    (idToRecord(
      object,
      (wanted) => isReserved?.(wanted) || isAnothers(withId(wanted), ({ status }) => status?.id === wanted),
    ) ??
      (await nextId?.()));
  return { ...(uuid && { uuid }), ...(id && { id }) };
}

/** Name of another object, for messages. */
export const holderOf = <T extends KubeObject>(others: readonly T[], object: T): string | undefined =>
  others.find((other) => other.metadata.uid !== object.metadata.uid)?.metadata.name;

const identityOnRecord = ({ status }: Identified): Identity => ({
  ...(status?.uuid && { uuid: status.uuid }),
  ...(status?.id && { id: status.id }),
});
