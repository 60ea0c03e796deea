import type { ServerResponse } from 'node:http';

/** How long the process may be busy with a list before others have their turn. */
const SLICE_MS = 4;
const CHUNK = 64 * 1024;

/**
 * `{"<key>": [...]}` with so many items that making them at once would keep everybody else waiting. Items are read and
 * written in slices; what they are read from is a snapshot, so the list is of one moment.
 */
export class ListReply {
  readonly key: string;
  /** Made one after the other, some of them empty. */
  readonly groups: () => Iterable<readonly unknown[]>;

  constructor(key: string, groups: () => Iterable<readonly unknown[]>) {
    this.key = key;
    this.groups = groups;
  }

  toJSON(): object {
    return { [this.key]: [...this.groups()].flat() };
  }
}

/** A reply of many items; `read` makes those of one source. To a handler it looks like the object that it becomes. */
export function listReply<K extends string, T>(
  key: K,
  sources: Iterable<T>,
  read: (source: T) => readonly unknown[],
): Record<K, unknown[]> {
  function* groups() {
    for (const source of sources) yield read(source);
  }
  return new ListReply(key, groups) as unknown as Record<K, unknown[]>;
}

/** Hands out turns, one per round of the event loop, however many lists are being written. */
export function createTurns(): () => Promise<void> {
  let last = Promise.resolve();
  return () => {
    last = last.then(() => new Promise((resolve) => setImmediate(resolve)));
    return last;
  };
}

/** Writes a list; ends early when the client is gone. The head must have been written. */
export async function writeList(
  response: ServerResponse,
  { key, groups }: ListReply,
  turn: () => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  let text = `{${JSON.stringify(key)}:[`;
  let separator = '';
  let since = performance.now();
  for (const group of groups()) {
    for (const item of group) {
      text += separator + JSON.stringify(item);
      separator = ',';
    }
    if (text.length < CHUNK && performance.now() - since < SLICE_MS) continue;
    // Whoever reads so slowly gets half a list, and must see that it is one.
    if (signal.aborted || response.destroyed) return void response.destroy();
    const isFull = !response.write(text);
    text = '';
    if (isFull) await drained(response, signal);
    await turn();
    since = performance.now();
  }
  response.end(`${text}]}`);
}

/** Until there is room again, or nobody who reads. */
function drained(response: ServerResponse, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      response.off('drain', done).off('close', done);
      signal.removeEventListener('abort', done);
      resolve();
    };
    response.on('drain', done).on('close', done);
    signal.addEventListener('abort', done);
  });
}
