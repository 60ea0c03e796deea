/**
 * The epoch log of the datastore behind the API server. It distinguishes a datastore that continued from one that was
 * restored from an older backup, emptied or replaced. Resource versions do not: they continue to grow after a restore, and
 * the usual procedure increases them by a large step.
 *
 * Each leader begins an epoch with a number and a random id. Within it a sequence number grows by one soon after each
 * change of what machines are to run. An agent saves the position that it received last, `<epoch>.<id>.<sequence number>`. A
 * position that the datastore has issued stays in its log. A position ahead of its epoch, or of an epoch that the
 * log does not have, was issued from a state that this datastore does not have.
 */
interface Epoch {
  /** grows from epoch to epoch */
  number: number;
  /** random: two datastores that diverged continue with different ids */
  id: string;
  /** the last one issued */
  sequenceNumber: number;
}

/** Oldest first; the last one is current. */
export type EpochLog = readonly Epoch[];

export interface EpochPosition {
  /** number of the epoch */
  epoch: number;
  id: string;
  sequenceNumber: number;
}

/** Greatest number of epochs in the log. Positions of older epochs count as issued. */
const KEPT = 200;
const POSITION = /^([1-9]\d{0,14})\.([0-9a-f]{8})\.(0|[1-9]\d{0,14})$/;
const EPOCH_NAME = /^([1-9]\d{0,14})\.([0-9a-f]{8})$/;

export const formatPosition = ({ epoch, id, sequenceNumber }: EpochPosition): string =>
  `${epoch}.${id}.${sequenceNumber}`;

/** Undefined for text that does not have the form of a position. */
export function parsePosition(text: string | undefined): EpochPosition | undefined {
  const [, epoch, id, sequenceNumber] = POSITION.exec(text ?? '') ?? [];
  return id === undefined ? undefined : { epoch: Number(epoch), id, sequenceNumber: Number(sequenceNumber) };
}

/** The position to issue now; undefined before the first epoch. */
export function latestPosition(log: EpochLog): EpochPosition | undefined {
  const epoch = log.at(-1);
  return epoch && { epoch: epoch.number, id: epoch.id, sequenceNumber: epoch.sequenceNumber };
}

/** Whether this datastore issued the position. */
export function isIssued(log: EpochLog, position: EpochPosition): boolean {
  const epoch = log.findLast(({ number, id }) => number === position.epoch && id === position.id);
  return epoch ? position.sequenceNumber <= epoch.sequenceNumber : position.epoch < (log[0]?.number ?? 0);
}

/**
 * The log with a new epoch. `above` is the epoch of a position that this datastore has not issued; the new epoch is later. An
 * empty log still begins with epoch 1, since a first epoch with a higher number would mean that there were others.
 */
export function withNewEpoch(log: EpochLog, id: string, above = 0): EpochLog {
  if (log.length === 0 && above > 0) return withNewEpoch([{ number: 1, id, sequenceNumber: 0 }], id, above);
  const number = Math.max(log.at(-1)?.number ?? 0, above) + 1;
  return [...log, { number, id, sequenceNumber: 0 }].slice(-KEPT);
}

export const withNextSequenceNumber = (log: EpochLog): EpochLog =>
  log.map((epoch, i) => (i === log.length - 1 ? { ...epoch, sequenceNumber: epoch.sequenceNumber + 1 } : epoch));

/** The text by which an operator accepts this datastore: its current epoch. */
export function latestEpochName(log: EpochLog): string | undefined {
  const epoch = log.at(-1);
  return epoch && `${epoch.number}.${epoch.id}`;
}

/** Whether the operator accepted an epoch of this log that is later than the position. */
export function isAccepted(log: EpochLog, position: EpochPosition, accepted: string | undefined): boolean {
  const [, number, id] = EPOCH_NAME.exec(accepted ?? '') ?? [];
  return Number(number) > position.epoch && log.some((epoch) => epoch.number === Number(number) && epoch.id === id);
}

export const formatEpochLog = (log: EpochLog): string =>
  log.map(({ number, id, sequenceNumber }) => formatPosition({ epoch: number, id, sequenceNumber })).join('\n');

/** Lines that cannot be read are left out. */
export const parseEpochLog = (text: string | undefined): EpochLog =>
  (text ?? '').split('\n').flatMap((line) => {
    const position = parsePosition(line);
    return position ? [{ number: position.epoch, id: position.id, sequenceNumber: position.sequenceNumber }] : [];
  });
