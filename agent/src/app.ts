import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import type { AgentConfig, MicroserviceStatus, MicroserviceView, StatusReport } from '../../src/wire/agent.ts';
import { Actions } from './controller/actions.ts';
import type { Connection, Transport } from './controller/client.ts';
import { Membership, type Scope } from './controller/membership.ts';
import { Provisioning } from './controller/provisioning.ts';
import { agentProblems, statusReport, withUsage } from './controller/report.ts';
import { SavedResponses } from './controller/saved-responses.ts';
import type { Clock, Random } from './domain/clock.ts';
import type { Config, LogLevel } from './domain/config.ts';
import type { Engine, OtherAgentContainer } from './domain/engine.ts';
import { AGENT_VERSION } from './domain/names.ts';
import { OPEN_POLICY, PLAIN_PLACES, type Places, type Policy, type PolicyContext, refusal } from './domain/policy.ts';
import { isWatching, refusedSettings, type SettingsSources, settingsInForce } from './domain/settings.ts';
import { pullTarget } from './domain/target.ts';
import { findOrphans, instanceOf, orphanProblem } from './engines/orphans.ts';
import { createAgentMetrics } from './local-api/metrics-page.ts';
import type { Database } from './state/database.ts';
import type { Identity, IdentityStore, Node } from './state/identity.ts';
import { loadIdentity } from './state/own-identity.ts';
import type { MachineAccess } from './supervise/executors.ts';
import { listForeignContainers } from './supervise/foreign-containers.ts';
import { createMachineAccess } from './supervise/machine-access.ts';
import { type PrunedImage, prune, runPruning } from './supervise/pruning.ts';
import { Supervisor } from './supervise/supervisor.ts';
import { errorText, type Log } from './system/log.ts';
import type { Machine } from './system/machine.ts';
import { type Usage, UsageReader } from './system/usage.ts';

/** A removal that has taken nothing away for so long, ms, gets no further; a container has 10 s to stop. */
const REMOVAL_PATIENCE = 60_000;

/** Everything that an agent needs of the world. A thousand of them can live in one process. */
export interface AgentDependencies {
  clock: Clock;
  random: Random;
  log: Log;
  /** the engine that this agent's containers run on; told the instance id that they carry */
  engine(instance: string): Engine;
  database: Database;
  identity: IdentityStore;
  machine: Machine;
  /** how requests to the controller are sent */
  transport?: Transport;
  policy?: Policy;
  /** never bound into a container */
  protectedPaths?: readonly string[];
  /** the paths of this machine */
  places?: Places;
  /** makes the directories that a container binds */
  prepareMounts?: MachineAccess['prepareMounts'];
  /** whether some program of this machine has a port */
  portTaken?: MachineAccess['portTaken'];
  /** applies what the controller or the machine chose for the log */
  setLogging?: (level: LogLevel, settings: AgentConfig) => void;
  /** what is wrong with the machine's own files, for people */
  fileProblems?: () => string[];
  /** whether the agent of an instance runs on this machine; absent: none does */
  isAlive?: (instance: string) => Promise<boolean>;
  /** we are another instance now */
  instanceChanged?: (instance: string) => void;
  /** PEM of a further authority for the controller's certificate */
  controllerCa?: string;
  /** fetches the authority that a join string names */
  fetchAuthority?: (controllerUrl: string, digest: string) => Promise<string>;
}

export type Agent = ReturnType<typeof createAgent>;

/** An agent: supervisor and relation to the controller around one database. Holds no state outside of itself. */
export function createAgent(config: Config, deps: AgentDependencies) {
  const { clock, random, log, database, machine } = deps;
  const startedAt = clock.wall();
  const identity = loadIdentity(deps.identity, database, log);
  const engine = deps.engine(identity.current.instance);
  const metrics = createAgentMetrics();
  const policyContext: PolicyContext = {
    policy: deps.policy ?? OPEN_POLICY,
    protectedPaths: deps.protectedPaths ?? [],
    places: deps.places ?? PLAIN_PLACES,
  };
  const responses = new SavedResponses({ database, log, metrics, changed: act });

  const supervisor = new Supervisor({
    engine,
    database,
    clock,
    random,
    log,
    metrics,
    bootId: machine.bootId,
    sources: () => ({
      machine: {
        instance: identity.current.instance,
        nodeUuid: identity.current.node?.uuid ?? '',
        volumesDirectory: join(config.diskDirectory, 'volumes'),
        timeZone: effective().timeZone ?? '',
        limits: machine.limits,
      },
      registries: responses.registries,
      views: responses.views,
      policy: policyContext.policy,
    }),
    machine: createMachineAccess(policyContext, deps),
    adopt,
  });

  const house = {
    engine,
    database,
    log,
    clock,
    random,
    machine,
    settings: effective,
    containers: () => supervisor.containers,
  };
  const actions = new Actions({ database, log, executors: { prune: () => void prune(house) } });
  const membership = new Membership({
    config,
    clock,
    random,
    log,
    metrics,
    database,
    identity,
    responses,
    actions,
    boot: randomUUID(),
    transport: deps.transport,
    controllerCa: deps.controllerCa,
    settings: effective,
    report,
    acknowledgeGone: (uuids) => supervisor.acknowledgeGone(uuids),
  });
  const provisioning = new Provisioning({
    config,
    log,
    machine,
    identity,
    responses,
    membership,
    engineKind: () => engineFacts()?.kind ?? config.containerEngine,
    microservices: () => supervisor.present,
    adopt: async () => {
      try {
        if (await adopt(AbortSignal.timeout(10_000))) supervisor.reconnect();
      } catch (error) {
        // It is looked for again as soon as the engine answers, before anything is made.
        log.debug('Cannot look for containers of an earlier installation', { error: errorText(error) });
      }
    },
    fetchAuthority: deps.fetchAuthority,
  });

  const usageReader = new UsageReader(() => clock.now());
  let usage = new Map<string, Usage>();
  /** names of containers on the same engine that are somebody else's; kept up while the watchdog is on */
  let foreignContainers: readonly string[] | undefined;
  /** containers of agents that are no more, as of the last measurement */
  let orphans: readonly OtherAgentContainer[] = [];

  act(new Set());
  supervisor.onChange(() => {
    membership.changed();
    // With nobody to tell, there is nothing to keep for telling.
    if (!identity.current.node) {
      const gone = (supervisor.statuses() ?? []).filter(({ id }) => supervisor.record(id)?.gone).map(({ id }) => id);
      supervisor.acknowledgeGone(gone);
    }
  });

  /** Acts on what is wanted and allowed now: at the start, and after each change. */
  function act(registries: ReadonlySet<number>): void {
    applyLogging();
    supervisor.setDesired(
      responses.desired((view) => {
        const { reference } = pullTarget(view.imageId, responses.registries.get(view.registryId));
        return refusal(view, reference, policyContext);
      }),
    );
    supervisor.registriesChanged(registries);
  }

  function applyLogging(): void {
    const settings = effective();
    deps.setLogging?.((settings.logLevel?.toUpperCase() ?? config.logLevel) as LogLevel, settings);
  }

  function engineFacts() {
    return supervisor.engine.state === 'connected' ? supervisor.engine.facts : undefined;
  }

  function settingsSources(): SettingsSources {
    const { wanted } = responses;
    return {
      config,
      wanted,
      engine: { kind: engineFacts()?.kind, url: engine.url },
      foreignContainers: foreignContainers ?? [],
    };
  }

  function effective(): AgentConfig {
    return settingsInForce(settingsSources());
  }

  async function measureUsage(): Promise<Map<string, Usage>> {
    usage = await usageReader.read(supervisor.containers);
    return usage;
  }

  function microservices(): MicroserviceStatus[] | undefined {
    return supervisor.statuses()?.map((status) => withUsage(status, usage));
  }

  /**
   * Becomes the installation that made the containers of this node, where there is none of our own: its data was lost,
   * and what it left is what the controller wants here. Answers whether it did.
   */
  async function adopt(signal?: AbortSignal): Promise<boolean> {
    const { node } = identity.current;
    if (!node || (await engine.containers(signal)).length > 0) return false;
    const instance = instanceOf(await lookForOrphans(signal), node.uuid);
    if (!instance) return false;
    log.warn('Taking over the containers of an earlier installation of this node', { instance });
    try {
      identity.become({ ...identity.current, instance });
      database.saveValue('instance', instance);
    } catch (error) {
      log.error('Cannot keep the identity', { error: errorText(error) });
    }
    engine.become(instance);
    deps.instanceChanged?.(instance);
    membership.renew();
    return true;
  }

  function lookForOrphans(signal?: AbortSignal): Promise<OtherAgentContainer[]> {
    return findOrphans(engine, deps.isAlive ?? (async () => false), signal);
  }

  /** What keeps the agent from doing its work, for people. */
  function problems(): string[] {
    const lost = identity.isLost && !identity.current.node;
    const beside = orphanProblem(orphans, identity.current.node?.uuid) ?? [];
    const known = [...supervisor.problems, ...membership.problems, ...(deps.fileProblems?.() ?? [])];
    return agentProblems(known.concat(beside), lost, membership.client?.skew);
  }

  async function report(measurements: boolean): Promise<StatusReport> {
    if (measurements) await measureUsage();
    const look =
      isWatching(config, responses.wanted) && engineFacts() && (measurements || foreignContainers === undefined);
    if (look) foreignContainers = (await listForeignContainers(engine, log)) ?? foreignContainers;
    if (measurements && engineFacts()) orphans = await lookForOrphans().catch(() => orphans);
    const figures = measurements ? await machine.measure() : undefined;
    return statusReport({
      measured: figures && { figures, duration: clock.wall() - startedAt },
      startedAt,
      problems: problems(),
      engineProblem: supervisor.engineProblem,
      microservices: microservices(),
      registryCount: responses.registries.size,
      address: machine.addresses(config.networkInterface)?.address,
      runtimes: engineFacts()?.runtimes,
      settings: effective(),
      refusedSettings: refusedSettings(settingsSources()),
      orders: actions.echo,
    });
  }

  return {
    config,
    supervisor,
    database,
    metrics,
    machine,
    startedAt,
    effective,
    microservices,
    measureUsage,
    report,
    prune: (): Promise<PrunedImage[]> => prune(house),
    /** Containers of agents that are no more, whatever node they were. */
    orphans: lookForOrphans,
    /** Ends and removes them, or those with these names, as somebody on the machine has ordered; answers those. */
    async removeOrphans(names: readonly string[], signal?: AbortSignal): Promise<OtherAgentContainer[]> {
      const all = await lookForOrphans(signal);
      const found = all.filter(({ name }) => names.length === 0 || names.includes(name));
      for (const { id, name, application, microservice } of found) {
        log.info('Removing a container of an agent that is no more', { name, application, microservice });
        await engine.stop(id, 10, signal);
        await engine.remove(id, signal);
      }
      orphans = await lookForOrphans(signal);
      membership.changed();
      return found;
    },
    /** The machine's own settings are others now. */
    settingsChanged: () => applyLogging(),
    /** Something on this machine has changed that the controller should hear of. */
    changed: () => membership.changed(),
    /** milliseconds that the controller's clock is ahead of ours, as far as that is known */
    get clockOffset(): number {
      return membership.client?.offset ?? 0;
    },
    /** From now on this is what the machine allows. What runs runs on, unless the policy says otherwise. */
    setPolicy(policy: Policy): void {
      policyContext.policy = policy;
      act(new Set());
      supervisor.policyChanged();
      membership.changed();
    },
    get identity(): Identity {
      return identity.current;
    },
    get problems(): string[] {
      return problems();
    },
    /** The view of a microservice, as the controller last sent it or as it last ran. */
    view: (uuid: string): MicroserviceView | undefined =>
      responses.views.get(uuid) ?? supervisor.record(uuid)?.lastGood,
    get connection(): { state: Connection; error: string; lastContact: number } {
      return membership.connection;
    },

    /** Supervises and keeps in touch until the signal fires. Containers run on. */
    async run(signal: AbortSignal): Promise<void> {
      membership.finishEnding();
      const { instance, node } = identity.current;
      log.info('Starting', { version: AGENT_VERSION, instance, node: node?.uuid });
      membership.start(signal);
      await Promise.all([supervisor.run(signal), runPruning(house, signal)]);
      await membership.ended();
    },

    /** The controller is at another address now: who this node is stays, and so does what runs. */
    moveController: (url: string): void => provisioning.moveController(url),
    /** Exchanges a join string for an identity. */
    provision: (text: string, signal?: AbortSignal): Promise<Node> => provisioning.provision(text, signal),
    /**
     * Ends the relation to the controller. What it wanted here is being removed from then on, volumes stay; with the
     * scope `local` it runs on.
     */
    deprovision: (scope: Scope = 'all', signal?: AbortSignal): Promise<{ controllerTold?: boolean }> =>
      provisioning.deprovision(scope, signal),
    /**
     * Resolves when nothing of ours is on this machine any more, or when the removal gets no further, with the
     * microservices that are left.
     */
    async cleared(signal: AbortSignal): Promise<string[]> {
      const isStuck = () => supervisor.engine.state === 'lost';
      for (let left = supervisor.present.length; left > 0 && !signal.aborted && !isStuck(); ) {
        const before = left;
        await supervisor.until(() => supervisor.present.length < before || isStuck(), REMOVAL_PATIENCE, signal);
        left = supervisor.present.length;
        if (left >= before) break;
      }
      return supervisor.present;
    },
  };
}
