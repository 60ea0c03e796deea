import { digestOf } from '../../wire/digest.ts';
import type { Digests } from '../../wire/sections.ts';
import type { ExecSessionView, LogSessionView } from '../../wire/sessions.ts';
import type { Session } from './session.ts';

/** What the agent of one node gets of its sessions (docs/spec/sessions.md#sessions-of-a-node). */
export interface SessionLists {
  exec: readonly ExecSessionView[];
  logs: readonly LogSessionView[];
  /** of the sections of these lists; absent ones have no session */
  digests: Digests;
}

/** What the list of a node says of a session. */
export type ListedSession = Pick<Session, 'id' | 'target' | 'phase' | 'attempt'>;

export function sessionLists(sessions: Iterable<ListedSession>): SessionLists {
  const exec: ExecSessionView[] = [];
  const logs: LogSessionView[] = [];
  const keys: Partial<Record<'execSessions' | 'microserviceLogs' | 'fogLogs', string[]>> = {};
  for (const { id, target, phase, attempt } of sessions) {
    if (phase === 'over') continue;
    const base = {
      sessionId: id,
      status: phase === 'pending' ? 'PENDING' : 'ACTIVE',
      agentConnected: phase === 'active',
    } as const;
    if (target.kind === 'exec') {
      const { microservice, command, tty } = target;
      const asked = { ...(command && { command: [...command] }), ...(tty !== undefined && { tty }) };
      exec.push({ ...base, microserviceUuid: microservice, ...asked });
    } else {
      const { microservice, node, tail } = target;
      const about = { microserviceUuid: microservice ?? null, iofogUuid: microservice === undefined ? node : null };
      logs.push({ ...base, ...about, tailConfig: tail });
    }
    const section =
      target.kind === 'exec' ? 'execSessions' : target.microservice === undefined ? 'fogLogs' : 'microserviceLogs';
    // Not whether the agent is connected: it knows that, and would read the list once more.
    keys[section] = [...(keys[section] ?? []), `${id} ${attempt}`];
  }
  const digests = Object.fromEntries(Object.entries(keys).map(([section, parts]) => [section, digestOf(parts.sort())]));
  return { exec, logs, digests };
}

/** The exec and log sessions that the agents of nodes are to connect to. */
export interface NodeSessions {
  /** false while sessions of other replicas may be missing: then agents get no lists */
  readonly isComplete: boolean;
  lists(node: string): SessionLists;
  /** The listener is called with the node whose lists have changed. */
  subscribe(listener: (node: string) => void): Disposable;
}
