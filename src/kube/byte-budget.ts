/**
 * Memory for messages that are being received: of one caller, of a class of callers, and of all. What counts is what has
 * arrived, never what was announced.
 */
export interface ByteBudget {
  /** A message begins to arrive. Undefined when there is no room: `caller` says whose limit it is. */
  open(caller: string): Share | Full;
}

export interface Share extends Disposable {
  /** More of it arrived; false when there is no room for that, and then it must not be kept. */
  take(bytes: number): boolean;
}

export interface Full {
  /** whose limit it is: the caller's own, or one that others have used up */
  full: 'caller' | 'class';
}

export interface ByteBudgetOptions {
  /** of all callers together */
  bytes: number;
  messages: number;
  /** of one caller; the same as of all when absent */
  each?: { bytes: number; messages: number };
  /** counts there as well */
  within?: ByteBudget;
}

/** Messages up to this length have a quarter of the room to themselves, so that large ones never keep them out. */
const SMALL = 64 * 1024;

export const isFull = (share: Share | Full): share is Full => 'full' in share;

export function createByteBudget({ bytes, messages, each, within }: ByteBudgetOptions): ByteBudget {
  const limit = each ?? { bytes, messages };
  const callers = new Map<string, { bytes: number; messages: number }>();
  const all = { bytes: 0, messages: 0 };

  return {
    open(caller) {
      const own = callers.get(caller) ?? { bytes: 0, messages: 0 };
      if (own.messages >= limit.messages) return { full: 'caller' };
      if (all.messages >= messages) return { full: 'class' };
      const outer = within?.open(caller);
      if (outer && isFull(outer)) return { full: 'class' };
      own.messages++;
      all.messages++;
      callers.set(caller, own);
      let held = 0;
      return {
        take(more) {
          const room = held + more <= SMALL ? bytes : bytes * 0.75;
          if (own.bytes + more > limit.bytes || all.bytes + more > room || outer?.take(more) === false) return false;
          held += more;
          own.bytes += more;
          all.bytes += more;
          return true;
        },
        [Symbol.dispose]() {
          own.messages--;
          own.bytes -= held;
          all.messages--;
          all.bytes -= held;
          held = 0;
          if (own.messages === 0) callers.delete(caller);
          outer?.[Symbol.dispose]();
        },
      };
    },
  };
}
