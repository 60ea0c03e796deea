import { randomUUID } from 'node:crypto';
import { notSaved } from '../../domain/agent-error.ts';
import type { LogLine } from '../../domain/engine.ts';
import { ApiError } from '../errors.ts';
import type { Grant } from '../grants.ts';
import { mapLines } from '../lines.ts';
import { readBoolean, readExecQuery, readLogQuery } from '../query.ts';
import { type ApiContext, type ApiReply, type ApiRequest, bare, ok, type Route } from '../route.ts';
import { findMicroservice, inspection, listItem, sourceOf } from '../shapes.ts';

const COMMAND_WAIT = 30_000;

/**
 * Carries out a command and waits until it shows, so that the answer has the new state. A command whose effect the end of the
 * agent would undo fails and says so.
 */
async function carryOut(
  { parameters, signal, reach }: ApiRequest,
  { agent }: ApiContext,
  act: (uuid: string) => string | undefined,
  done: (states: { state: string; runKey: string }, before: { runKey: string }) => boolean,
): Promise<ApiReply> {
  const { id } = findMicroservice(agent, parameters.id ?? '', reach);
  const look = () => {
    const status = agent.microservices()?.find((item) => item.id === id);
    return { state: status?.status ?? '', runKey: `${status?.containerId}@${status?.startTime}` };
  };
  const before = look();
  const unsaved = act(id);
  const settled = await agent.supervisor.until(() => done(look(), before), COMMAND_WAIT, signal);
  const state = look().state;
  if (unsaved !== undefined) throw notSaved(`it is ${state} until the agent starts again, and no longer`, unsaved);
  return ok({ status: 'ok', microserviceUuid: id, state, ...(!settled && { warning: `still ${state}` }) });
}

const READ: Grant = { resource: 'microservices', verb: 'get' };
/** Starting, stopping and the like are POST requests. */
const ACT: Grant = { resource: 'microservices', verb: 'create' };

/** Routes of microservices, under both of their paths. */
export const MICROSERVICE_ROUTES: Route[] = ['/v1/ms', '/v1/microservices'].flatMap((base): Route[] => [
  {
    method: 'GET',
    path: base,
    access: 'admin',
    grant: READ,
    handler: async ({ query, reach }, { agent }) => {
      const source = query.get('source') ?? 'all';
      if (!['managed', 'local', 'controlplane', 'all'].includes(source))
        throw new ApiError('INVALID_ARGUMENT', 'source is managed, local, controlplane or all');
      await agent.measureUsage();
      const items = source === 'all' || source === sourceOf(agent) ? (agent.microservices() ?? []) : [];
      const listed = items.filter(reach).map((item) => listItem(agent, item));
      return bare({ items: listed.sort((a, b) => (String(a.uuid) < String(b.uuid) ? -1 : 1)) });
    },
  },
  {
    method: 'GET',
    path: `${base}/{id}`,
    access: 'admin',
    grant: READ,
    handler: async ({ parameters, query, reach }, { agent }) => {
      await agent.measureUsage();
      const status = findMicroservice(agent, parameters.id ?? '', reach);
      return bare(readBoolean(query, 'summary') ? listItem(agent, status) : inspection(agent, status));
    },
  },
  {
    method: 'DELETE',
    path: `${base}/{id}`,
    access: 'admin',
    grant: { resource: 'microservices', verb: 'delete' },
    handler: async ({ parameters, reach }, { agent }) => {
      const { id } = findMicroservice(agent, parameters.id ?? '', reach);
      await agent.supervisor.local.remove(id);
      const isWanted = agent.supervisor.desired?.some(({ uuid }) => uuid === id);
      const warning = agent.supervisor.record(id)?.stoppedLocally
        ? 'it was stopped here, so its container is made when it is started'
        : 'it is still wanted here: its container is made again';
      return ok({ status: 'ok', microserviceUuid: id, ...(isWanted && { warning }) });
    },
  },
  {
    method: 'POST',
    path: `${base}/{id}/start`,
    access: 'admin',
    grant: ACT,
    handler: (request, context) =>
      carryOut(
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
    grant: ACT,
    handler: (request, context) =>
      carryOut(
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
    grant: ACT,
    handler: (request, context) =>
      carryOut(
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
    grant: ACT,
    handler: async (request, context) => {
      const { signal = 'SIGKILL' } = await request.body();
      if (typeof signal !== 'string' || !/^(SIG)?[A-Z0-9+-]{1,16}$/.test(signal))
        throw new ApiError('INVALID_ARGUMENT', 'signal is the name of a signal', { field: 'signal' });
      const { id } = findMicroservice(context.agent, request.parameters.id ?? '', request.reach);
      await context.agent.supervisor.local.kill(id, signal);
      return ok({ status: 'ok', microserviceUuid: id });
    },
  },
  {
    method: 'GET',
    path: `${base}/{id}/logs`,
    access: 'admin',
    grant: READ,
    handler: async ({ parameters, query, signal, reach }, { agent }) => {
      const { id } = findMicroservice(agent, parameters.id ?? '', reach);
      const { tail, since, until } = readLogQuery(query);
      const timestamps = readBoolean(query, 'timestamps');
      const follow = readBoolean(query, 'follow');
      const previous = readBoolean(query, 'previous');
      if (previous && follow)
        throw new ApiError('INVALID_ARGUMENT', 'follow: a former run writes nothing more; leave it out with previous', {
          field: 'follow',
        });
      const lines = agent.logs(id, { tail, since, until, follow, previous }, signal);
      const shown = mapLines(lines, (entry) => (timestamps ? { ...entry, line: `${entry.ts} ${entry.line}` } : entry));
      if (follow) return { kind: 'lines', lines: shown };
      const entries: LogLine[] = [];
      for await (const entry of shown) entries.push(entry);
      return bare({ entries, microserviceUuid: id });
    },
  },
  {
    method: 'GET',
    path: `${base}/{id}/exec`,
    // No role grants it: a microservice that enters another one would be that one.
    access: 'admin',
    connect: async ({ parameters, query, reach }, { agent }, take) => {
      const { id: microservice } = findMicroservice(agent, parameters.id ?? '', reach);
      await agent.exec({ id: randomUUID(), microservice, ...readExecQuery(query) }, take);
    },
    handler: () => {
      throw new ApiError('INVALID_ARGUMENT', 'an exec session is a WebSocket: ask for an upgrade');
    },
  },
]);
