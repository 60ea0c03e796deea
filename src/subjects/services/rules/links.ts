import { BOUNDS } from '../../../api/bounds.ts';
import { cut, type Finding } from '../../../rules/conditions.ts';

/** What one router has of one end of a service. */
export type EndState =
  | { is: 'up' }
  /** nothing was reported since this replica leads, and it may be up */
  | { is: 'unknown' }
  | { is: (typeof WORDLESS)[number] }
  /** in the words of the router */
  | { is: 'failed' | 'refused'; message: string };

/** Without a message of the router. */
const WORDLESS = ['unreached', 'waiting', 'behind', 'none', 'silent'] as const;

/** The order in which the message names routers that do not listen: first the faults that somebody has to mend. */
const RANK: readonly EndState['is'][] = ['failed', 'refused', ...WORDLESS];

const WORDS: Readonly<Record<(typeof WORDLESS)[number], string>> = {
  unreached: 'it cannot be reached',
  waiting: 'no router that it is connected to reaches the backend',
  behind: 'it does not have the service yet',
  none: 'no router runs there',
  silent: 'the node is silent',
};

/** A router, by the name of its node or `default-router`, and what it has of one end of a service. */
export interface RouterEnd {
  router: string;
  state: EndState;
}

/** The router's own words for a port that something else on its machine has. */
const TAKEN = /address already in use/i;

function whyNot(state: Exclude<EndState, { is: 'up' | 'unknown' }>): string {
  if (state.is === 'refused') return `it refuses it: ${state.message}`;
  if (state.is !== 'failed') return WORDS[state.is];
  return TAKEN.test(state.message) ? `its port is taken: ${state.message}` : state.message;
}

/** How many routers listen, and the first that does not; undefined while one of them is unknown. */
export function listeningOf(
  ends: readonly RouterEnd[],
): { finding: Finding; listeners: { up: number; of: number } } | undefined {
  if (ends.some(({ state }) => state.is === 'unknown')) return undefined;
  const down = ends.filter(({ state }) => state.is !== 'up').sort(byNeed);
  const listeners = { up: ends.length - down.length, of: ends.length };
  const [first] = down;
  const counted = `${listeners.up} of ${listeners.of} routers listen`;
  if (!first || first.state.is === 'up' || first.state.is === 'unknown')
    return {
      listeners,
      finding:
        ends.length === 0
          ? {
              status: 'False',
              reason: 'NoListener',
              message: 'there is no default router, and no node selects the service',
            }
          : { status: 'True', reason: 'RoutersListen', message: counted },
    };
  const message = cut(`${counted}; ${first.router} does not: ${whyNot(first.state)}`, BOUNDS.message);
  if (listeners.up > 0) return { listeners, finding: { status: 'True', reason: 'RoutersListen', message } };
  const isTaken = first.state.is === 'failed' && TAKEN.test(first.state.message);
  return { listeners, finding: { status: 'False', reason: isTaken ? 'ListenerPortTaken' : 'NoListener', message } };
}

const byNeed = (one: RouterEnd, other: RouterEnd): number =>
  RANK.indexOf(one.state.is) - RANK.indexOf(other.state.is) || (one.router < other.router ? -1 : 1);

/** Whether the router that reaches the backend has its connector; undefined while that is unknown. */
export function connectedOf({ router, state }: RouterEnd): Finding | undefined {
  switch (state.is) {
    case 'unknown':
      return undefined;
    case 'up':
      return { status: 'True', reason: 'RouterHasConnector', message: `the router of ${router} has the connector` };
    case 'silent':
      return { status: 'Unknown', reason: 'NodeSilent', message: `the node ${router} is silent` };
    default:
      return {
        ...{ status: 'False', reason: 'NoConnector' },
        message: cut(`the router of ${router} lacks the connector: ${whyNot(state)}`, BOUNDS.message),
      };
  }
}

/**
 * Why the default router lacks its ends of a service; undefined: it has them. A router that starts again has them soon, so that its silence
 * counts only for a service that it never had.
 */
export function hubLacks(ends: readonly RouterEnd[], wasReady: boolean): string | undefined {
  if (ends.length === 0) return 'there is no default router: create the RouterHub default-router, or PUT /router';
  for (const { router, state } of ends) {
    // A listener waits for the connector of another router.
    if (state.is === 'up' || state.is === 'waiting') continue;
    if (state.is === 'failed' || state.is === 'refused') return cut(`${router}: ${whyNot(state)}`, BOUNDS.message);
    if (!wasReady) return state.is === 'unknown' ? `${router} was not compared yet` : `${router}: ${whyNot(state)}`;
  }
  return undefined;
}

/** What a dial of the port of a service at the default router found. */
export interface DialFound {
  is: 'open' | 'closed' | 'refused' | 'timeout' | 'failed';
  message?: string;
}

/** Whether a client of the default router reaches the backend. */
export function reachableOf({ host, port }: { host: string; port: number }, found: DialFound): Finding {
  const at = `${host} port ${port}`;
  const failed = (reason: Finding['reason'], why: string): Finding => ({
    ...{ status: 'False', reason },
    message: cut(`${at}: ${why}`, BOUNDS.message),
  });
  switch (found.is) {
    case 'open':
      return { status: 'True', reason: 'BackendAnswers', message: `${at}: a server accepts connections` };
    case 'refused':
      return failed('DialRefused', 'refused: the default router does not listen');
    case 'timeout':
      return failed('DialTimeout', 'no answer');
    case 'closed':
      return failed('DialClosed', 'accepted and closed at once: no server answers behind the routers');
    case 'failed':
      return failed('DialFailed', `the controller cannot dial it: ${found.message ?? 'no reason'}`);
  }
  return found.is satisfies never;
}
