import { digestOf } from '../wire/digest.ts';
import { type Digests, NO_CONTENT } from '../wire/sections.ts';
import type { DesiredCache } from './desired-cache.ts';

/** The desired states with the authorities that agents are to trust for the controller, which are the same for all nodes. */
export function withAuthorities(desired: DesiredCache, caCert: () => string): DesiredCache {
  let last = { text: '', digest: NO_CONTENT };
  let known = new WeakMap<Digests, Digests>();

  function digest(): string {
    const text = caCert();
    if (text !== last.text) {
      last = { text, digest: text === '' ? NO_CONTENT : digestOf(text) };
      known = new WeakMap();
    }
    return last.digest;
  }

  return {
    ...desired,
    digests(uuid) {
      const due = desired.digests(uuid);
      if (!due) return undefined;
      const authorities = digest();
      const whole = known.get(due) ?? { ...due, authorities };
      known.set(due, whole);
      return whole;
    },
  };
}
