import type { IncomingMessage } from 'node:http';
import type { MicroserviceView } from '../../../src/wire/agent.ts';
import type { Agent } from '../app.ts';
import { AgentError } from '../domain/agent-error.ts';
import type { Engine, LogLine } from '../domain/engine.ts';
import { AGENT_VERSION } from '../domain/names.ts';
import type { LogBuffer, LogEntry } from '../system/log.ts';
import type { ControlChannels } from './control-channels.ts';
import { ApiError } from './errors.ts';
import { metricsPage } from './metrics-page.ts';
import {
  activeConfig,
  daemonInfo,
  daemonStatus,
  findMicroservice,
  inspection,
  listItem,
  nameOf,
  sourceOf,
} from './shapes.ts';
import type { WebSocketConnection } from './websocket.ts';

/** What the routes work with. */
export interface ApiContext {
  agent: Agent;
  engine: Engine;
  logs: LogBuffer;
  /** Writes settings to the file and says what was refused. */
  changeSettings(set: Record<string, unknown>): { errorMap: Record<string, string>; restartNeeded: string[] };
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
  subject: string;
  /** uuid of the microservice that asks; none where it is the admin */
  microservice: string;
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
  /** answers who asks for a WebSocket; others get the handler's answer */
  connect?(request: ApiRequest, context: ApiContext, open: () => WebSocketConnection): void;
  handler(request: ApiRequest, context: ApiContext): Promise<ApiReply> | ApiReply;
}

const ok = (data: unknown = {}): ApiReply => ({ kind: 'envelope', data });
const bare = (data: unknown, status?: number): ApiReply => ({ kind: 'bare', data, status });

const PROBES: Route[] = ['', '/v1'].flatMap((prefix): Route[] => [
  {
    method: 'GET',
    path: `${prefix}/health/live`,
    access: 'open',
    handler: (_request, { phase }) => bare({ status: 'ok', localApiPhase: phase() }),
  },
  {
    method: 'GET',
    path: `${prefix}/health/ready`,
    access: 'open',
    handler: (_request, { agent }) => {
      const { engine } = agent.supervisor;
      if (engine.state === 'connected') return bare({ status: 'ready' });
      return bare({ status: 'not_ready', reason: 'engine', detail: engine.error ?? engine.state }, 503);
    },
  },
  {
    method: 'GET',
    path: `${prefix}/metrics`,
    access: 'open',
    handler: async (_request, { agent }) => ({
      kind: 'text',
      text: await metricsPage(agent),
      type: 'text/plain; version=0.0.4',
    }),
  },
]);

const SYSTEM: Route[] = [
  {
    method: 'GET',
    path: '/v1/system/status',
    access: 'admin',
    handler: async (_request, { agent }) => bare(await daemonStatus(agent)),
  },
  { method: 'GET', path: '/v1/system/info', access: 'admin', handler: (_request, { agent }) => ok(daemonInfo(agent)) },
  {
    method: 'GET',
    path: '/v1/system/version',
    access: 'admin',
    handler: (_request, { agent }) =>
      bare({
        version: AGENT_VERSION,
        buildTime: '',
        gitCommit: '',
        allowedContainerEngine: agent.config.containerEngine ?? 'docker',
        allowedEngines: ['docker'],
      }),
  },
  {
    method: 'POST',
    path: '/v1/system/provision',
    access: 'admin',
    handler: async ({ body, signal }, { agent }) => {
      const { provisioningKey } = await body();
      if (typeof provisioningKey !== 'string' || provisioningKey === '')
        throw new ApiError('INVALID_ARGUMENT', 'provisioningKey is required', { field: 'provisioningKey' });
      const node = await agent.provision(provisioningKey, signal);
      return ok({ status: 'ok', agentUuid: node.uuid, name: node.name, controllerUrl: node.controllerUrl });
    },
  },
  {
    method: 'DELETE',
    path: '/v1/system/provision',
    access: 'admin',
    handler: async ({ query, signal }, { agent }) => {
      const scope = query.get('scope') ?? 'all';
      if (scope !== 'all' && scope !== 'local') throw new ApiError('INVALID_ARGUMENT', 'scope is all or local');
      if (readBoolean(query, 'purgeVolumes'))
        throw new ApiError('NOT_IMPLEMENTED', 'volumes cannot be purged by this version; remove them by hand');
      const { controllerTold } = await agent.deprovision(scope);
      // Done is what is done: with the answer the machine is clear, or the answer says what is left.
      const remaining = scope === 'all' ? await agent.cleared(signal) : [];
      return ok({ status: 'ok', controllerTold, remaining: remaining.map((id) => nameOf(agent, id)) });
    },
  },
  {
    method: 'POST',
    path: '/v1/system/reload',
    access: 'admin',
    handler: (_request, { reload }) => {
      reload();
      return ok({ status: 'ok' });
    },
  },
  {
    method: 'POST',
    path: '/v1/system/stop',
    access: 'admin',
    handler: (_request, { stop }) => {
      stop();
      return ok({ status: 'ok' });
    },
  },
  {
    method: 'POST',
    path: '/v1/system/prune',
    access: 'admin',
    handler: async ({ query }, { agent }) => {
      const mode = query.get('mode') ?? 'dangling';
      if (!['dangling', 'containers', 'volumes', 'all'].includes(mode))
        throw new ApiError('INVALID_ARGUMENT', 'mode is dangling, containers, volumes or all');
      const removed = mode === 'dangling' || mode === 'all' ? await agent.prune() : [];
      const deleted = removed.map(({ reference }) => reference);
      const message = mode === 'volumes' ? 'Volumes are never pruned here' : 'Only images that this agent pulled';
      return ok({ status: 'ok', mode, deleted, deletedCount: deleted.length, spaceReclaimedBytes: 0, message });
    },
  },
  {
    method: 'GET',
    path: '/v1/system/orphans',
    access: 'admin',
    handler: async ({ signal }, { agent }) => bare({ items: await agent.orphans(signal) }),
  },
  {
    method: 'DELETE',
    path: '/v1/system/orphans',
    access: 'admin',
    handler: async ({ query, signal }, { agent }) =>
      ok({ status: 'ok', removed: await agent.removeOrphans(query.getAll('name'), signal) }),
  },
  {
    method: 'GET',
    path: '/v1/system/logs',
    access: 'admin',
    handler: ({ query, signal }, { logs }) => {
      const { tail, since = -Infinity, until = Infinity } = readLogQuery(query);
      const asked = ({ timestamp }: LogEntry) => Date.parse(timestamp) >= since && Date.parse(timestamp) <= until;
      const line = (entry: LogEntry) => ({ ts: entry.timestamp, stream: 'stdout', line: JSON.stringify(entry) });
      const entries = logs.entries.filter(asked).slice(-tail).map(line);
      if (!readBoolean(query, 'follow')) return bare({ entries });
      return { kind: 'lines', lines: joined(entries, mapLines(logs.follow(signal), line)) };
    },
  },
  {
    method: 'GET',
    path: '/v1/system/config',
    access: 'admin',
    handler: (_request, { agent }) => bare(activeConfig(agent)),
  },
  {
    method: 'PATCH',
    path: '/v1/system/config',
    access: 'admin',
    handler: async ({ body }, { changeSettings }) => {
      const { set } = await body();
      if (set === null || typeof set !== 'object' || Array.isArray(set) || Object.keys(set).length === 0)
        throw new ApiError('INVALID_ARGUMENT', 'set names at least one setting', { field: 'set' });
      const { errorMap, restartNeeded } = changeSettings(set as Record<string, unknown>);
      if (Object.keys(errorMap).length === Object.keys(set).length)
        throw new ApiError('INVALID_ARGUMENT', `nothing was changed: ${reasonsOf(errorMap)}`, { errorMap });
      return ok({
        status: 'ok',
        errorMap,
        ...(restartNeeded.length > 0 && {
          pendingRestart: true,
          message: `Restart the agent for: ${restartNeeded.join(', ')}`,
        }),
      });
    },
  },
  {
    method: 'GET',
    path: '/v1/auth/whoami',
    access: 'admin',
    handler: ({ subject }) => bare({ subject, tokenType: 'Bearer' }),
  },
];

/** What a workload reads of itself. */
const OWN: Route[] = [
  {
    method: 'GET',
    path: '/v1/microservices/config',
    access: 'workload',
    handler: ({ microservice }, { agent }) =>
      ok({ microserviceUuid: microservice, config: jsonOrText(ownView(agent, microservice).config) }),
  },
  {
    method: 'GET',
    path: '/v1/microservices/control',
    access: 'workload',
    connect: ({ microservice }, { agent, channels }, open) => {
      ownView(agent, microservice);
      channels.add(microservice, open());
    },
    handler: () => {
      throw new ApiError('INVALID_ARGUMENT', 'the control channel is a WebSocket: ask for an upgrade');
    },
  },
];

function ownView(agent: Agent, uuid: string): MicroserviceView {
  const view = agent.view(uuid);
  if (!view) throw new ApiError('NOT_FOUND', 'this microservice is not wanted on this node any more');
  return view;
}

function jsonOrText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

const WAIT_FOR_ORDER = 30_000;

/** Gives an order and waits until it shows, so that whoever gave it sees what came of it. */
async function order(
  { parameters, signal }: ApiRequest,
  { agent }: ApiContext,
  give: (uuid: string) => void | Promise<void>,
  done: (states: { state: string; runKey: string }, before: { runKey: string }) => boolean,
): Promise<ApiReply> {
  const { id } = findMicroservice(agent, parameters.id ?? '');
  const look = () => {
    const status = agent.microservices()?.find((item) => item.id === id);
    return { state: status?.status ?? '', runKey: `${status?.containerId}@${status?.startTime}` };
  };
  const before = look();
  await give(id);
  const settled = await agent.supervisor.until(() => done(look(), before), WAIT_FOR_ORDER, signal);
  const state = look().state;
  return ok({ status: 'ok', microserviceUuid: id, state, ...(!settled && { warning: `still ${state}` }) });
}

const MICROSERVICES: Route[] = ['/v1/ms', '/v1/microservices'].flatMap((base): Route[] => [
  {
    method: 'GET',
    path: base,
    access: 'admin',
    handler: async ({ query }, { agent }) => {
      const source = query.get('source') ?? 'all';
      if (!['managed', 'local', 'controlplane', 'all'].includes(source))
        throw new ApiError('INVALID_ARGUMENT', 'source is managed, local, controlplane or all');
      await agent.measureUsage();
      const items = source === 'all' || source === sourceOf(agent) ? (agent.microservices() ?? []) : [];
      const listed = items.map((item) => listItem(agent, item));
      return bare({ items: listed.sort((a, b) => (String(a.uuid) < String(b.uuid) ? -1 : 1)) });
    },
  },
  {
    method: 'GET',
    path: `${base}/{id}`,
    access: 'admin',
    handler: async ({ parameters, query }, { agent }) => {
      await agent.measureUsage();
      const status = findMicroservice(agent, parameters.id ?? '');
      return bare(readBoolean(query, 'summary') ? listItem(agent, status) : inspection(agent, status));
    },
  },
  {
    method: 'DELETE',
    path: `${base}/{id}`,
    access: 'admin',
    handler: async ({ parameters }, { agent }) => {
      const { id } = findMicroservice(agent, parameters.id ?? '');
      await agent.supervisor.local.remove(id);
      const wanted = agent.supervisor.desired?.some(({ uuid }) => uuid === id);
      const warning = wanted ? 'it is still wanted here: its container is made again' : undefined;
      return ok({ status: 'ok', microserviceUuid: id, warning });
    },
  },
  {
    method: 'POST',
    path: `${base}/{id}/start`,
    access: 'admin',
    handler: (request, context) =>
      order(
        request,
        context,
        (uuid) => context.agent.supervisor.local.start(uuid),
        ({ state }) => state === 'RUNNING' || state === 'FAILED',
      ),
  },
  {
    method: 'POST',
    path: `${base}/{id}/stop`,
    access: 'admin',
    handler: (request, context) =>
      order(
        request,
        context,
        (uuid) => context.agent.supervisor.local.stop(uuid),
        ({ state }) => state === 'STOPPED',
      ),
  },
  {
    method: 'POST',
    path: `${base}/{id}/restart`,
    access: 'admin',
    handler: (request, context) =>
      order(
        request,
        context,
        (uuid) => context.agent.supervisor.local.restart(uuid),
        (now, before) => (now.state === 'RUNNING' && now.runKey !== before.runKey) || now.state === 'FAILED',
      ),
  },
  {
    method: 'POST',
    path: `${base}/{id}/kill`,
    access: 'admin',
    handler: async (request, context) => {
      const { signal = 'SIGKILL' } = await request.body();
      if (typeof signal !== 'string' || !/^(SIG)?[A-Z0-9+-]{1,16}$/.test(signal))
        throw new ApiError('INVALID_ARGUMENT', 'signal is the name of a signal', { field: 'signal' });
      const { id } = findMicroservice(context.agent, request.parameters.id ?? '');
      await context.agent.supervisor.local.kill(id, signal);
      return ok({ status: 'ok', microserviceUuid: id });
    },
  },
  {
    method: 'GET',
    path: `${base}/{id}/logs`,
    access: 'admin',
    handler: async ({ parameters, query, signal }, { agent, engine }) => {
      const { id, containerId } = findMicroservice(agent, parameters.id ?? '');
      const { tail, since, until } = readLogQuery(query);
      const timestamps = readBoolean(query, 'timestamps');
      if (!containerId) return bare({ entries: [], microserviceUuid: id });
      const follow = readBoolean(query, 'follow');
      const lines = engine.logs(containerId, { tail, since, until, follow }, signal);
      const shown = mapLines(lines, (entry) => (timestamps ? { ...entry, line: `${entry.ts} ${entry.line}` } : entry));
      if (follow) return { kind: 'lines', lines: shown };
      const entries: LogLine[] = [];
      for await (const entry of shown) entries.push(entry);
      return bare({ entries, microserviceUuid: id });
    },
  },
]);

/** Routes that answer 501 (docs/spec/agent-local-api.md#routes-that-are-not-built). */
const LATER: readonly [RegExp, string][] = [
  [/^\/v1\/(images|models|knowledge|volumes|deploy)(\/|:|$)/, 'this part of the local API'],
  [/^\/v1\/system\/(controlplane|controller|gps|logs:stream|config\/switch)/, 'this part of the local API'],
  [/^\/v1\/(ms|microservices)\/[^/]+\/(exec|logs:stream)/, 'exec and log streams'],
  [/^\/v1\/auth\/tokens/, 'token management'],
];

/** Why a path that no route has is not there. */
export function unrouted(path: string): ApiError {
  const later = LATER.find(([pattern]) => pattern.test(path));
  if (later) return new ApiError('NOT_IMPLEMENTED', `this version of the agent does not have ${later[1]} yet`);
  return new ApiError('NOT_FOUND', `no route ${path}`);
}

/** The local API: an array of routes is the router. */
export const ROUTES: readonly Route[] = [...PROBES, ...SYSTEM, ...OWN, ...MICROSERVICES];

/** Errors of other layers, in the words of the local API. */
export function toApiError(error: unknown): ApiError | undefined {
  if (error instanceof ApiError) return error;
  if (error instanceof AgentError) return new ApiError(error.code, error.message);
  return undefined;
}

async function* joined<T>(first: readonly T[], then: AsyncIterable<T>): AsyncGenerator<T> {
  yield* first;
  yield* then;
}

async function* mapLines<T, U>(lines: AsyncIterable<T>, change: (line: T) => U): AsyncGenerator<U> {
  for await (const line of lines) yield change(line);
}

function reasonsOf(errorMap: Record<string, string>): string {
  return Object.entries(errorMap)
    .map(([name, text]) => `${name}: ${text}`)
    .join('; ');
}

function readLogQuery(query: URLSearchParams): { tail: number; since?: number; until?: number } {
  const tail = Number(query.get('tailLines') ?? query.get('tail') ?? 100);
  if (!Number.isInteger(tail) || tail < 1 || tail > 5000)
    throw new ApiError('INVALID_ARGUMENT', 'tailLines is a whole number from 1 to 5000', { field: 'tailLines' });
  return { tail, since: readTime(query, 'since'), until: readTime(query, 'until') };
}

function readTime(query: URLSearchParams, name: string): number | undefined {
  const text = query.get(name);
  if (text === null || text === '') return undefined;
  const value = Date.parse(text);
  if (Number.isNaN(value)) throw new ApiError('INVALID_ARGUMENT', `${name} is not a date and time`, { field: name });
  return value;
}

const BOOLEANS: ReadonlyMap<string, boolean> = new Map([
  ['', false],
  ['false', false],
  ['0', false],
  ['no', false],
  ['true', true],
  ['1', true],
  ['yes', true],
]);

function readBoolean(query: URLSearchParams, name: string): boolean {
  const value = BOOLEANS.get((query.get(name) ?? '').toLowerCase());
  if (value === undefined) throw new ApiError('INVALID_ARGUMENT', `${name} is true or false`, { field: name });
  return value;
}
