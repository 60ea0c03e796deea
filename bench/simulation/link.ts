import { setTimeout as sleep } from 'node:timers/promises';
import type { Transport } from '../../agent/src/link/client.ts';
import { exchange, TransportError } from '../../agent/src/machine/http.ts';

/** A network between an agent and its controller. */
export interface LinkQuality {
  /** average round trip of a segment; it varies by half */
  roundTripMs: number;
  /** share of segments that are lost; each costs the time until TCP sends it again */
  loss: number;
  /** share of requests whose connection breaks, half of them after the controller has handled the request */
  cuts: number;
}

/** Retransmission of Linux: the first one after 200 ms plus the round trip, then twice as long each time. */
const RETRANSMISSION_MS = 200;

/** How long one way through such a network takes, ms. */
export function delayOf({ roundTripMs, loss }: LinkQuality, random: () => number): number {
  let delay = (roundTripMs / 2) * (0.5 + random());
  for (let wait = RETRANSMISSION_MS + roundTripMs; random() < loss && wait < 30_000; wait *= 2) delay += wait;
  return delay;
}

/** Sends requests as the agent does, through such a network. */
export function through(quality: () => LinkQuality, random: () => number = Math.random): Transport {
  return async (request, limit) => {
    const link = quality();
    const cut = random() < link.cuts;
    const after = random() < 0.5;
    await sleep(delayOf(link, random), undefined, { signal: request.signal });
    if (cut && !after) throw broken();
    const answer = await exchange(request, limit);
    await sleep(delayOf(link, random), undefined, { signal: request.signal });
    if (cut) throw broken();
    return answer;
  };
}

const broken = () => new TransportError('ECONNRESET', 'the connection broke');
