import type { EdgeNode, RouterHub } from '../../../api/v3/index.ts';
import { invalid } from '../../../rules/errors.ts';
import { ROUTER_PORTS, type RouterHubOptions } from '../../../rules/router-hub.ts';
import { hostOf } from '../../nodes/rules/settings.ts';

const PORTS = ['messagingPort', 'edgeRouterPort', 'interRouterPort'] as const;

/** Ports of the pod of a default router that are not configured, by their purpose. */
const FIXED: Readonly<Record<number, string>> = { 9090: 'probes' };

/** What the default router is reached by, as reads show it. */
export interface RouterHubSettings extends Record<(typeof PORTS)[number], number> {
  /** absent while its Service has no address */
  host?: string;
}

export function routerHubSettings({ spec, status }: Pick<RouterHub, 'spec' | 'status'>): RouterHubSettings {
  const host = spec.host ?? status?.host;
  const ports = Object.fromEntries(PORTS.map((field) => [field, spec[field] ?? ROUTER_PORTS[field]])) as Record<
    (typeof PORTS)[number],
    number
  >;
  return { ...(host !== undefined && { host }), ...ports };
}

/** Whether the controller makes a default router itself. */
export const isMadeRouter = (
  { routerHub }: { readonly routerHub?: RouterHubOptions | undefined },
  { spec }: Pick<RouterHub, 'spec'>,
): boolean => routerHub !== undefined && spec.isExternal !== true;

/** Whether nodes and clients reach a default router as before; its status says more of its listeners. */
export const isRouterReachedAlike = (a: RouterHub, b: RouterHub): boolean =>
  a.metadata.deletionTimestamp === b.metadata.deletionTimestamp &&
  JSON.stringify(routerHubSettings(a)) === JSON.stringify(routerHubSettings(b));

/** The same of a node of the system, whose router is the default router of an installation outside of a cluster. */
export function routerHubSettingsOfNode(node: EdgeNode): RouterHubSettings {
  const host = hostOf(node);
  const ports = PORTS.map((field) => [field, node.spec[field] ?? ROUTER_PORTS[field]] as const);
  return {
    ...(host !== undefined && { host }),
    ...(Object.fromEntries(ports) as Record<(typeof PORTS)[number], number>),
  };
}

/** Why a default router cannot be, although each of its members has the right form. */
export function routerHubProblem({ spec }: Pick<RouterHub, 'spec'>): { field: string; message: string } | undefined {
  const settings = routerHubSettings({ spec });
  for (const [i, field] of PORTS.entries()) {
    const port = settings[field];
    const other = PORTS.slice(0, i).find((before) => settings[before] === port);
    if (other) return { field, message: `${field}: ${port} is the port of ${other} as well` };
    const fixed = spec.isExternal ? undefined : FIXED[port];
    if (fixed) return { field, message: `${field}: ${port} is the port for ${fixed} of the default router` };
  }
  return undefined;
}

/** Throws when a default router cannot be. */
export function requireRouterHub(hub: Pick<RouterHub, 'spec'>): void {
  const problem = routerHubProblem(hub);
  if (problem) throw invalid(problem.message, problem.field);
}
