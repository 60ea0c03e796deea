import type { IncomingMessage, ServerResponse } from 'node:http';
import { HEADERS } from '../../api/names.ts';
import type { EdgeNode } from '../../api/v3/index.ts';
import type { Clock } from '../../lib/clock.ts';
import type { RetainUnlisted } from '../../wire/agent.ts';
import type { NodeIdentity, ObservationDelta } from './dependencies.ts';

/** A request of an authenticated node. */
export interface AgentCall {
  req: IncomingMessage;
  res: ServerResponse;
  uuid: string;
  node: EdgeNode;
  query: URLSearchParams;
  /** version of our own agent; absent for third-party agents */
  agent?: string;
  instance?: string;
  boot?: string;
  /** how far the stores must be for the response: see not-older-than.ts */
  notOlderThan?: string;
  /** value of the parameter in the path of the route */
  parameter?: string;
  /** of routes that compare the agent's position with the epoch log */
  epoch?: EpochCheck;
}

/** Whether the epoch log has the position of an agent. */
export interface EpochCheck {
  /** Set when the log does not have it: objects may be missing, so the agent retains what the list does not name. */
  retainUnlisted?: RetainUnlisted;
  /** sealed, for the agent to save */
  position?: string;
}

/** Whether the agent is of another make: ours names its version in each request. */
export const isThirdParty = (call: AgentCall) => call.agent === undefined;

/** Sends a contact, and what the agent sent with it, to the leader. */
export type Observe = (call: AgentCall, said?: Partial<ObservationDelta>) => void;

export function createHear(forwarder: { observe(delta: ObservationDelta): void }, clock: Pick<Clock, 'wall'>): Observe {
  return ({ uuid, agent, instance, boot }, said = {}) =>
    forwarder.observe({
      uuid,
      contactAt: clock.wall(),
      waitSeconds: 0,
      ...(agent !== undefined && { agent }),
      ...(instance !== undefined && { instance }),
      ...(boot !== undefined && { boot }),
      ...said,
    });
}

export function createCall(req: IncomingMessage, res: ServerResponse, query: string, who: NodeIdentity): AgentCall {
  const agent = headerOf(req, HEADERS.agent, 64);
  const instance = headerOf(req, HEADERS.instance, 128);
  const boot = headerOf(req, HEADERS.boot, 128);
  const notOlderThan = headerOf(req, HEADERS.notOlderThan, 2_048);
  return {
    req,
    res,
    uuid: who.uuid,
    node: who.node,
    query: new URLSearchParams(query),
    ...(agent !== undefined && { agent }),
    ...(instance !== undefined && { instance }),
    ...(boot !== undefined && { boot }),
    ...(notOlderThan !== undefined && { notOlderThan }),
  };
}

export function headerOf(req: IncomingMessage, name: string, max: number): string | undefined {
  const value = req.headers[name];
  return typeof value === 'string' && value !== '' ? value.slice(0, max) : undefined;
}

/** Scheme-less parts of a request target. */
export function targetOf(req: IncomingMessage): { path: string; query: string } {
  const url = (req as { originalUrl?: string }).originalUrl ?? req.url ?? '';
  const mark = url.indexOf('?');
  return mark < 0 ? { path: url, query: '' } : { path: url.slice(0, mark), query: url.slice(mark + 1) };
}
