import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Lock, lock } from '../hack/lock.ts';

/**
 * Waits until no other test of this machine has private engines, and keeps others waiting until it is disposed of. Two at once disturb each
 * other: a container of the one is then not reached by the other.
 */
export const enginesApart = (): Promise<Lock> => lock(join(tmpdir(), 'skerry-engines-apart.lock'));
