import type { Clock } from '../../../src/lib/clock.ts';
import { silentLog } from '../../../src/lib/log.ts';
import { memoryIdentity } from './_identity.ts';
import { memoryRows } from './_rows.ts';
import { memoryDatabase } from './database.ts';
import type { Identity } from './identity.ts';
import { LocalTokens } from './local-tokens.ts';
import { loadIdentity } from './own-identity.ts';

/** The tokens of an agent with this identity; nothing is saved. */
export function memoryTokens(identity: Identity, clock: Pick<Clock, 'now' | 'wall'>): LocalTokens {
  const own = loadIdentity(memoryIdentity(identity), memoryDatabase(), silentLog);
  return new LocalTokens({ clock, log: silentLog, identity: own, rows: memoryRows() });
}
