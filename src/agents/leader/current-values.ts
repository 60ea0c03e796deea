import type { Clock } from '../../lib/clock.ts';
import type { LeaderState } from '../../replicas/channel.ts';
import type { Observation } from '../../rules/inputs.ts';
import type { CurrentValues, LeaderApi, ObservationDelta, Observations } from '../channel/dependencies.ts';
import type { ObservationForwarder } from './observation-forwarder.ts';

export interface CurrentValuesOptions {
  leadership: LeaderState;
  leader: Pick<LeaderApi, 'currentValues'>;
  observations: Pick<Observations, 'get'>;
  forwarder: Pick<ObservationForwarder, 'latest'>;
  clock: Pick<Clock, 'wall'>;
  deadlineMs?: number;
}

/** Without the leader, own observations are valid only this long: the agent may be in contact with another replica. */
const FRESH_MS = 60_000;

/** From memory while this replica leads; else from the leader, or from own observations when the leader is slow. */
export function createCurrentValues(options: CurrentValuesOptions): CurrentValues {
  const { leadership, leader, observations, forwarder, clock, deadlineMs = 500 } = options;

  async function askLeader(uuids: readonly string[], signal: AbortSignal) {
    try {
      return await leader.currentValues(uuids, AbortSignal.any([signal, AbortSignal.timeout(deadlineMs)]));
    } catch {
      return undefined;
    }
  }

  const isFresh = ({ contactAt = 0 }: Observation) => contactAt >= clock.wall() - FRESH_MS;

  return {
    async of(uuids, signal) {
      const own = leadership.isLeading ? observations.get : (uuid: string) => observationOf(forwarder.latest(uuid));
      const answer = leadership.isLeading || uuids.length === 0 ? undefined : await askLeader(uuids, signal);
      const found = new Map<string, Observation>();
      for (const uuid of uuids) {
        const observation = answer?.get(uuid) ?? own(uuid);
        const isKnown = leadership.isLeading || answer !== undefined;
        if (observation && (isKnown || isFresh(observation))) found.set(uuid, observation);
      }
      return found;
    },
  };
}

function observationOf(delta: ObservationDelta | undefined): Observation | undefined {
  if (!delta) return undefined;
  const { uuid: _, report = {}, instance, boot, sentRevisions = {}, ...rest } = delta;
  const instances = instance === undefined ? {} : { [instance]: { boot, seenAt: delta.contactAt } };
  return { ...rest, report, instances, sentRevisions };
}
