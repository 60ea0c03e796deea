import { find, type Item, isShadowed, of, type Ref, type Refusal, type State } from './model.ts';

/**
 * The platform of a node as docs/resources/platform.md says it: which certificates the settings of a node lead to, with which names, and
 * what its conditions say. Pure, and without code of the product.
 */

interface NodeFiles {
  authority: string;
  /** all names of the certificate */
  hosts: readonly string[];
}

const LOCAL = ['localhost', '127.0.0.1', 'host.docker.internal', 'host.containers.internal'];
const ROUTER = [...LOCAL, 'router.default.svc.bridge.local'];
const BUS = [...LOCAL, 'bus.default.svc.bridge.local'];

/** The files of a node by name. Neither a default router nor the bus exists here, so that an absent mode is none. */
export function filesOf({ settings = {} }: Item): ReadonlyMap<string, NodeFiles> {
  const { routerMode = 'none', busMode = 'none', host, networkRouter } = settings;
  const own = host === undefined ? [] : [host];
  const router = routerMode !== 'none';
  const bus = busMode !== 'none';
  const rows: readonly [string, boolean, string, readonly string[]][] = [
    ['router-site-server', router, 'router-site-ca', []],
    ['router-local-server', router, 'default-router-local-ca', ROUTER],
    ['router-local-agent', router || networkRouter !== undefined, 'default-router-local-ca', ROUTER],
    ['bus-server', bus, 'bus-site-ca', BUS],
    ['bus-mqtt-server', bus, 'default-bus-local-ca', BUS],
  ];
  return new Map(
    rows.flatMap(([name, has, authority, names]) => (has ? [[name, { authority, hosts: [...own, ...names] }]] : [])),
  );
}

/** Why a node cannot use the router that it names. A mode that nobody set is shown as edge. */
export function routerProblem(state: State, node: Item, named: string | undefined): Refusal | undefined {
  if (named === undefined) return undefined;
  const router = find(state, { to: 'nodes', ref: named } satisfies Ref);
  if (!router) return { status: 404, code: 'INVALID_ROUTER' };
  return router === node || router.settings?.routerMode === 'none'
    ? { status: 400, code: 'INVALID_ROUTER' }
    : undefined;
}

/** What the status of a node says of its platform. No agent has the identity of a node that a sequence made. */
export function platformOf(state: State, node: Item): { phase: string; reason?: string } {
  const reason = filesOf(node).size === 0 ? undefined : node.isBuiltIn ? 'FilesPending' : 'NotProvisioned';
  if (isShadowed(state, node) || routerProblem(state, node, node.settings?.networkRouter))
    return { phase: 'Failed', ...(reason && { reason }) };
  if (!reason) return { phase: 'Ready' };
  return { phase: node.isBuiltIn ? 'Progressing' : 'Pending', reason };
}

/** Names of the authorities that exist: each is made when the first node needs it, and lasts. */
export const neededAuthorities = (state: State): readonly string[] => [
  ...new Set(
    of(state, 'nodes')
      .filter((node) => !isShadowed(state, node))
      .flatMap((node) => [...filesOf(node).values()].map(({ authority }) => authority)),
  ),
];
