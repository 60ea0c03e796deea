import type { Observation } from '../domain/inputs.ts';
import type { News } from './news.ts';
import type { LeaderLink, Leadership, LiveValues, NodeNews, Observations } from './ports.ts';

export interface LiveValuesOptions {
  leadership: Leadership;
  link: Pick<LeaderLink, 'live'>;
  observations: Pick<Observations, 'get'>;
  news: Pick<News, 'latest'>;
  deadlineMs?: number;
}

/** From memory while this replica leads; else from the leader, or from what was heard here when it is slow. */
export function createLiveValues(options: LiveValuesOptions): LiveValues {
  const { leadership, link, observations, news, deadlineMs = 500 } = options;

  async function askLeader(uuids: readonly string[], signal: AbortSignal) {
    try {
      return await link.live(uuids, AbortSignal.any([signal, AbortSignal.timeout(deadlineMs)]));
    } catch {
      return undefined;
    }
  }

  return {
    async of(uuids, signal) {
      const own = leadership.isLeading ? observations.get : (uuid: string) => observationOf(news.latest(uuid));
      const answer = leadership.isLeading || uuids.length === 0 ? undefined : await askLeader(uuids, signal);
      const found = new Map<string, Observation>();
      for (const uuid of uuids) {
        const observation = answer?.get(uuid) ?? own(uuid);
        if (observation) found.set(uuid, observation);
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
