import { hash } from 'node:crypto';
import { ANNOTATIONS, HEADERS } from '../../api/names.ts';
import { isAccepted, isIssued, latestEpochName, latestPosition } from '../../domain/epoch.ts';
import type { Clock } from '../../kube/mod.ts';
import { createTokenBuckets } from '../../kube/token-bucket.ts';
import type { Epochs } from '../../stores/epochs.ts';
import type { Digests, RetainUnlisted } from '../../wire/index.ts';
import { type Call, headerOf } from '../call.ts';
import { AgentFailure, notReady } from '../failure.ts';
import type { NodeDirectory } from '../node-directory.ts';
import type { PresentedPosition, SealedPositions } from './sealed-position.ts';

/** Whether our epoch log has the position that an agent presents. */
export interface EpochCheck {
  /** The log does not have it: the datastore may lack what the agent runs, so the agent retains what the list does not name. */
  retainUnlisted?: RetainUnlisted;
  /** sealed, for the agent to save */
  position?: string;
}

/** Returns at once unless the API server must be read; then rejects when that fails. */
export type CheckEpoch = (call: Call) => EpochCheck | Promise<EpochCheck>;

/** Each new epoch costs a write and an event; one restore begins one, whoever notices it. */
const NEW_EPOCHS = { perSecond: 1 / 600, burst: 3 };
/** Reads of the API server because of positions that are not authentic. */
const LIVE_READS = { perSecond: 1 / 60, burst: 3 };

/**
 * An authentic position that the log does not have proves a restore, and begins an epoch. One that is not authentic may be
 * right (an emptied datastore has another key), so its node retains what it runs; but it changes nothing for other nodes.
 */
export function createEpochCheck(
  epochs: Pick<Epochs, 'epochLog' | 'isUnverified' | 'isStale' | 'verify' | 'beginEpochAfter'>,
  directory: Pick<NodeDirectory, 'node'>,
  positions: SealedPositions,
  clock: Clock,
): CheckEpoch {
  const newEpochs = createTokenBuckets({ clock, ...NEW_EPOCHS });
  const liveReads = createTokenBuckets({ clock, ...LIVE_READS });

  const presentedBy = ({ req, uuid }: Call) => positions.parse(uuid, headerOf(req, HEADERS.epochPosition, 64));

  /** Undefined when the API server must be asked first: the store may be late, or the restore is not noticed yet. */
  function checkLocally(call: Call): EpochCheck | undefined {
    const latest = latestPosition(epochs.epochLog);
    const position = latest && positions.seal(call.uuid, latest);
    const presented = presentedBy(call);
    if (!presented || isIssued(epochs.epochLog, presented.position) || isAcceptedBy(call, presented))
      return position ? { position } : {};
    if (!presented.isAuthentic || presented.position.epoch >= (latest?.epoch ?? 0)) return undefined;
    return retaining(call);
  }

  function isAcceptedBy(call: Call, { position, isAuthentic }: PresentedPosition): boolean {
    const node = directory.node(call.uuid) ?? call.node;
    // The number of a position that is not authentic says nothing.
    const after = isAuthentic ? position : { ...position, epoch: 0 };
    return isAccepted(epochs.epochLog, after, node.metadata.annotations?.[ANNOTATIONS.acceptEpoch]);
  }

  function retaining(call: Call): EpochCheck {
    const latest = latestPosition(epochs.epochLog);
    const position = latest ? positions.seal(call.uuid, latest) : '';
    return {
      retainUnlisted: { reason: 'DatastoreRestored', acceptEpoch: latestEpochName(epochs.epochLog) ?? '', position },
    };
  }

  async function ask(call: Call): Promise<EpochCheck> {
    const presented = presentedBy(call);
    const isUnproven = presented !== undefined && !presented.isAuthentic;
    // One node cannot make the controller read the API server again and again.
    if (!isUnproven || epochs.isUnverified || liveReads.take(call.uuid)) await epochs.verify();
    const checked = unlessStale(checkLocally(call));
    if (checked || !presented) return checked ?? {};
    if (isUnproven) return retaining(call);
    if (!newEpochs.take(call.uuid))
      throw new AgentFailure('TOO_MANY_REQUESTS', 'this node presented the positions of too many datastores', {
        retryAfterSeconds: 60,
      });
    await epochs.beginEpochAfter(presented.position);
    return unlessStale(checkLocally(call)) ?? {};
  }

  /** A list from before the restore names what is lost: an agent would take it for the list of the restored datastore. */
  function unlessStale<T>(checked: T): T {
    if (epochs.isStale) throw notReady('the controller reads its state again', 2);
    return checked;
  }

  return (call) => (epochs.isUnverified ? undefined : checkLocally(call)) ?? ask(call);
}

/** A list with `retainUnlisted` is another list than the same one without it. */
export function digestsFor(digests: Digests, { retainUnlisted }: EpochCheck): Digests {
  const { microserviceList } = digests;
  if (!retainUnlisted || !microserviceList) return digests;
  return { ...digests, microserviceList: hash('sha256', `retainUnlisted ${microserviceList}`).slice(0, 16) };
}
