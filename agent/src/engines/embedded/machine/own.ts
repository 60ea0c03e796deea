import { connectFailure } from '../../../machine/connects.ts';
import { runsSystemd } from '../../../machine/service-manager.ts';
import { containerdPlaces, EMBEDDED, type PlacesOptions } from './places.ts';
import { removeContainerd } from './remove.ts';
import { startedAt } from './started.ts';

/** The containerd of the unit `skerry-containerd` on this machine. */
export const ownContainerd = (): PlacesOptions => ({
  ...{ root: EMBEDDED.root, state: EMBEDDED.state, name: EMBEDDED.name },
  systemd: runsSystemd(),
});

/** ms that containers have to end by themselves when their engine is removed. */
const GRACE = 10_000;

/** Ends all that the agent's own engine has left here; see removeContainerd. Throws while it runs. */
export async function removeOwnContainerd({ purge }: { purge: boolean }): Promise<string[]> {
  if ((await connectFailure({ path: EMBEDDED.socket })) === undefined)
    throw new Error(`containerd answers at ${EMBEDDED.socket}: stop it first (systemctl stop skerry-containerd)`);
  return removeContainerd({
    places: containerdPlaces(ownContainerd()),
    started: startedAt(EMBEDDED.socket),
    grace: GRACE,
    purge,
  });
}
