import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { HUB_OBJECT } from '../../../rules/bus-hub.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import { hasFilesOf } from '../../../rules/part.ts';
import { busModeOf } from '../../nodes/rules/modes.ts';

/** Servers that do not answer, and machines that do not say that they have what they need, hold up a rotation no longer than this. */
const LONGEST_MS = 10 * 60_000;

const AT_MOST = `which holds it up for ${LONGEST_MS / 60_000} minutes at most`;

/** A step of a rotation that the servers of the bus have to follow. */
export interface RotationStep {
  /** public key of the operator whose tokens servers are to take, or to have for all accounts */
  key: string;
  servers: 'trust it' | 'have its tokens';
  /** when the step began, Unix ms */
  since: number;
}

/** Whether the servers of the bus have what a step of a rotation needs: the members of the hub, and the machines that answer. */
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
  /**
   * A member that answers is waited for as long as it takes: it would refuse every token. A silent one lets in whom it knows and hears
   * of nothing, whatever signs; it reads its configuration when it starts again.
   */
  function hubLacks({ key, servers }: RotationStep, isOver: boolean): string | undefined {
    const {
      members = 0,
      answering = 0,
      trusted = [],
      operator,
    } = stores.busHubs.get(namespace, HUB_OBJECT)?.status ?? {};
    const silent = members - answering;
    if (silent > 0 && !isOver) return `${silent} of ${members} servers of the hub do not answer, ${AT_MOST}`;
    if (answering === 0) return undefined;
    if (servers === 'trust it' && !trusted.includes(key))
      return 'servers of the hub have not been started with its next key';
    if (servers === 'have its tokens' && operator !== key)
      return 'servers of the hub do not have all tokens of its next key';
    return undefined;
  }

  /** A machine that is silent gets everything at its first contact. */
  const isBehind = (isOver: boolean): boolean =>
    !isOver &&
    Array.from(stores.nodes.list()).some((node) => {
      if (busModeOf(node, platform.isBusEnabled) === 'none' || liveness(node) !== 'live') return false;
      const { digests, parts = [] } = desired(node) ?? {};
      const server = parts.find(({ condition }) => condition === 'BusReady');
      const here = observations.get(nodeUuid(node))?.report?.systemFiles;
      return server !== undefined && !hasFilesOf(server, digests?.systemFiles, here);
    });

  return {
    /** What keeps a rotation from its next step; undefined: nothing. */
    lack(step: RotationStep): string | undefined {
      const isOver = clock() - step.since >= LONGEST_MS;
      return (
        hubLacks(step, isOver) ?? (isBehind(isOver) ? `machines do not say that they have it, ${AT_MOST}` : undefined)
      );
    },
  };
}
