import { z } from 'zod';
import { readableItems } from './readable-items.ts';

/**
 * What both ends of an exec or log session agree on besides the form of a frame (docs/spec/sessions.md): bounds, close codes,
 * the lists from which an agent learns of sessions, and the JSON in frames.
 */

/** Codes with which sockets of sessions are closed. */
export const CLOSE_CODES = {
  /** the session ended: by the user, by the agent, or with its program */
  ended: 1000,
  /** the replica shuts down: connect again */
  goingAway: 1001,
  /** a message that is no frame */
  protocol: 1002,
  /** refused, not found, not running, over a quota, or out of time */
  refused: 1008,
  /** a message over the limit */
  tooBig: 1009,
  /** the other replica cannot be reached: try again later */
  tryAgainLater: 1013,
} as const;
export type CloseCode = (typeof CLOSE_CODES)[keyof typeof CLOSE_CODES];

/** How many sessions of one kind a microservice, or a node for its own logs, can have at once. */
export const SESSIONS_PER_TARGET = 5;

/** How many sessions of both kinds a user can have at once on one node. */
export const SESSIONS_PER_USER = 10;

/** Times of sessions, in ms. */
export const SESSION_TIMES = {
  /** until the agent has connected */
  pending: { exec: 60_000, log: 120_000 },
  /** until the agent has connected again after its connection was lost */
  resume: 60_000,
  /** without a line, of a log that is not followed from an agent that does not say where it ends */
  quiet: 5_000,
  /** without a frame from either side */
  idle: { exec: 8 * 3_600_000, log: 2 * 3_600_000 },
  /** between two pings of the controller */
  ping: 30_000,
  /** until the other side has answered a close frame */
  close: 5_000,
  /** until the other side has taken what was sent before a close frame */
  linger: 600_000,
} as const;

export const LOG_TAIL = { least: 1, most: 5_000, usual: 100 } as const;

/** Bounds of the command of an exec session. */
const EXEC_COMMAND = { arguments: 64, bytes: 8_192 } as const;

/** Why this cannot be the command of an exec session; undefined for one that can. Without arguments it is a shell. */
export function commandProblem(command: readonly string[]): string | undefined {
  const bytes = command.reduce((sum, one) => sum + Buffer.byteLength(one), 0);
  if (command.length > EXEC_COMMAND.arguments)
    return `command: ${EXEC_COMMAND.arguments} arguments at most, not ${command.length}`;
  if (bytes > EXEC_COMMAND.bytes) return `command: ${EXEC_COMMAND.bytes} bytes at most, not ${bytes}`;
  if (command.some((one) => one.includes('\0'))) return 'command: an argument has a NUL in it';
  return command[0] === '' ? 'command: the program is empty' : undefined;
}

/** Which lines a log session has. */
const tailSchema = z.object({
  lines: z.number().int().min(LOG_TAIL.least).max(LOG_TAIL.most),
  follow: z.boolean(),
  /** RFC 3339, inclusive */
  since: z.string().max(64).optional(),
  until: z.string().max(64).optional(),
  /** ours: of the last run of the container that has ended */
  previous: z.boolean().optional(),
});
export type TailConfig = z.infer<typeof tailSchema>;

const sessionBase = {
  sessionId: z.string().min(1).max(128),
  /** ACTIVE from the agent's first connection on */
  status: z.enum(['PENDING', 'ACTIVE']),
  /** false: the agent is to connect */
  agentConnected: z.boolean(),
};

/** One session in the response of `GET /agent/exec/sessions`. A session that the list does not name is over. */
const execSessionSchema = z.object({
  ...sessionBase,
  microserviceUuid: z.string().max(64),
  /** ours: the command; a shell when absent */
  command: z.array(z.string().max(EXEC_COMMAND.bytes)).max(EXEC_COMMAND.arguments).optional(),
  /** ours: whether the program gets a terminal */
  tty: z.boolean().optional(),
});
export type ExecSessionView = z.infer<typeof execSessionSchema>;

/** One session in the response of `GET /agent/logs/sessions`: of a microservice, or of the node itself. */
const logSessionSchema = z.object({
  ...sessionBase,
  microserviceUuid: z.string().max(64).nullable(),
  iofogUuid: z.string().max(64).nullable(),
  tailConfig: tailSchema,
});
export type LogSessionView = z.infer<typeof logSessionSchema>;

/** Sessions that one list can have. */
const LISTED = 1_000;

/** A list; sessions that this version cannot read are left out. */
const listOf = <T>(session: z.ZodType<T>) => z.array(z.unknown()).max(LISTED).transform(readableItems(session));

export const execSessionsSchema = z.object({ execSessions: listOf(execSessionSchema) });
export const logSessionsSchema = z.object({ logSessions: listOf(logSessionSchema) });

/** What an agent reads of the JSON in ACTIVATION and LOG_START. */
export const startSchema = z.object({ resumed: z.boolean().optional() });

/** JSON in ACTIVATION; the agent gets `execId` and `timestamp` too. */
export interface Activation {
  sessionId: string;
  microserviceUuid: string;
  execId?: string;
  timestamp?: number;
  /** ours: the agent connected again, and continues with the program that runs */
  resumed?: boolean;
}

/** JSON in LOG_START; `resumed` as in ACTIVATION: the agent continues after the last line that it sent. */
export interface LogStart {
  sessionId: string;
  tailConfig: TailConfig;
  resumed?: boolean;
}

/**
 * What a CONTROL frame says; third-party agents and clients ignore what they do not know. `keepalive` and `close` are plain
 * texts in v3, the others JSON of ours.
 */
export type Control =
  | { keepalive: true }
  | { close: true }
  /** from the user: the size of the terminal */
  | { resize: { cols: number; rows: number } }
  /** from the user: standard input has ended */
  | { stdinClosed: true }
  /** from the agent: the program has ended */
  | { exitCode: number };

const size = z.number().int().min(1).max(65_535);
const controlSchema = z.union([
  z.object({ resize: z.object({ cols: size, rows: size }) }),
  z.object({ stdinClosed: z.literal(true) }),
  z.object({
    exitCode: z
      .number()
      .int()
      .min(-1)
      .max(2 ** 31 - 1),
  }),
]);

/** Bytes of CONTROL; a longer one is of another version. */
const CONTROL_BYTES = 1_024;

/** Undefined for what this version does not know. */
export function readControl(data: Uint8Array): Control | undefined {
  if (data.length > CONTROL_BYTES) return undefined;
  const text = Buffer.from(data.buffer, data.byteOffset, data.length).toString('utf8').trim();
  if (text === 'keepalive') return { keepalive: true };
  if (text === 'close') return { close: true };
  if (!text.startsWith('{')) return undefined;
  try {
    return controlSchema.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

export function writeControl(control: Control): Uint8Array {
  if ('keepalive' in control) return Buffer.from('keepalive');
  return Buffer.from('close' in control ? 'close' : JSON.stringify(control));
}
