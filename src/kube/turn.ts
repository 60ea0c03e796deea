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
