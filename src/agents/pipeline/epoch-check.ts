import { hash } from 'node:crypto';
import { ANNOTATIONS, HEADERS } from '../../api/names.ts';
import type { Epochs } from '../../datastore/epochs.ts';
import type { Clock } from '../../lib/clock.ts';
import { createTokenBuckets } from '../../lib/token-bucket.ts';
import { isAccepted, isIssued, latestEpochName, latestPosition } from '../../rules/epoch.ts';
import type { Digests } from '../../wire/sections.ts';
import { type AgentCall, type EpochCheck, headerOf } from '../channel/call.ts';
import { AgentFailure, notReady } from '../channel/failure.ts';
import type { NodeDirectory } from '../channel/node-directory.ts';
import type { PresentedPosition, SealedPositions } from './sealed-position.ts';

/** Returns a promise only when the API server must be read; it rejects when that fails. */
export type CheckEpoch = (call: AgentCall) => EpochCheck | Promise<EpochCheck>;

/** Limit of new epochs, which cost a write and an event each; one restore begins one epoch. */
const NEW_EPOCHS = { perSecond: 1 / 600, burst: 3 };
/** Reads of the API server because of positions that are not authentic. */
const LIVE_READS = { perSecond: 1 / 60, burst: 3 };

/**
 * An authentic position that the log does not have proves a restore and begins an epoch. A position that is not authentic
 * may still be correct (an emptied datastore has another key), so its node retains what it runs; other nodes are not
 * affected.
 */
export function createEpochCheck(
  epochs: Pick<Epochs, 'epochLog' | 'isUnverified' | 'isStale' | 'verify' | 'beginEpochAfter'>,
  directory: Pick<NodeDirectory, 'node'>,
  positions: SealedPositions,
  clock: Clock,
): CheckEpoch {
  const newEpochs = createTokenBuckets({ clock, ...NEW_EPOCHS });
  const liveReads = createTokenBuckets({ clock, ...LIVE_READS });

  const presentedBy = ({ req, uuid }: AgentCall) => positions.parse(uuid, headerOf(req, HEADERS.epochPosition, 64));

  /** Undefined when the API server must be read first: the store may be late, or the restore was not noticed yet. */
  function checkLocally(call: AgentCall): EpochCheck | undefined {
    const latest = latestPosition(epochs.epochLog);
    const position = latest && positions.seal(call.uuid, latest);
    const presented = presentedBy(call);
    if (!presented || isIssued(epochs.epochLog, presented.position) || isAcceptedBy(call, presented))
      return position ? { position } : {};
    if (!presented.isAuthentic || presented.position.epoch >= (latest?.epoch ?? 0)) return undefined;
    return retaining(call);
  }

  function isAcceptedBy(call: AgentCall, { position, isAuthentic }: PresentedPosition): boolean {
    const node = directory.node(call.uuid) ?? call.node;
    // The epoch number of a position that is not authentic is unreliable.
    const after = isAuthentic ? position : { ...position, epoch: 0 };
    return isAccepted(epochs.epochLog, after, node.metadata.annotations?.[ANNOTATIONS.acceptEpoch]);
  }

  function retaining(call: AgentCall): EpochCheck {
    const latest = latestPosition(epochs.epochLog);
    const position = latest ? positions.seal(call.uuid, latest) : '';
    return {
      retainUnlisted: { reason: 'DatastoreRestored', acceptEpoch: latestEpochName(epochs.epochLog) ?? '', position },
    };
  }

  async function ask(call: AgentCall): Promise<EpochCheck> {
    const presented = presentedBy(call);
    const isUnproven = presented !== undefined && !presented.isAuthentic;
    // Limited, so that one node cannot cause many reads of the API server.
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

  /** Stores from before the restore have lost objects, and an agent would take their list for the restored one. */
  function unlessStale<T>(checked: T): T {
    if (epochs.isStale) throw notReady('the controller reads its state again', 2);
    return checked;
  }

  return (call) => (epochs.isUnverified ? undefined : checkLocally(call)) ?? ask(call);
}

/** The digests of a list depend on `retainUnlisted`. */
export function digestsFor(digests: Digests, { retainUnlisted }: EpochCheck): Digests {
  const { microserviceList } = digests;
  if (!retainUnlisted || !microserviceList) return digests;
  return { ...digests, microserviceList: hash('sha256', `retainUnlisted ${microserviceList}`).slice(0, 16) };
}
