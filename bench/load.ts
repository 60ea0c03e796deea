import { setTimeout as sleep } from 'node:timers/promises';

/** One request; `i` counts from 0. Rejects when the response is not as expected. */
export type Send = (i: number) => Promise<void>;

export interface Load {
  /** ms, of requests with the expected response */
  latencies: number[];
  /** messages of the failures, with their number */
  failures: Map<string, number>;
  seconds: number;
}

/** Sends `count` requests by `concurrency` senders, each of which sends the next one after the response to the last. */
export async function closedLoop(count: number, concurrency: number, send: Send): Promise<Load> {
  const load = begin();
  let next = 0;
  const sender = async () => {
    while (next < count) {
      const i = next++;
      const began = performance.now();
      await record(load, began, send(i));
    }
  };
  await Promise.all(Array.from({ length: concurrency }, sender));
  return load.end();
}

/**
 * Sends at a fixed rate, whether responses arrive or not. The latency counts from when a request was due, so that a sender
 * that could not keep up is visible as latency and not as a lower rate.
 */
export async function openLoop(perSecond: number, seconds: number, send: Send): Promise<Load> {
  const load = begin();
  const began = performance.now();
  const count = Math.round(perSecond * seconds);
  const waiting: Promise<void>[] = [];
  for (let i = 0; i < count; ) {
    const elapsed = performance.now() - began;
    for (; i < count && (i * 1000) / perSecond <= elapsed; i++) {
      waiting.push(record(load, began + (i * 1000) / perSecond, send(i)));
    }
    await sleep(1);
  }
  await Promise.all(waiting);
  return load.end();
}

/** Throws unless every request had the expected response. */
export function assertAllAnswered({ failures }: Load): void {
  if (failures.size === 0) return;
  const texts = [...failures].map(([text, count]) => `${count} x ${text}`);
  throw new Error(`Requests failed: ${texts.join('; ')}`);
}

interface Recording extends Load {
  end(): Load;
}

function begin(): Recording {
  const began = performance.now();
  const recording: Recording = {
    latencies: [],
    failures: new Map(),
    seconds: 0,
    end() {
      recording.seconds = (performance.now() - began) / 1000;
      return recording;
    },
  };
  return recording;
}

async function record({ latencies, failures }: Load, began: number, answered: Promise<void>): Promise<void> {
  try {
    await answered;
    latencies.push(performance.now() - began);
  } catch (error) {
    const text = (error as Error).message;
    failures.set(text, (failures.get(text) ?? 0) + 1);
  }
}
