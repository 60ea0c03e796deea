import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Lock, lock } from '../hack/lock.ts';

/**
 * Waits until no other test has a private podman in the network of this machine, and keeps others waiting until it is disposed of. All podmans
 * that root runs keep addresses and names of containers in one folder, and have one name server for all of them: two networks of one name
 * disturb each other. A podman in a network namespace of its own has its own folder (`ownNetworkRecords` of hack/engine.ts), and needs no turn.
 */
export const enginesApart = (): Promise<Lock> => lock(join(tmpdir(), 'skerry-engines-apart.lock'));
