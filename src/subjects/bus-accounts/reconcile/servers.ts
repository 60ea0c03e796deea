import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { HUB_OBJECT } from '../../../rules/bus-hub.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import { busModeOf } from '../../nodes/rules/modes.ts';

/** A hub needs this long to show in its condition that its servers begin to start again. */
const HUB_MS = 30_000;
/** Servers that do not say that they have what they need hold up a rotation no longer than this. */
const LONGEST_MS = 10 * 60_000;

/** Whether the servers of the bus have what was made at `since` (Unix ms): the members of the hub, and the machines that answer. */
export function createBusServers({
  stores,
  namespace,
  platform,
  observations,
  desired,
  liveness,
  clock,
}: Pick<
  ControllerDependencies,
  'stores' | 'namespace' | 'platform' | 'observations' | 'desired' | 'liveness' | 'clock'
>) {
  function hubHas(since: number): boolean {
    const hub = stores.busHubs.get(namespace, HUB_OBJECT);
    if (!hub) return true;
    const isReady = hub.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') === true;
    return isReady && clock() - since >= HUB_MS;
  }

  /** A machine that is silent gets everything at its first contact. */
  const nodesHave = (): boolean =>
    Array.from(stores.nodes.list()).every((node) => {
      if (busModeOf(node, platform.isBusEnabled) === 'none' || liveness(node) !== 'live') return true;
      const wanted = desired(node)?.digests.systemFiles;
      return wanted === undefined || observations.get(nodeUuid(node))?.report?.systemFiles?.digest === wanted;
    });

  return {
    have: (since: number): boolean => clock() - since >= LONGEST_MS || (hubHas(since) && nodesHave()),
  };
}
