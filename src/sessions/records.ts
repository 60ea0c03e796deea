import type { EventReason } from '../api/conditions.ts';
import type { ErrorCode } from '../api/error-codes.ts';
import type { EventRecorder } from '../kube/mod.ts';
import type { Log } from '../lib/log.ts';
import type { AuditEvent } from '../rules/audit.ts';
import type { Lookups } from '../rules/inputs.ts';
import { sessionSubject } from '../subjects/workloads/rules/session-target.ts';
import type { SocketPath, UserSocket } from './paths.ts';
import type { SessionOutcome } from './sessions.ts';

/** Who opened which socket, and how it ended, for the log, the audit log and Kubernetes Events: nothing of the content. */
export interface SessionRecords {
  /** `id` of the session; absent when the socket was opened only to say why there is none. */
  connected(path: UserPath, requester: SocketUser, opened: { id: string } | { refused: SessionOutcome }): void;
  ended(path: UserPath, requester: SocketUser, id: string, outcome: SessionOutcome): void;
  /** A user who is known got an HTTP response instead of a socket. */
  refused(path: UserPath, requester: SocketUser, error: { status: number; code: ErrorCode }): void;
}

export type UserPath = SocketPath & { by: 'user' };

/** What a user wants who is known. */
export interface SocketUser {
  name: string;
  address: string;
}

export interface RecordsOptions {
  lookups: Pick<Lookups, 'nodeByName' | 'nodeByUuid' | 'applicationsWithEntry'>;
  /** the audit log, and whether it has the addresses of clients */
  audit?: { record(event: Omit<AuditEvent, 'id' | 'timestamp'>): void; recordsAddresses: boolean } | undefined;
  /** of this replica alone: those of reconcilers have bounds of their own */
  events?: Pick<EventRecorder<EventReason>, 'record'> | undefined;
  log: Log;
}

/** What the audit log calls the resource of a socket. */
const RESOURCES: Readonly<Record<UserSocket, string>> = {
  exec: 'microservices/exec',
  systemExec: 'systemmicroservices/exec',
  logs: 'microservices/log',
  systemLogs: 'systemmicroservices/log',
  nodeLogs: 'edgenodes/log',
};

/** Ends that are no fault of anything: by user, agent or program, and since the replica shuts down. */
const USUAL: ReadonlySet<number> = new Set([101, 1000, 1001]);

export function createRecords({ lookups, audit, events, log }: RecordsOptions): SessionRecords {
  function record(
    path: UserPath,
    { name, address }: SocketUser,
    eventType: 'WS_CONNECT' | 'WS_DISCONNECT',
    [code, reason]: readonly [number, string],
  ) {
    log.info({ socket: path.socket, target: path.uuid, user: name, event: eventType, code, reason }, 'Session');
    audit?.record({
      eventType,
      endpointType: 'user',
      actorId: name,
      method: 'GET',
      resourceType: RESOURCES[path.socket],
      resourceId: path.uuid,
      endpointPath: path.path.replace('{uuid}', path.uuid),
      ipAddress: audit.recordsAddresses ? address : '',
      status: USUAL.has(code) ? 'SUCCESS' : 'FAILED',
      statusCode: code,
      statusMessage: reason,
      requestId: '',
    });
  }

  /** About the object that users know; none when it is gone. */
  function tell(path: UserPath, id: string, reason: 'SessionBegan' | 'SessionEnded', words: (what: string) => string) {
    const subject = sessionSubject(path.named, lookups);
    if (!events || !subject) return;
    const what = `${path.kind === 'exec' ? 'a terminal in' : 'the log of'} ${subject.words}`;
    events.record(subject.object, { type: 'Normal', reason, action: 'Session', note: words(what), about: id });
  }

  return {
    connected(path, requester, opened) {
      if ('refused' in opened) {
        const { code, reason } = opened.refused;
        return record(path, requester, 'WS_CONNECT', [code, reason]);
      }
      record(path, requester, 'WS_CONNECT', [101, '']);
      tell(path, opened.id, 'SessionBegan', (what) => `${requester.name} opened ${what}`);
    },
    ended(path, requester, id, { code, reason, ms }) {
      const after = `after ${Math.round(ms / 1000)} s`;
      record(path, requester, 'WS_DISCONNECT', [code, `${reason}, ${after}`]);
      tell(path, id, 'SessionEnded', (what) => `${requester.name} had ${what}, which ended ${after}: ${reason}`);
    },
    refused: (path, requester, { status, code }) => record(path, requester, 'WS_CONNECT', [status, code]),
  };
}
