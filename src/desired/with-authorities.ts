import { digestOf } from '../wire/digest.ts';
import type { Digests } from '../wire/sections.ts';
import type { DesiredCache } from './desired-cache.ts';

/** The desired states with the authorities that agents are to trust for the controller, which are the same for all nodes. */
export function withAuthorities(desired: DesiredCache, caCert: () => string): DesiredCache {
  let last = { text: '', digest: '' };
  let known = new WeakMap<Digests, Digests>();

  function digest(): string {
    const text = caCert();
    if (text !== last.text) {
      last = { text, digest: text === '' ? '' : digestOf(text) };
      known = new WeakMap();
    }
    return last.digest;
  }

  return {
    ...desired,
    digests(uuid) {
      const due = desired.digests(uuid);
      const authorities = digest();
      if (!due || authorities === '') return due;
      const whole = known.get(due) ?? { ...due, authorities };
      known.set(due, whole);
      return whole;
    },
  };
}
