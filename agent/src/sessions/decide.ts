import type { ExecSessionView, LogSessionView, TailConfig } from '../../../src/wire/sessions.ts';
import type { Policy } from '../domain/policy.ts';

/** A session as the controller lists it. */
export type Listed = { id: string; agentConnected: boolean; path: string } & (
  | { kind: 'exec'; microservice: string; command?: readonly string[]; tty?: boolean }
  /** without a microservice: of the agent itself */
  | { kind: 'log'; microservice?: string; node?: string; tail: TailConfig }
);

/** A session that this agent has begun. */
export interface Present {
  id: string;
  kind: Listed['kind'];
  /** when its socket was opened; undefined while it has none */
  connectedAt: number | undefined;
  /** it has ended here, and the controller may not have noticed yet */
  isOver: boolean;
}

export interface SessionDecision {
  /** to be begun, or only to be answered with a refusal */
  begin: { session: Listed; refusal: string | undefined }[];
  /** the controller does not have the socket that this agent has */
  reconnect: string[];
  /** over, or no longer allowed: then with a reason */
  end: { id: string; refusal: string | undefined }[];
}

/** Sessions at once, of both kinds. */
export const SESSION_LIMIT = 50;
/** Of these, kept for microservices of the system and for users on the machine. */
export const KEPT_SESSIONS = 5;

/** Why no further session begins beside so many. */
export function limitRefusal(count: number, isKept: boolean): string | undefined {
  if (count >= SESSION_LIMIT) return `the node has ${count} sessions, which is the limit`;
  if (isKept || count < SESSION_LIMIT - KEPT_SESSIONS) return undefined;
  return `the node has ${count} sessions, and keeps the last ${KEPT_SESSIONS} for the system and the machine: end others first`;
}

/**
 * Which sessions begin, connect again and end, by the list that was asked for at a time: what has happened here since then
 * is not in it. `others`: sessions that no controller lists, which count against the limit. `isSystem`: whether a microservice
 * belongs to the system. `isOwn`: whether it belongs to the machine itself, of which no controller learns.
 */
export function decide(
  listed: readonly Listed[],
  present: readonly Present[],
  {
    askedAt,
    policy,
    others,
    isSystem,
    isOwn,
  }: {
    askedAt: number;
    policy: Pick<Policy, 'exec' | 'logs'>;
    others: number;
    isSystem: (microservice: string) => boolean;
    isOwn: (microservice: string) => boolean;
  },
): SessionDecision {
  const ownRefusal = (session: Listed | undefined) =>
    session?.microservice !== undefined && isOwn(session.microservice)
      ? 'this microservice belongs to its machine, and not to a controller'
      : undefined;
  const decision: SessionDecision = { begin: [], reconnect: [], end: [] };
  const byId = new Map(listed.map((session) => [session.id, session]));
  for (const { id, kind, connectedAt, isOver } of present) {
    if (isOver) continue;
    const session = byId.get(id);
    const refusal = policyRefusal(kind, policy) ?? ownRefusal(session);
    if (!session || refusal) decision.end.push({ id, refusal });
    else if (!session.agentConnected && connectedAt !== undefined && connectedAt < askedAt) decision.reconnect.push(id);
  }
  const known = new Set(present.map(({ id }) => id));
  let count = present.filter(({ isOver }) => !isOver).length + others;
  for (const session of byId.values()) {
    if (known.has(session.id) || session.agentConnected) continue;
    const isKept = session.microservice !== undefined && isSystem(session.microservice);
    const refusal = policyRefusal(session.kind, policy) ?? ownRefusal(session) ?? limitRefusal(count, isKept);
    if (!refusal) count += 1;
    decision.begin.push({ session, refusal });
  }
  return decision;
}

function policyRefusal(kind: Listed['kind'], { exec, logs }: Pick<Policy, 'exec' | 'logs'>): string | undefined {
  if (kind === 'exec') return exec ? undefined : 'the policy of the machine allows no exec sessions';
  return logs ? undefined : 'the policy of the machine allows no log sessions';
}

export function listedExec(view: ExecSessionView): Listed {
  const { sessionId: id, microserviceUuid: microservice, agentConnected, command, tty } = view;
  const path = `/agent/exec/microservice/${encodeURIComponent(microservice)}/${encodeURIComponent(id)}`;
  return { kind: 'exec', id, agentConnected, path, microservice, command, tty };
}

export function listedLog(view: LogSessionView): Listed {
  const { sessionId: id, microserviceUuid, iofogUuid, agentConnected, tailConfig: tail } = view;
  const about =
    microserviceUuid === null
      ? `node/${encodeURIComponent(iofogUuid ?? '')}`
      : `microservice/${encodeURIComponent(microserviceUuid)}`;
  // By the query, the controller knows that this agent reads the field.
  const path = `/agent/logs/${about}/${encodeURIComponent(id)}${tail.previous ? '?previous=true' : ''}`;
  const session = { kind: 'log', id, agentConnected, path, tail } as const;
  return microserviceUuid === null
    ? { ...session, node: iofogUuid ?? '' }
    : { ...session, microservice: microserviceUuid };
}
