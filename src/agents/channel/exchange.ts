import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Reply } from '../../http/reply.ts';
import type { AgentCall } from './call.ts';
import type { AgentMetric } from './dependencies.ts';
import type { Theft } from './theft.ts';

/** Bounds and budget of a request body: of a report, of any other message of a node, of a caller without identity. */
export type BodyClass = 'report' | 'message' | 'provisioning';

interface RouteBase {
  method: 'GET' | 'PUT' | 'PATCH' | 'POST' | 'DELETE';
  /** below `/api/v3/agent`; the last segment may be a parameter in braces */
  path: string;
  /** the worst that a thief of the node's key gains by it */
  theft: Theft;
  /** each request is an event of the audit log */
  isAudited?: true;
  /** the body is read, as JSON, only for routes that have this */
  body?: BodyClass;
}

/** A route of a node that has authenticated. */
export interface NodeRoute extends RouteBase {
  access?: undefined;
  /** counted for each authenticated request */
  metric: AgentMetric;
  /** the response comes from stores that are not older than those of former responses to our agent */
  notOlderThan?: true;
  /** compares our agent's position with the epoch log first: `call.epoch` */
  epoch?: true;
  handle(call: AgentCall, body: unknown): Reply | Promise<Reply>;
}

/** The route of callers that have a provisioning key and no identity yet. */
export interface ProvisioningRoute extends RouteBase {
  access: 'provisioning-key';
  metric?: undefined;
  notOlderThan?: undefined;
  epoch?: undefined;
  handle(caller: Newcomer, body: unknown): Promise<Reply>;
}

/** A caller that has no identity yet. */
interface Newcomer {
  req: IncomingMessage;
  res: ServerResponse;
  address: string;
  /** Called with the uuid of the node that the caller has become. */
  identified(uuid: string): void;
}

export type AgentRoute = NodeRoute | ProvisioningRoute;

/** One request in the pipeline. Each step sets the members that later steps need. */
export interface Exchange {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  /** below `/api/v3/agent` */
  readonly path: string;
  readonly query: string;
  route?: AgentRoute;
  /** value of the path parameter */
  parameter?: string;
  /** of a caller without identity */
  address?: string;
  call?: AgentCall;
  /** uuid of the node that a caller without identity has become */
  provisioned?: string;
  body?: unknown;
  reply?: Reply;
}
