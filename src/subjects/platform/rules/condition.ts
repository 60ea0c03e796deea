import type { Reason } from '../../../api/conditions.ts';
import { type Finding, joined, type Progress } from '../../../rules/conditions.ts';
import type { Liveness } from '../../../rules/inputs.ts';
import { hasFilesOf, type PartCondition, type PartState } from '../../../rules/part.ts';
import type { SystemFilesReport } from '../../../wire/system-files.ts';

/** The facts about one part on one machine. */
export interface PartFacts {
  state: PartState;
  liveness: Liveness;
  isDeprovisioned: boolean;
  /** since when the node is silent, RFC 3339 */
  silentSince?: string | undefined;
  /** Unix ms */
  now: number;
  /** the system's files: the digest of their list as it is to be, and what the machine last reported of them */
  files: { due: string | undefined; here: SystemFilesReport | undefined };
  /** progress of its microservice, when it has one */
  entry?: Progress;
  /** what the machine reports of the program in it: absent of agents that report nothing */
  server?: { isCurrent: boolean; problem?: string | undefined };
}

const is = (status: Finding['status'], reason: Reason, message: string): Finding => ({ status, reason, message });

/** Rules about one part, in the order in which they apply; the first result counts. */
const RULES: readonly ((facts: PartFacts) => Finding | undefined)[] = [
  ({ state: { lacks } }) => lacks && is('False', lacks.reason, lacks.message),
  ({ state: { expiresAt }, now }) =>
    expiresAt !== undefined && expiresAt <= now
      ? is('False', 'CertificateExpired', 'a certificate of the node has expired and could not be renewed')
      : undefined,
  ({ liveness, isDeprovisioned }) =>
    liveness === 'never' || isDeprovisioned
      ? is('False', 'NotProvisioned', 'no agent has the identity of the node; get a provisioning key for it')
      : undefined,
  ({ liveness, silentSince }) =>
    liveness === 'silent'
      ? is('Unknown', 'NodeUnreachable', `the node is offline${silentSince ? ` since ${silentSince}` : ''}`)
      : undefined,
  ({ state, files: { due, here } }) => {
    if (!state.hasFiles || (hasFilesOf(state, due, here) && !state.isOutdated)) return undefined;
    if (here?.problem)
      return is('False', 'FilesFailed', `the machine cannot keep the files of the system: ${here.problem}`);
    return is(
      'False',
      'FilesPending',
      here === undefined
        ? 'the agent has not reported the files of the system; an agent of another make, or an earlier version, does not have them'
        : 'the files of the system have changed, and the machine does not report the present ones yet',
    );
  },
  ({ entry, state }) => {
    if (!entry || entry.is === 'done') return undefined;
    const message = `the microservice "${state.entry?.name}": ${entry.message ?? ''}`;
    return is(entry.is === 'unknown' ? 'Unknown' : 'False', entry.reason, message);
  },
  ({ server, state: { condition } }) => {
    const program = PROGRAMS[condition];
    if (!server || server.isCurrent || !program) return undefined;
    if (server.problem) return is('False', program.refuses, `the ${program.what} of the machine: ${server.problem}`);
    return is('False', program.behind, `the running ${program.what} does not have all present ${program.lacks} yet`);
  },
];

/** The programs of parts, which are sent what changes while they run. */
const PROGRAMS: Partial<Record<PartCondition, { what: string; lacks: string; refuses: Reason; behind: Reason }>> = {
  BusReady: {
    ...{ what: 'bus server', lacks: 'tokens and settings' },
    ...{ refuses: 'BusServerRefuses', behind: 'BusServerBehind' },
  },
  RouterReady: {
    ...{ what: 'router', lacks: 'services, connections and certificates' },
    ...{ refuses: 'RouterRefuses', behind: 'RouterBehind' },
  },
};

/** Whether the machine has what a part wants. True only for what the machine itself reports. */
export function partFinding(facts: PartFacts): Finding {
  for (const rule of RULES) {
    const found = rule(facts);
    if (found) return found;
  }
  return is('True', 'OnMachine', 'the machine reports that it has everything');
}

/** Reasons that pass by themselves: the platform is being set up, or waits for the machine. */
const PASSING: ReadonlySet<Reason> = new Set<Reason>([
  'AuthorityNotReady',
  'BusNotSetUp',
  'BusServerBehind',
  'FilesPending',
  'NodeUnreachable',
  'NotProvisioned',
  'Restarting',
  'RouterBehind',
  'Starting',
  'Stopping',
  'Updating',
]);

/** The phase of a platform, by the conditions of its parts; without a part there is nothing to set up. */
export function phaseOf(findings: readonly Finding[]): {
  phase: 'Pending' | 'Progressing' | 'Ready' | 'Failed';
  error?: string;
} {
  const open = findings.filter(({ status }) => status !== 'True');
  const failed = open.filter(({ reason }) => !PASSING.has(reason));
  if (failed.length > 0) return { phase: 'Failed', error: joined(failed.map(({ message = '' }) => message)) };
  if (open.length === 0) return { phase: 'Ready' };
  return { phase: open.some(({ reason }) => reason === 'NotProvisioned') ? 'Pending' : 'Progressing' };
}

/** The conditions of all parts of a node. */
export const findingsOf = (all: readonly PartFacts[]): Partial<Record<PartCondition, Finding>> =>
  Object.fromEntries(all.map((facts) => [facts.state.condition, partFinding(facts)]));
