import { BOUNDS } from '../../../src/api/bounds.ts';
import type { AgentConfig, MicroserviceStatus, StatusReport } from '../../../src/wire/agent.ts';
import { AGENT_VERSION } from '../domain/names.ts';

/** What a report is made of. */
export interface ReportFacts {
  /** of the machine, with the milliseconds that the agent runs; absent where only what changed is sent */
  measured?: { figures: StatusReport; duration: number };
  /** Unix ms */
  startedAt: number;
  problems: readonly string[];
  /** why the container engine cannot be looked at */
  engineProblem?: string;
  /** undefined until the engine has been looked at once */
  microservices?: MicroserviceStatus[];
  registryCount: number;
  address?: string;
  /** those of the engine, where it is connected */
  runtimes?: readonly string[];
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
    daemonStatus: problems.length > 0 ? 'WARNING' : 'RUNNING',
    warningMessage: problems.join('; ').slice(0, 1024),
    engineError: facts.engineProblem?.slice(0, 1024) ?? '',
    daemonLastStart: facts.startedAt,
    ...(measured && { daemonOperatingDuration: measured.duration }),
    // Before the first look nothing is known of them, and nothing is said.
    microserviceStatus: withinReport(facts.microservices),
    repositoryCount: facts.registryCount,
    ipAddress: facts.address,
    version: AGENT_VERSION,
    isReadyToUpgrade: false,
    isReadyToRollback: false,
    availableRuntimes: facts.runtimes?.filter((name) => name.length <= 64).slice(0, 64),
    config: settings,
    refusedSettings: facts.refusedSettings,
    actions: facts.actions,
  };
}

function violations(figures: StatusReport, settings: AgentConfig) {
  const { memoryLimit = Infinity, cpuLimit = Infinity, diskLimit = Infinity } = settings;
  return {
    memoryViolation: (figures.memoryUsage ?? 0) > memoryLimit * 1024 * 1024,
    cpuViolation: (figures.cpuUsage ?? 0) > cpuLimit,
    diskViolation: (figures.diskUsage ?? 0) > diskLimit,
  };
}

/** As many as one report may hold; what is gone is left out first. */
function withinReport(list: MicroserviceStatus[] | undefined): MicroserviceStatus[] | undefined {
  if (!list || list.length <= BOUNDS.report) return list;
  return [...list]
    .sort((a, b) => Number(a.status === 'STOPPED') - Number(b.status === 'STOPPED'))
    .slice(0, BOUNDS.report);
}

/** What keeps an agent from doing its work, for people. */
export function agentProblems(
  known: readonly string[],
  /** the identity could not be read, and there is no node yet */
  identityLost: boolean,
  /** what both clocks said, Unix ms; undefined while they agree */
  skew: { own: number; theirs: number } | undefined,
): string[] {
  return [
    ...known,
    ...(identityLost ? ['identity: it could not be read; what runs is kept, provision the agent again'] : []),
    ...(skew ? [`clock: this machine's said ${iso(skew.own)} when the controller's said ${iso(skew.theirs)}`] : []),
  ];
}

const iso = (time: number) => new Date(time).toISOString();
