/**
 * Limits the memory for messages that are being received, per caller, per class of callers and in total. It counts the
 * bytes that were received, never an announced length.
 */
export interface ByteBudget {
  /**
   * Called when a message begins. Returns {@link Full} when a limit is reached. `end`: called when the message makes room for
   * another one, in a budget whose messages do; its share is given back already.
   */
  open(caller: string, end?: () => void): Share | Full;
}

/** Only the first disposal counts. */
export interface Share extends Disposable {
  /** Counts further bytes of the message; false when a limit is reached: the caller must drop the message then. */
  take(bytes: number): boolean;
}

export interface Full {
  /** the limit that is reached: that of the caller, or that of all callers of the class */
  full: 'caller' | 'class';
}

export interface ByteBudgetOptions {
  /** of all callers together */
  bytes: number;
  messages: number;
  /** of one caller; the limits of all callers when absent */
  each?: { bytes: number; messages: number };
  /** a budget of several classes, which counts the same bytes */
  within?: ByteBudget;
  /**
   * Whether messages make room when a limit is reached: the oldest of the same caller, or, when all callers together have too
   * much, of the caller with the most. For callers without a credential, who may share an address with others.
   */
  makesRoom?: boolean;
}

interface Held {
  bytes: number;
  messages: number;
  /** ends the messages that make room; the oldest first */
  ends: Set<() => void>;
}

/** A quarter of the budget is reserved for messages up to this length, so that large ones cannot exclude them. */
const SMALL = 64 * 1024;

export const isFull = (share: Share | Full): share is Full => 'full' in share;

export function createByteBudget(options: ByteBudgetOptions): ByteBudget {
  const { bytes, messages, each: limit = { bytes, messages }, within, makesRoom = false } = options;
  const callers = new Map<string, Held>();
  const all = { bytes: 0, messages: 0 };

  /** A walk over all callers, which are no more than messages. */
  function most(what: 'bytes' | 'messages'): Held | undefined {
    let found: Held | undefined;
    for (const held of callers.values()) if (held[what] > (found?.[what] ?? 0)) found = held;
    return found;
  }

  /** Ends the oldest message except one; false when there is none. */
  function makeRoom(held: Held | undefined, except?: () => void): boolean {
    for (const end of held?.ends ?? []) {
      if (end === except) continue;
      end();
      return true;
    }
    return false;
  }

  return {
    open(caller, end) {
      const before = callers.get(caller);
      if ((before?.messages ?? 0) >= limit.messages && !makeRoom(before)) return { full: 'caller' };
      if (all.messages >= messages && !makeRoom(most('messages'))) return { full: 'class' };
      const outer = within?.open(caller);
      if (outer && isFull(outer)) return { full: 'class' };
      const own = callers.get(caller) ?? { bytes: 0, messages: 0, ends: new Set() };
      own.messages++;
      all.messages++;
      callers.set(caller, own);
      let held = 0;
      let isOver = false;
      const close = () => {
        if (isOver) return;
        isOver = true;
        own.ends.delete(giveWay);
        own.messages--;
        own.bytes -= held;
        all.messages--;
        all.bytes -= held;
        if (own.messages === 0) callers.delete(caller);
        outer?.[Symbol.dispose]();
      };
      const giveWay = () => {
        close();
        end?.();
      };
      if (makesRoom && end) own.ends.add(giveWay);
      return {
        take(more) {
          const room = held + more <= SMALL ? bytes : bytes * 0.75;
          if (held + more > Math.min(limit.bytes, room)) return false;
          while (own.bytes + more > limit.bytes) if (!makeRoom(own, giveWay)) return false;
          while (all.bytes + more > room) if (!makeRoom(most('bytes'), giveWay)) return false;
          if (outer?.take(more) === false) return false;
          held += more;
          own.bytes += more;
          all.bytes += more;
          return true;
        },
        [Symbol.dispose]: close,
      };
    },
  };
}
