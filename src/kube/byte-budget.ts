/**
 * Limits the memory for messages that are being received, per caller, per class of callers and in total. It counts the
 * bytes that were received, never an announced length.
 */
export interface ByteBudget {
  /** Called when a message begins. Returns {@link Full} when a limit is reached. */
  open(caller: string): Share | Full;
}

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
}

/** A quarter of the budget is reserved for messages up to this length, so that large ones cannot exclude them. */
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
