import type { Observation } from '../../domain/inputs.ts';
import type { Clock } from '../../kube/mod.ts';
import type { LeaderLink, Leadership, LiveValues, NodeNews, Observations } from '../dependencies.ts';
import type { News } from './observation-forwarder.ts';

export interface LiveValuesOptions {
  leadership: Leadership;
  link: Pick<LeaderLink, 'live'>;
  observations: Pick<Observations, 'get'>;
  news: Pick<News, 'latest'>;
  clock: Pick<Clock, 'wall'>;
  deadlineMs?: number;
}

/** What was heard here is used without the leader only this long: the agent may talk to another replica by now. */
const FRESH_MS = 60_000;

/** From memory while this replica leads; else from the leader, or from what was heard here when it is slow. */
export function createLiveValues(options: LiveValuesOptions): LiveValues {
  const { leadership, link, observations, news, clock, deadlineMs = 500 } = options;

  async function askLeader(uuids: readonly string[], signal: AbortSignal) {
    try {
      return await link.live(uuids, AbortSignal.any([signal, AbortSignal.timeout(deadlineMs)]));
    } catch {
      return undefined;
    }
  }

  const isFresh = ({ contactAt = 0 }: Observation) => contactAt >= clock.wall() - FRESH_MS;

  return {
    async of(uuids, signal) {
      const own = leadership.isLeading ? observations.get : (uuid: string) => observationOf(news.latest(uuid));
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

function observationOf(news: NodeNews | undefined): Observation | undefined {
  if (!news) return undefined;
  const { uuid: _, report = {}, instance, boot, handedOut = {}, ...rest } = news;
  const instances = instance === undefined ? {} : { [instance]: { boot, seenAt: news.contactAt } };
  return { ...rest, report, instances, handedOut };
}
