import type { ServerResponse } from 'node:http';

/** How long a list may occupy the event loop before it yields to other requests. */
const SLICE_MS = 4;
const CHUNK = 64 * 1024;

/**
 * `{"<key>": [...]}`, or `[...]` without a key, with so many items that writing them at once would block the event loop. Items are read and written in
 * slices, from a snapshot, so that the list is consistent.
 */
export class ListReply {
  readonly key: string | undefined;
  /** Groups of items, some of them empty. An item that cannot be read is left out and reported to `leftOut`. */
  readonly groups: (leftOut: LeftOut) => Iterable<readonly unknown[]>;

  constructor(key: string | undefined, groups: (leftOut: LeftOut) => Iterable<readonly unknown[]>) {
    this.key = key;
    this.groups = groups;
  }

  toJSON(): object {
    return this.with([...this.groups(rethrow)].flat());
  }

  /** The reply that has these items. */
  with(items: readonly unknown[]): object {
    return this.key === undefined ? items : { [this.key]: items };
  }
}

/** Called for an object that cannot be serialized: the list has all others. */
export type LeftOut = (error: unknown, name: string) => void;

const rethrow: LeftOut = (error) => {
  throw error;
};

/** A reply of many items; `read` makes those of one source. For a handler its type is that of the object that it becomes. */
export function listReply<K extends string, T>(
  key: K,
  sources: Iterable<T>,
  read: (source: T) => readonly unknown[],
): Record<K, unknown[]>;
export function listReply<T, R>(key: undefined, sources: Iterable<T>, read: (source: T) => readonly R[]): R[];
export function listReply<T>(
  key: string | undefined,
  sources: Iterable<T>,
  read: (source: T) => readonly unknown[],
): unknown {
  function* groups(leftOut: LeftOut) {
    for (const source of sources) {
      try {
        yield read(source);
      } catch (error) {
        leftOut(error, (source as { metadata?: { name?: string } }).metadata?.name ?? '');
      }
    }
  }
  return new ListReply(key, groups);
}

/** Gives turns, one per iteration of the event loop, however many lists are being written. */
export function createTurns(): () => Promise<void> {
  let last = Promise.resolve();
  return () => {
    last = last.then(() => new Promise((resolve) => setImmediate(resolve)));
    return last;
  };
}

export interface ListWriting {
  turn: () => Promise<void>;
  signal: AbortSignal;
  /** Throws for an item that the schema does not allow. */
  check?: (item: unknown) => void;
  leftOut: LeftOut;
}

function isShown(item: unknown, check: ListWriting['check'], leftOut: LeftOut): boolean {
  try {
    check?.(item);
    return true;
  } catch (error) {
    leftOut(error, String((item as { name?: unknown }).name));
    return false;
  }
}

/** Writes a list; ends early when the client is gone. The head must have been written. */
export async function writeList(
  response: ServerResponse,
  reply: ListReply,
  { turn, signal, check, leftOut }: ListWriting,
): Promise<void> {
  const [head, tail] = JSON.stringify(reply.with([])).split(/(?=\])/) as [string, string];
  let text = head;
  let separator = '';
  let since = performance.now();
  for (const group of reply.groups(leftOut)) {
    for (const item of group) {
      if (!isShown(item, check, leftOut)) continue;
      text += separator + JSON.stringify(item);
      separator = ',';
    }
    if (text.length < CHUNK && performance.now() - since < SLICE_MS) continue;
    // The client has got a part of the list: it notices that when the connection is destroyed.
    if (signal.aborted || response.destroyed) return void response.destroy();
    const isFull = !response.write(text);
    text = '';
    if (isFull) await drained(response, signal);
    await turn();
    since = performance.now();
  }
  response.end(text + tail);
}

/** Resolves when the socket has room again, or the client is gone. */
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
