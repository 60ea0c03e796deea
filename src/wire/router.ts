import { z } from 'zod';
import { BOUNDS } from '../api/bounds.ts';

/** What controller, agent and the client of routers agree on about the configuration of a router. */

/** An attribute of an entity, as configurations of ours have it. */
export type RouterAttribute = string | number | boolean;

/** One entity of the configuration, as the file of the program lists it. */
export type RouterPair = readonly [entity: string, attributes: Readonly<Record<string, RouterAttribute>>];

/** Sets of the system's files of a node with a router. */
export const ROUTER_SETS = {
  /** what the router reads when it starts */
  config: 'router-config',
  /** its certificate for other routers */
  site: 'router-site-server',
  /** its certificate for clients of its machine */
  local: 'router-local-server',
  /** by which the agent tells it; the container does not have it */
  agent: 'router-local-agent',
} as const;

/** Files of these sets. */
export const ROUTER_FILES = {
  config: 'skrouterd.json',
  /** another content of it replaces the container: what no management changes */
  start: 'start',
} as const;

/** Where the container has them. */
export const ROUTER_PLACES = {
  root: '/etc/skupper-router',
  config: '/etc/skupper-router/config',
  certificates: '/etc/skupper-router-certs',
} as const;

const issue = z.object({ name: z.string().max(BOUNDS.name), message: z.string().max(BOUNDS.message).optional() });

/** What a report says of the running router: whether it has all that the files here say, and what it says itself. */
export const routerReportSchema = z.object({
  /** whether the agent is connected to it; nothing else is known of a router that it is not */
  isReached: z.boolean().default(true),
  isCurrent: z.boolean(),
  problem: z.string().max(BOUNDS.message).optional(),
  /** routers that it is connected to: uuids of their nodes, or `default-router` */
  links: z.array(z.string().max(BOUNDS.name)).max(BOUNDS.upstreams).default([]),
  /** what it does not take, and why */
  refused: z.array(issue).max(BOUNDS.routerIssues).default([]),
  /** listeners of services that admit no clients; without a message they wait for a connector */
  notUp: z.array(issue).max(BOUNDS.routerIssues).default([]),
  /** all of them, of which `notUp` has the first */
  notUpCount: z.number().int().min(0).max(1_000_000).default(0),
});
