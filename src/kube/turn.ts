/** How long the runs of all queues may follow each other until the event loop turns: well below what polls and probes notice. */
const SLICE_MS = 8;

/** When the present turn of the event loop began for the queues of this process; undefined: nothing has run in it. */
let began: number | undefined;

/**
 * Whether runs have taken their share of this turn of the event loop. Runs that need no answer of the API server follow each other
 * without a turn: at the beginning of a term, ten thousand objects that need nothing would stop the process for seconds.
 */
export function isTurnOver(): boolean {
  const now = performance.now();
  if (began === undefined) {
    began = now;
    setImmediate(() => {
      began = undefined;
    });
  }
  return now - began >= SLICE_MS;
}

/** Other work may take the beginning of every turn; twice the concurrency of the largest queue. */
const MOST_WAITS = 16;

/** Does work that costs milliseconds in a turn of the event loop that has room for it: what begins at once does not end in one turn. */
export async function inTurn<T>(work: () => T): Promise<T> {
  for (let waits = 0; waits < MOST_WAITS && isTurnOver(); waits++)
    await new Promise((resolve) => setImmediate(resolve));
  return work();
}
