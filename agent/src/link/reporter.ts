import type { Clock } from '../../../src/lib/clock.ts';
import type { AgentConfig, MicroserviceStatus, StatusReport } from '../../../src/wire/agent.ts';
import { orphanProblem } from '../domain/orphans.ts';
import type { Part } from '../domain/part.ts';
import type { EngineFacts } from '../engine-port/facts.ts';
import type { OtherAgentContainer } from '../engine-port/ownership.ts';
import type { Machine } from '../machine/machine.ts';
import type { OwnIdentity } from '../state/own-identity.ts';
import type { Actions } from './actions.ts';
import type { Link } from './link.ts';
import { type AgentPhase, agentProblems, type SourcedClass, statusReport } from './report.ts';
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
  supervisor: {
    readonly problems: string[];
    readonly engineProblem: string | undefined;
    readonly facts: EngineFacts | undefined;
  };
  /** what the controller learns of microservices */
  reported(statuses: MicroserviceStatus[] | undefined): MicroserviceStatus[] | undefined;
  parts: readonly Part[];
  link: Pick<Link, 'problems' | 'client'>;
  cdiDevices(directories?: readonly string[]): readonly string[];
  settings(): AgentConfig;
  refusedSettings(): StatusReport['refusedSettings'];
  /** of the controller, and of the machine itself */
  runtimeClasses(): readonly SourcedClass[];
  /** problems with the machine's own files */
  fileProblems(): string[];
  phase(): AgentPhase;
}

/** Collects the reports of this node. */
export class Reporter {
  readonly #deps: ReporterDependencies;

  constructor(deps: ReporterDependencies) {
    this.#deps = deps;
  }

  /** Problems that keep the agent from doing its work, for people on the machine. */
  get problems(): string[] {
    return [...this.#reported, ...this.#deps.parts.flatMap(({ ownProblems = [] }) => ownProblems)];
  }

  get #reported(): string[] {
    const { identity, inventory, supervisor, parts, link, fileProblems } = this.#deps;
    const { node } = identity.current;
    const orphans = orphanProblem(inventory.orphans, node?.uuid) ?? [];
    const others = [...parts.flatMap(({ problems = [] }) => problems), ...fileProblems()];
    const known = [...supervisor.problems, ...link.problems, ...others];
    return agentProblems(known.concat(orphans), identity.isLost && !node, link.client?.skew);
  }

  async report(measurements: boolean): Promise<StatusReport> {
    const { clock, startedAt, machine, responses, actions, inventory, supervisor, parts } = this.#deps;
    await inventory.refresh(measurements);
    const figures = measurements ? await machine.measure() : undefined;
    return statusReport({
      measured: figures && { figures, duration: clock.wall() - startedAt },
      startedAt,
      phase: this.#deps.phase(),
      problems: this.#reported,
      engineProblem: supervisor.engineProblem,
      microservices: this.#deps.reported(inventory.microservices()),
      microserviceList: responses.digests.microserviceList,
      registryCount: responses.sent.registries.size,
      address: machine.addresses(this.#deps.settings().networkInterface ?? 'dynamic')?.address,
      runtimes: supervisor.facts?.runtimes,
      runtimeClasses: this.#deps.runtimeClasses(),
      cdiDevices: this.#deps.cdiDevices(supervisor.facts?.cdiDirectories),
      settings: this.#deps.settings(),
      refusedSettings: this.#deps.refusedSettings(),
      actions: actions.echo,
      parts: Object.assign({}, ...parts.map((part) => part.report?.())),
    });
  }
}
