import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { UpgradeRequest } from '../../../../../src/lib/web-socket/handshake.ts';
import { commandProblem } from '../../../../../src/wire/sessions.ts';
import type { LogLine, LogOptions } from '../../../engine-port/logs.ts';
import { logRange, optionalFlag, queryFlag, tailOf } from '../../server/fields.ts';
import { mapLines, withTime } from '../../server/lines.ts';
import { routesWith } from '../../server/route.ts';
import { READ } from './access.ts';
import { findMicroservice, type ShownAgent } from './shapes.ts';

/** What the routes of sessions need of the agent. */
export interface SessionDependencies {
  agent: ShownAgent & { readonly sessions: RunningSessions };
}

interface RunningSessions {
  /** Begins an exec session, over the connection that `take` gives. */
  exec(
    session: { id: string; microservice: string; command?: readonly string[]; tty?: boolean },
    take: () => UpgradeRequest,
  ): Promise<void>;
  execs(): Promise<ExecSessions>;
  /** Gives an exec session its client, over the connection that `take` gives. */
  attach(id: string, microservice: string, take: () => UpgradeRequest): Promise<void>;
  logs(uuid: string, options: LogOptions, signal: AbortSignal): AsyncIterable<LogLine>;
  /** Sends a log over the connection that `take` gives. */
  streamLog(
    log: { reader: string; lines: (signal: AbortSignal) => AsyncIterable<LogLine> },
    take: () => UpgradeRequest,
  ): Promise<void>;
}

/** Exec sessions with ids, each of one microservice. */
interface ExecSessions {
  create(asked: AskedExec, signal: AbortSignal): Promise<{ expiresAt: number; status: 'ACTIVE' | 'PENDING' }>;
  status(id: string, microservice: string): { running: boolean; exitCode: number | null };
  stop(id: string, microservice: string): Promise<void>;
}

interface AskedExec {
  id: string;
  microservice: string;
  command: readonly string[];
  tty: boolean;
  stdin: boolean;
  stdout: boolean;
  stderr: boolean;
  size?: { cols: number; rows: number };
}

const { route, socket } = routesWith<SessionDependencies>('sessions');

const SESSION = '/v1/ms/{id}/exec/sessions/{sessionId}';

/**
 * Routes of exec sessions and log streams. No role grants the former: a microservice that enters another one would be that one. Longer than
 * a hundred lines: a table, one value per route.
 */
export const SESSION_ROUTES = [
  socket({
    method: 'GET',
    path: '/v1/ms/{id}/exec',
    operation: 'openExecSession',
    summary: 'Runs a program in the container of a microservice',
    access: 'admin',
    query: () =>
      z.object({
        command: z
          .array(z.string())
          .superRefine(checkCommand)
          .optional()
          .describe('once for each argument; a shell where it is absent'),
        tty: optionalFlag('with a terminal; where it is absent, a shell has one'),
      }),
    errors: [404, 503],
    socket: 'an exec session',
    connect: async ({ params, query: { command, tty }, caller: { reach }, deps: { agent } }, take) => {
      const { id: microservice } = findMicroservice(agent, params.id, reach);
      await agent.sessions.exec({ id: randomUUID(), microservice, command, tty }, take);
    },
  }),
  route({
    method: 'POST',
    path: '/v1/ms/{id}/exec/sessions',
    operation: 'createExecSession',
    summary: 'Starts a program in the container of a microservice, to attach to',
    access: 'admin',
    body: () =>
      z
        .object({
          command: z.array(z.string()).min(1).superRefine(checkCommand).describe('the program and its arguments'),
          tty: z.boolean().default(true).describe('with a terminal'),
          stdin: z.boolean().default(true).describe('false: its input has ended at once'),
          stdout: z.boolean().default(true),
          stderr: z.boolean().default(true),
          cols: size().describe('of the terminal, with `rows`'),
          rows: size(),
        })
        .refine(({ cols, rows }) => (cols === undefined) === (rows === undefined), {
          path: ['cols'],
          error: 'cols: with rows, or without both',
        }),
    errors: [404, 409, 503, 504],
    reply: {
      form: 'envelope',
      schema: () =>
        z.object({
          sessionId: z.string(),
          wsUrl: z.string().describe('the path of the WebSocket, on this socket'),
          expiresAt: z.string().describe('the session ends unless a client has attached by then'),
          status: z.enum(['ACTIVE', 'PENDING']).describe('ACTIVE: a terminal, whose program runs'),
        }),
    },
    handler: async ({ params, body, signal, caller: { reach }, deps: { agent } }) => {
      const { id: microservice } = findMicroservice(agent, params.id, reach);
      const { cols, rows, ...asked } = body;
      const size = cols !== undefined && rows !== undefined ? { size: { cols, rows } } : {};
      const id = randomUUID();
      const execs = await agent.sessions.execs();
      const { expiresAt, status } = await execs.create({ ...asked, ...size, id, microservice }, signal);
      return {
        sessionId: id,
        wsUrl: `/v1/ms/${microservice}/exec/sessions/${id}:attach`,
        expiresAt: new Date(expiresAt).toISOString(),
        status,
      };
    },
  }),
  route({
    method: 'GET',
    path: SESSION,
    operation: 'getExecSession',
    summary: 'Whether the program of an exec session runs, and how it ended',
    access: 'admin',
    errors: [404, 503],
    reply: {
      form: 'envelope',
      schema: () =>
        z.object({
          sessionId: z.string(),
          microserviceUuid: z.string(),
          running: z.boolean(),
          exitCode: z.number().nullable(),
        }),
    },
    handler: async ({ params: { id, sessionId }, caller: { reach }, deps: { agent } }) => {
      const { id: microserviceUuid } = findMicroservice(agent, id, reach);
      return { sessionId, microserviceUuid, ...(await agent.sessions.execs()).status(sessionId, microserviceUuid) };
    },
  }),
  route({
    method: 'DELETE',
    path: SESSION,
    operation: 'stopExecSession',
    summary: 'Ends an exec session and its program',
    access: 'admin',
    errors: [404, 503],
    reply: { form: 'envelope', schema: () => z.object({ status: z.literal('ok'), sessionId: z.string() }) },
    handler: async ({ params: { id, sessionId }, caller: { reach }, deps: { agent } }) => {
      const { id: microservice } = findMicroservice(agent, id, reach);
      await (await agent.sessions.execs()).stop(sessionId, microservice);
      return { status: 'ok', sessionId };
    },
  }),
  socket({
    method: 'GET',
    path: `${SESSION}:attach`,
    operation: 'attachExecSession',
    summary: 'Input and output of the program of an exec session',
    access: 'admin',
    errors: [404, 409, 503],
    socket: 'the client of an exec session',
    connect: async ({ params: { id, sessionId }, caller: { reach }, deps: { agent } }, take) => {
      const { id: microservice } = findMicroservice(agent, id, reach);
      await agent.sessions.attach(sessionId, microservice, take);
    },
  }),
  socket({
    method: 'GET',
    path: '/v1/ms/{id}/logs:stream',
    operation: 'streamMicroserviceLogs',
    summary: 'The log of a microservice, as it is written',
    access: READ,
    query: () => z.object({ ...logRange(50), timestamps: queryFlag('each line begins with its time') }),
    errors: [404, 409, 503],
    socket: 'a log',
    connect: async ({ params, query, caller: { reach, microservice }, deps: { agent } }, take) => {
      const { id } = findMicroservice(agent, params.id, reach);
      const { since, until, timestamps } = query;
      const options = { tail: tailOf(query, 50), since, until, follow: true };
      const lines = (signal: AbortSignal) => {
        const log = agent.sessions.logs(id, options, signal);
        return timestamps ? mapLines(log, withTime) : log;
      };
      await agent.sessions.streamLog({ reader: microservice, lines }, take);
    },
  }),
];

function checkCommand(
  command: readonly string[],
  { addIssue }: { addIssue(issue: { code: 'custom'; message: string }): void },
) {
  const message = commandProblem(command);
  if (message !== undefined) addIssue({ code: 'custom', message });
}

function size() {
  const wanted = 'a whole number from 1 to 65535';
  return z.int(wanted).min(1, wanted).max(65_535, wanted).optional();
}
