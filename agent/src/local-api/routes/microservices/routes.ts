import { z } from 'zod';
import { notSaved } from '../../../domain/agent-error.ts';
import type { LogLine, LogOptions } from '../../../engine-port/logs.ts';
import { isSignal } from '../../../machine/signals.ts';
import { LocalApiError } from '../../server/errors.ts';
import { choice, logFields, logLine, queryFlag, tailOf } from '../../server/fields.ts';
import { collect, mapLines, withTime } from '../../server/lines.ts';
import { type LocalCall, routesWith } from '../../server/route.ts';
import { ACT, type ActingAgent, READ, requireMayAct } from './access.ts';
import { type RemovingAgent, removeMicroservice } from './remove.ts';
import { findMicroservice, inspection, inspectionReply, listItem, listItemReply, type ShownAgent } from './shapes.ts';

/** What the routes of microservices need of the agent. */
export interface MicroserviceDependencies {
  agent: ShownAgent & RunningAgent & RemovingAgent & ActingAgent;
}

interface RunningAgent {
  measureUsage(): Promise<void>;
  readonly volumes: {
    /** Has the next prune take the private volumes of a microservice whatever their age; false while it is wanted. */
    markForCleanup(uuid: string): Promise<boolean>;
  };
  readonly sessions: {
    logs(uuid: string, options: LogOptions & { previous?: boolean }, signal: AbortSignal): AsyncIterable<LogLine>;
  };
  readonly supervisor: {
    readonly local: {
      /** These three return why their effect would not survive the end of the agent. */
      start(uuid: string): string | undefined;
      stop(uuid: string): string | undefined;
      restart(uuid: string): string | undefined;
      kill(uuid: string, posixSignal: string): Promise<void>;
    };
    /** Resolves when the condition holds, or with false when it does not in time. */
    until(condition: () => boolean, milliseconds: number, signal?: AbortSignal): Promise<boolean>;
  };
}

const COMMAND_WAIT = 30_000;

interface Command {
  verb: string;
  /** what the person asks for */
  summary: string;
  /** Carries it out; returns why its effect would not survive the end of the agent. */
  act(local: RunningAgent['supervisor']['local'], uuid: string): string | undefined;
  isDone(now: { state: string; runKey: string }, before: { runKey: string }): boolean;
}

/** Commands that change the state of a microservice, by the last segment of their paths. */
const COMMANDS: Readonly<Record<'start' | 'stop' | 'restart', Command>> = {
  start: {
    verb: 'start',
    summary: 'Starts a microservice',
    act: (local, uuid) => local.start(uuid),
    isDone: ({ state }) => state === 'RUNNING' || state === 'FAILED',
  },
  stop: {
    verb: 'stop',
    summary: 'Stops a microservice, until it is started',
    act: (local, uuid) => local.stop(uuid),
    isDone: ({ state }) => state === 'STOPPED',
  },
  restart: {
    verb: 'restart',
    summary: 'Restarts a microservice',
    act: (local, uuid) => local.restart(uuid),
    isDone: (now, before) => (now.state === 'RUNNING' && now.runKey !== before.runKey) || now.state === 'FAILED',
  },
};

/**
 * Carries out a command and waits until it shows, so that the answer has the new state. A command whose effect the end of the
 * agent would undo fails and says so.
 */
async function carryOut(
  { verb, act, isDone }: Command,
  { params, signal, caller, deps: { agent } }: LocalCall<MicroserviceDependencies, '{id}'>,
) {
  const { id } = findMicroservice(agent, params.id, caller.reach);
  requireMayAct(agent, id, verb);
  const look = () => {
    const status = agent.microservices()?.find((item) => item.id === id);
    return { state: status?.status ?? '', runKey: `${status?.containerId}@${status?.startTime}` };
  };
  const before = look();
  const unsaved = act(agent.supervisor.local, id);
  const settled = await agent.supervisor.until(() => isDone(look(), before), COMMAND_WAIT, signal);
  const state = look().state;
  if (unsaved !== undefined) throw notSaved(`it is ${state} until the agent starts again, and no longer`, unsaved);
  return { status: 'ok' as const, microserviceUuid: id, state, ...(!settled && { warning: `still ${state}` }) };
}

const { route } = routesWith<MicroserviceDependencies>('microservices');

/** Routes of microservices. Longer than a hundred lines: a table, one value per route. */
export const MICROSERVICE_ROUTES = [
  route({
    method: 'GET',
    path: '/v1/ms',
    operation: 'listMicroservices',
    summary: 'The microservices of this machine',
    access: READ,
    query: () =>
      z.object({
        source: choice(
          ['managed', 'local', 'controlplane', 'all'],
          'all',
          'who wants them: a controller, or the machine',
        ),
      }),
    reply: { form: 'bare', schema: () => z.object({ items: z.array(listItemReply()) }) },
    handler: async ({ query: { source }, caller: { reach }, deps: { agent } }) => {
      await agent.measureUsage();
      const items = (agent.microservices() ?? []).filter(({ id }) => source === 'all' || source === agent.sourceOf(id));
      const listed = items.filter(reach).map((item) => listItem(agent, item));
      return { items: listed.sort((a, b) => (a.uuid < b.uuid ? -1 : 1)) };
    },
  }),
  route({
    method: 'GET',
    path: '/v1/ms/{id}',
    operation: 'getMicroservice',
    summary: 'One microservice',
    access: READ,
    query: () => z.object({ summary: queryFlag('as in the list') }),
    errors: [404, 503],
    reply: { form: 'bare', schema: () => z.union([inspectionReply(), listItemReply()]) },
    handler: async ({ params, query: { summary }, caller: { reach }, deps: { agent } }) => {
      await agent.measureUsage();
      const status = findMicroservice(agent, params.id, reach);
      return summary ? listItem(agent, status) : inspection(agent, status);
    },
  }),
  route({
    method: 'DELETE',
    path: '/v1/ms/{id}',
    operation: 'removeMicroservice',
    summary: 'Removes a microservice of the machine, or the container of another one; volumes stay',
    access: { resource: 'microservices', verb: 'delete' },
    query: () =>
      z.object({
        cleanup: queryFlag(
          'the next prune of volumes takes its private ones whatever their age; nothing is deleted now',
        ),
      }),
    errors: [404, 503],
    reply: { form: 'envelope', schema: actedReply },
    handler: async ({ params, query: { cleanup }, signal, caller: { reach, microservice }, deps: { agent } }) => {
      const { id } = findMicroservice(agent, params.id, reach);
      if (cleanup && microservice)
        throw new LocalApiError('FORBIDDEN', "cleanup is about volumes, which are the admin's alone: leave it out");
      const removed = await removeMicroservice(id, agent, signal);
      // A microservice that is still wanted gets no mark: the warning says that it is.
      if (cleanup) await agent.volumes.markForCleanup(id);
      return removed;
    },
  }),
  ...Object.entries(COMMANDS).map(([name, command]) =>
    route({
      method: 'POST',
      path: `/v1/ms/{id}/${name}`,
      operation: `${name}Microservice`,
      summary: command.summary,
      access: ACT,
      errors: [404, 503],
      reply: { form: 'envelope', schema: () => actedReply().extend({ state: z.string() }) },
      handler: (call) => carryOut(command, call),
    }),
  ),
  route({
    method: 'POST',
    path: '/v1/ms/{id}/kill',
    operation: 'killMicroservice',
    summary: 'Sends a signal to the program of a microservice',
    access: ACT,
    body: () => {
      const name = 'the name or the number of a signal, such as SIGTERM or 15';
      return z.object({
        signal: z.string(name).refine(isSignal, name).default('SIGKILL'),
      });
    },
    errors: [404, 409, 503],
    reply: { form: 'envelope', schema: actedReply },
    handler: async ({ params, body: { signal }, caller: { reach }, deps: { agent } }) => {
      const { id } = findMicroservice(agent, params.id, reach);
      requireMayAct(agent, id, 'kill');
      await agent.supervisor.local.kill(id, signal);
      return { status: 'ok', microserviceUuid: id };
    },
  }),
  route({
    method: 'GET',
    path: '/v1/ms/{id}/logs',
    operation: 'getMicroserviceLogs',
    summary: 'The log of a microservice',
    access: READ,
    query: () =>
      z
        .object({
          ...logFields(),
          timestamps: queryFlag('each line begins with its time'),
          previous: queryFlag('the last run that has ended'),
        })
        .refine(({ previous, follow }) => !(previous && follow), {
          path: ['follow'],
          error: 'follow: a former run writes nothing more; leave it out with previous',
        }),
    errors: [404, 409, 503],
    reply: {
      form: 'bare',
      schema: () => z.object({ entries: z.array(logLine()), microserviceUuid: z.string() }),
      line: logLine,
    },
    handler: async ({ params, query, signal, caller: { reach }, deps: { agent } }) => {
      const { id } = findMicroservice(agent, params.id, reach);
      const { since, until, timestamps, follow, previous } = query;
      const lines = agent.sessions.logs(id, { tail: tailOf(query), since, until, follow, previous }, signal);
      const shown = timestamps ? mapLines(lines, withTime) : lines;
      return follow ? shown : { entries: await collect(shown), microserviceUuid: id };
    },
  }),
];

function actedReply() {
  return z.object({ status: z.literal('ok'), microserviceUuid: z.string(), warning: z.string().optional() });
}
