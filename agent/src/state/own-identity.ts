import type { Log } from '../../../src/lib/log.ts';
import { errorText } from '../machine/log.ts';
import type { Database } from './database.ts';
import { type Identity, type IdentityStore, newIdentity } from './identity.ts';

/** The identity that an agent has at the moment. */
export interface OwnIdentity {
  readonly current: Identity;
  /** the saved identity could not be read, and this is a new one */
  readonly isLost: boolean;
  /** Changes the identity; throws, and changes nothing, when it could not be saved. */
  become(next: Identity): void;
}

/**
 * The saved identity, or a new one that is saved. When the disk cannot be written, the agent still supervises its
 * containers.
 */
export function loadIdentity(
  kept: IdentityStore,
  database: Pick<Database, 'value' | 'saveValue'>,
  log: Log,
): OwnIdentity {
  const attempt = <T>(act: () => T): T | undefined => {
    try {
      return act();
    } catch (error) {
      log.error({ error: errorText(error) }, 'Cannot read or keep the identity');
      return undefined;
    }
  };
  const known = attempt(() => kept.load());
  const instance = database.value('instance');
  let current = known ?? newIdentity(instance);
  if (!known) attempt(() => kept.save(current));
  if (instance !== current.instance) attempt(() => database.saveValue('instance', current.instance));
  return {
    get current() {
      return current;
    },
    isLost: !known && instance !== undefined,
    become(next) {
      kept.save(next);
      current = next;
    },
  };
}
