import type { IncomingMessage } from 'node:http';
import type { UpgradeRequest } from '../../../src/session-client/socket.ts';
import type { Claims } from '../state/token.ts';
import type { LogBuffer } from '../system/log.ts';
import type { LocalApiAgent } from './agent.ts';
import type { ChangedSettings } from './change-settings.ts';
import type { ControlChannels } from './control-channels.ts';
import type { Grant, Reach } from './grants.ts';

/** What the routes work with. */
export interface ApiContext {
  agent: LocalApiAgent;
  logs: LogBuffer;
  /** Writes settings to the file and says what was refused. */
  changeSettings(set: Record<string, unknown>): ChangedSettings | Promise<ChangedSettings>;
  reload(): void;
  stop(): void;
  channels: ControlChannels;
  phase(): 'initializing' | 'listening' | 'failed';
}

export interface ApiRequest {
  parameters: Record<string, string>;
  query: URLSearchParams;
  body(): Promise<Record<string, unknown>>;
  incoming: IncomingMessage;
  signal: AbortSignal;
  /** of the caller's token; absent on open routes */
  claims?: Claims;
  /** uuid of the microservice that asks; none where it is the admin */
  microservice: string;
  /** the microservices that the caller reaches */
  reach: Reach;
}

/** What a handler answers: data, in the envelope or bare; text; or lines that come as they come. */
export type ApiReply =
  | { kind: 'envelope'; data?: unknown; status?: number }
  | { kind: 'bare'; data: unknown; status?: number }
  | { kind: 'text'; text: string; type: string }
  | { kind: 'lines'; lines: AsyncIterable<unknown> };

export interface Route {
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  /** `{name}` stands for one segment */
  path: string;
  /**
   * open: no token, also over TCP. admin: the socket, with the admin token. workload: the token of a microservice, for
   * what is its own, also over TCP
   */
  access: 'open' | 'admin' | 'workload';
  /** of an admin route: what the role of a microservice has to allow for it, also over TCP; absent: the admin alone */
  grant?: Grant;
  /** answers who asks for a WebSocket, on the connection that `take` gives; others get the handler's answer */
  connect?(request: ApiRequest, context: ApiContext, take: () => UpgradeRequest): void | Promise<void>;
  handler(request: ApiRequest, context: ApiContext): Promise<ApiReply> | ApiReply;
}

export const ok = (data: unknown = {}): ApiReply => ({ kind: 'envelope', data });
export const bare = (data: unknown, status?: number): ApiReply => ({ kind: 'bare', data, status });
