import type { AgentConfig, MicroserviceStatus, StatusReport, UpdateReport } from '../../../src/wire/agent.ts';
import type { Clock } from '../domain/clock.ts';
import type { EngineFacts, OtherAgentContainer } from '../domain/engine.ts';
import { orphanProblem } from '../domain/orphans.ts';
import type { OwnIdentity } from '../state/own-identity.ts';
import type { Machine } from '../system/machine.ts';
import type { Actions } from './actions.ts';
import type { Membership } from './membership.ts';
import { agentProblems, type ReportFacts, statusReport } from './report.ts';
import type { SavedResponses } from './saved-responses.ts';

/** The part of a report about the containers of this machine. */
interface ReportedInventory {
  readonly orphans: readonly OtherAgentContainer[];
  microservices(): MicroserviceStatus[] | undefined;
  refresh(measurements: boolean): Promise<void>;
}

export interface ReporterDependencies {
  clock: Clock;
  /** Unix ms */
  startedAt: number;
  machine: Pick<Machine, 'measure' | 'addresses'>;
  identity: OwnIdentity;
  responses: Pick<SavedResponses, 'digests' | 'sent'>;
  actions: Pick<Actions, 'echo'>;
  inventory: ReportedInventory;
  supervisor: { readonly problems: string[]; readonly engineProblem: string | undefined };
  /** what the agent writes for containers to mount */
  content: {
    readonly problems: string[];
    readonly status: { active: number; changedAt: number | undefined };
  };
  membership(): Pick<Membership, 'problems' | 'client'>;
  engineFacts(): EngineFacts | undefined;
  cdiDevices?: () => readonly string[];
  settings(): AgentConfig;
  refusedSettings(): StatusReport['refusedSettings'];
  /** undefined where the machine keeps none */
  artifacts(): ReportFacts['artifacts'];
  /** problems with the machine's own files */
  fileProblems(): string[];
  /** what carries out version actions */
  updater?: {
    readonly isReadyToUpgrade: boolean;
    readonly isReadyToRollback: boolean;
    readonly problems: string[];
    readonly progress: UpdateReport;
  };
}

/** Collects the reports of this node. */
export class Reporter {
  readonly #deps: ReporterDependencies;

  constructor(deps: ReporterDependencies) {
    this.#deps = deps;
  }

  /** Problems that keep the agent from doing its work. */
  get problems(): string[] {
    const { identity, inventory, supervisor, content, membership, fileProblems, updater } = this.#deps;
    const { node } = identity.current;
    const orphans = orphanProblem(inventory.orphans, node?.uuid) ?? [];
    const others = [...content.problems, ...(updater?.problems ?? []), ...fileProblems()];
    const known = [...supervisor.problems, ...membership().problems, ...others];
    return agentProblems(known.concat(orphans), identity.isLost && !node, membership().client?.skew);
  }

  async report(measurements: boolean): Promise<StatusReport> {
    const { clock, startedAt, machine, responses, actions, inventory, supervisor, updater } = this.#deps;
    await inventory.refresh(measurements);
    const figures = measurements ? await machine.measure() : undefined;
    return statusReport({
      measured: figures && { figures, duration: clock.wall() - startedAt },
      startedAt,
      problems: this.problems,
      engineProblem: supervisor.engineProblem,
      microservices: inventory.microservices(),
      microserviceList: responses.digests.microserviceList,
      registryCount: responses.sent.registries.size,
      volumeMounts: this.#deps.content.status,
      address: machine.addresses(this.#deps.settings().networkInterface ?? 'dynamic')?.address,
      runtimes: this.#deps.engineFacts()?.runtimes,
      runtimeClasses: responses.sent.runtimeClasses,
      cdiDevices: this.#deps.cdiDevices?.(),
      artifacts: this.#deps.artifacts(),
      settings: this.#deps.settings(),
      refusedSettings: this.#deps.refusedSettings(),
      actions: actions.echo,
      isReadyToUpgrade: updater?.isReadyToUpgrade ?? false,
      isReadyToRollback: updater?.isReadyToRollback ?? false,
      ...(updater && { update: updater.progress }),
    });
  }
}
