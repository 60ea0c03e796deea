import type { Identity, IdentityStore } from './identity.ts';

/** An identity in memory. */
export function memoryIdentity(identity?: Identity): IdentityStore {
  let kept = identity;
  return {
    load: () => kept,
    save: (next) => {
      kept = next;
    },
  };
}
