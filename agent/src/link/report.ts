import { BOUNDS } from '../../../src/api/bounds.ts';
import type { AgentConfig, MicroserviceStatus, RuntimeClassView, StatusReport } from '../../../src/wire/agent.ts';
import { AGENT_VERSION } from '../domain/names.ts';

/** `starting` until the engine was read once, or could not be; `stopping` while the agent ends. */
export type AgentPhase = 'starting' | 'running' | 'stopping';

/** The input of a report. */
export interface ReportFacts {
  /** of the machine, with the milliseconds that the agent runs; absent in reports of changes only */
  measured?: { figures: StatusReport; duration: number };
  /** Unix ms */
  startedAt: number;
  phase: AgentPhase;
  problems: readonly string[];
  /** why the container engine cannot be read */
  engineProblem?: string;
  /** undefined until the engine has been read once */
  microservices?: MicroserviceStatus[];
  /** digest of the list of the controller that they follow */
  microserviceList?: string;
  registryCount: number;
  address?: string;
  /** those of the engine, where it is connected */
  runtimes?: readonly string[];
  /** of the controller, and of the machine itself */
  runtimeClasses: readonly SourcedClass[];
  /** those of the machine; undefined where that is not known */
  cdiDevices?: readonly string[];
  /** what the parts of the agent add */
  parts: StatusReport;
  /** those in force */
  settings: AgentConfig;
  refusedSettings: StatusReport['refusedSettings'];
  actions: StatusReport['actions'];
}

/** The report of this node. */
export function statusReport(facts: ReportFacts): StatusReport {
  const { measured, problems, settings } = facts;
  return {
    ...measured?.figures,
    ...(measured && violations(measured.figures, settings)),
    daemonStatus: DAEMON_STATES[facts.phase] ?? (problems.length > 0 ? 'WARNING' : 'RUNNING'),
    warningMessage: problems.join('; ').slice(0, 1024),
    engineError: facts.engineProblem?.slice(0, 1024) ?? '',
    daemonLastStart: facts.startedAt,
    ...(measured && { daemonOperatingDuration: measured.duration }),
    // They are left out until the engine was read once.
    microserviceStatus: withinReport(facts.microservices),
    ...(facts.microservices && {
      microserviceList: facts.engineProblem === undefined ? (facts.microserviceList ?? '') : '',
    }),
    repositoryCount: facts.registryCount,
    ipAddress: facts.address,
    version: AGENT_VERSION,
    isReadyToUpgrade: false,
    isReadyToRollback: false,
    availableRuntimes: facts.runtimes?.filter((name) => name.length <= 64).slice(0, 64),
    runtimeClasses: facts.runtimes && usableClasses(facts.runtimeClasses, facts.runtimes),
    availableCdiDevices: facts.cdiDevices?.slice(0, 256),
    ...facts.parts,
    config: settings,
    refusedSettings: facts.refusedSettings,
    actions: facts.actions,
  };
}

const DAEMON_STATES: Partial<Record<AgentPhase, StatusReport['daemonStatus']>> = {
  starting: 'STARTING',
  stopping: 'STOPPED',
};

/** A runtime class, and who defined it. */
export type SourcedClass = RuntimeClassView & { source: 'local' | 'managed' };

/** The runtime classes that the engine has a runtime for, as many as a report may contain. */
const usableClasses = (classes: readonly SourcedClass[], runtimes: readonly string[]) =>
  classes
    .filter(({ handler }) => runtimes.includes(handler))
    .slice(0, BOUNDS.runtimeClasses)
    .map(({ name, handler, source }) => ({ name, handler, source }));

function violations(figures: StatusReport, settings: AgentConfig) {
  const { memoryLimit = Infinity, cpuLimit = Infinity, diskLimit = Infinity } = settings;
  return {
    memoryViolation: (figures.memoryUsage ?? 0) > memoryLimit * 1024 * 1024,
    cpuViolation: (figures.cpuUsage ?? 0) > cpuLimit,
    diskViolation: (figures.diskUsage ?? 0) > diskLimit,
  };
}

/** At most as many as one report may contain; removed microservices are left out first. */
function withinReport(list: MicroserviceStatus[] | undefined): MicroserviceStatus[] | undefined {
  if (!list || list.length <= BOUNDS.report) return list;
  return [...list]
    .sort((a, b) => Number(a.status === 'STOPPED') - Number(b.status === 'STOPPED'))
    .slice(0, BOUNDS.report);
}

/** Problems that keep an agent from doing its work, for people. */
export function agentProblems(
  known: readonly string[],
  /** the identity could not be read, and there is no node yet */
  identityLost: boolean,
  /** the times of both clocks, Unix ms; undefined while they agree */
  skew: { own: number; theirs: number } | undefined,
): string[] {
  return [
    ...known,
    ...(identityLost ? ['identity: it could not be read; what runs is kept, provision the agent again'] : []),
    ...(skew ? [`clock: this machine's said ${iso(skew.own)} when the controller's said ${iso(skew.theirs)}`] : []),
  ];
}

const iso = (time: number) => new Date(time).toISOString();
