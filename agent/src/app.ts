/** The composition root of the agent. It is longer than other files because it names each part and its dependencies once. */

import { type KeyObject, randomUUID } from 'node:crypto';
import { join } from 'node:path';
import type { AgentConfig, MicroserviceView } from '../../src/wire/agent.ts';
import { Artifacts } from './artifacts/artifacts.ts';
import type { Projections } from './artifacts/projection.ts';
import type { ArtifactStore } from './artifacts/store.ts';
import { type ActionExecutor, Actions } from './controller/actions.ts';
import type { Transport } from './controller/client.ts';
import { Membership, type Scope } from './controller/membership.ts';
import { Provisioning } from './controller/provisioning.ts';
import { Reporter } from './controller/reporter.ts';
import { SavedResponses } from './controller/saved-responses.ts';
import type { ArtifactItem, ArtifactKind, ArtifactWait, PrunedArtifacts } from './domain/artifact.ts';
import { allCatalogs } from './domain/artifact.ts';
import type { Clock, Random } from './domain/clock.ts';
import type { Config, LogLevel } from './domain/config.ts';
import { latestOf } from './domain/container.ts';
import type { Engine, EngineFacts, OtherAgentContainer } from './domain/engine.ts';
import type { Entry } from './domain/entry.ts';
import { AGENT_VERSION } from './domain/names.ts';
import { OPEN_POLICY, PLAIN_PLACES, type Places, type Policy, type PolicyContext } from './domain/policy.ts';
import { isRemoving, isWatching, refusedSettings, type SettingsSources, settingsInForce } from './domain/settings.ts';
import { pullReference, viewRefusal } from './domain/target.ts';
import { createAgentMetrics } from './local-api/routes/probes/metrics-page.ts';
import type { OwnLog, StartedPrograms } from './sessions/session.ts';
import { Sessions } from './sessions/sessions.ts';
import type { Database } from './state/database.ts';
import type { Identity, IdentityStore, Node } from './state/identity.ts';
import { loadIdentity } from './state/own-identity.ts';
import { Adoption } from './supervise/adoption.ts';
import type { MachineAccess } from './supervise/executors.ts';
import { Inventory } from './supervise/inventory.ts';
import { createMachineAccess } from './supervise/machine-access.ts';
import { type PrunedImage, prune, runPruning } from './supervise/pruning.ts';
import { forgetGone, untilRemoved } from './supervise/removal.ts';
import { Supervisor } from './supervise/supervisor.ts';
import type { CdiDevices } from './system/cdi.ts';
import { errorText, type Log } from './system/log.ts';
import type { Machine } from './system/machine.ts';
import type { Program } from './update/program.ts';
import { Updater } from './update/updater.ts';
import { filesInMemory, type MountedFiles } from './volume-mounts/files.ts';
import { MountedContent } from './volume-mounts/mounted-content.ts';

/** Dependencies of an agent. It has no other state, so that a thousand agents can run in one process. */
export interface AgentDependencies {
  clock: Clock;
  random: Random;
  log: Log;
  /** the engine that this agent's containers run on, for the instance id that they carry */
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
  /** where what the agent writes for containers lies; absent: in memory */
  mountedFiles?: MountedFiles;
  /** where models and knowledge are kept and projected; absent: the machine keeps none */
  artifactFiles?: { store: ArtifactStore; projections: Projections };
  /** PEM by which containers know the local API */
  apiAuthority?: string;
  /** whether a program of this machine listens on a port */
  portTaken?: MachineAccess['portTaken'];
  /** the CDI devices that specifications in these directories name */
  cdiDevices?: CdiDevices;
  /** the addresses of this machine's interfaces; absent: none is known */
  ownAddresses?: () => readonly string[];
  /** applies what the controller or the machine chose for the log */
  setLogging?: (level: LogLevel, settings: AgentConfig) => void;
  /** problems with the machine's own files, for people */
  fileProblems?: () => string[];
  /** whether the agent of an instance runs on this machine; absent: none does */
  isAlive?: (instance: string) => Promise<boolean>;
  /** Starts the agent again; absent: this agent cannot be started again by itself. */
  restart?: () => void;
  /** what this agent logs, for log sessions of the node; absent: it keeps no log */
  ownLog?: OwnLog;
  /** where the programs that sessions started are noted for the next process; absent: nowhere */
  programs?: StartedPrograms;
  /** where releases of the agent are kept on this machine, and whose signatures count; absent: it is no installed agent */
  updates?: { program: Program; keys: readonly KeyObject[] };
  /** The agent has another instance id now. */
  instanceChanged?: (instance: string) => void;
  /** PEM of a further authority for the controller's certificate */
  controllerCa?: string;
  /** fetches the authority that a join string names */
  fetchAuthority?: (controllerUrl: string, digest: string) => Promise<string>;
}

export type Agent = ReturnType<typeof createAgent>;

/** Builds an agent: a supervisor of containers and a membership at a controller, around one database. */
export function createAgent(config: Config, deps: AgentDependencies) {
  const parts = createParts(config, deps);
  const { identity, responses, supervisor, membership, provisioning, inventory, reporter, adoption } = parts;
  const { updater, actions } = parts;
  const { log, database, machine } = deps;
  const { metrics, startedAt, settings, pruning, content, applyLogging, applyDesired, artifacts } = parts;
  return {
    config,
    supervisor,
    database,
    metrics,
    machine,
    startedAt,
    /** the settings in force */
    effective: settings,
    microservices: () => inventory.microservices(),
    measureUsage: () => inventory.measureUsage(),
    report: (measurements: boolean) => reporter.report(measurements),
    prune: (): Promise<PrunedImage[]> => prune(pruning),
    /** the models or knowledge of this machine */
    artifacts: (kind: ArtifactKind): ArtifactItem[] => artifacts?.items(kind) ?? [],
    /** the volume mounts of this machine, without their content */
    volumeMounts: () => content.items,
    /** Removes the models and knowledge that nothing uses. */
    pruneArtifacts: pruning.pruneArtifacts,
    /** Containers of agents that no longer exist, of any node. */
    orphans: (signal?: AbortSignal) => adoption.orphans(signal),
    async removeOrphans(names: readonly string[], signal?: AbortSignal): Promise<OtherAgentContainer[]> {
      const removed = await adoption.removeOrphans(names, signal);
      await inventory.refreshOrphans(signal);
      membership.changed();
      return removed;
    },
    /** The machine's own settings have changed. */
    settingsChanged: applyLogging,
    /** Wakes the reporter: the state of this machine has changed. */
    changed: () => membership.changed(),
    /** milliseconds that the controller's clock is ahead of the agent's, 0 while unknown */
    get clockOffset(): number {
      return membership.client?.offset ?? 0;
    },
    /** Begins an exec session of a user on this machine. */
    exec: (...args: Parameters<Sessions['exec']>) => parts.sessions.exec(...args),
    /** The log of a microservice; with `follow` it goes on when the container starts again or is replaced. */
    logs: (...args: Parameters<Sessions['logs']>) => parts.sessions.logs(...args),
    /** Replaces the policy. Containers keep running, unless the policy has `stopRefused`. */
    setPolicy(policy: Policy): void {
      parts.policyContext.policy = policy;
      applyDesired(new Set());
      supervisor.policyChanged();
      parts.sessions.changed();
      membership.changed();
    },
    get identity(): Identity {
      return identity.current;
    },
    get problems(): string[] {
      return reporter.problems;
    },
    /** The view of a microservice, as the controller last sent it or as it last ran. */
    view: (uuid: string): MicroserviceView | undefined =>
      responses.views.get(uuid) ?? supervisor.record(uuid)?.lastGood,
    get connection() {
      return membership.connection;
    },
    /** Supervises, polls and reports until the signal fires. Containers keep running. */
    async run(signal: AbortSignal): Promise<void> {
      membership.finishEnding();
      const { instance, node } = identity.current;
      log.info('Starting', { version: AGENT_VERSION, instance, node: node?.uuid });
      membership.start(signal);
      updater?.resume(actions.digest('version'), signal);
      const work = [supervisor.run(signal), runPruning(pruning, signal), content.run(signal), artifacts?.run(signal)];
      await Promise.all([...work, parts.sessions.run(signal)]);
      await membership.ended();
    },
    /** Moves the membership to another address of the controller. Node and containers stay. */
    moveController: (url: string): void => provisioning.moveController(url),
    /** What is wrong with the controller at another address, for people; undefined where it answers and knows this node. */
    controllerProblemAt: (url: string, signal?: AbortSignal) => provisioning.problemAt(url, signal),
    /** Exchanges a join string for an identity. */
    provision: (text: string, signal?: AbortSignal): Promise<Node> => provisioning.provision(text, signal),
    /**
     * Ends the membership and begins to remove its containers; volumes stay. With the scope `local` the containers keep
     * running.
     */
    deprovision: (scope: Scope = 'all', signal?: AbortSignal) => provisioning.deprovision(scope, signal),
    /** Resolves when all containers of the agent are removed, or when the removal is stuck; returns the names that are left. */
    cleared: (signal: AbortSignal): Promise<string[]> => untilRemoved(supervisor, signal),
  };
}

/** A disk whose size cannot be known. */
const ENDLESS = { total: Infinity, available: Infinity };

/** Wires the parts of an agent. It is long because it names each dependency of each part once, and it has no logic. */
function createParts(config: Config, deps: AgentDependencies) {
  const { clock, random, log, database, machine } = deps;
  const startedAt = clock.wall();
  const metrics = createAgentMetrics();
  const identity = loadIdentity(deps.identity, database, log);
  const engine = deps.engine(identity.current.instance);
  const policyContext: PolicyContext = {
    policy: deps.policy ?? OPEN_POLICY,
    protectedPaths: deps.protectedPaths ?? [],
    places: deps.places ?? PLAIN_PLACES,
  };
  const cdiDevices = deps.cdiDevices && (() => deps.cdiDevices?.(engineFacts()?.cdiDirectories) ?? []);
  const responses = new SavedResponses({ database, log, metrics, changed: applyDesired });
  const adoption = new Adoption({
    engine,
    identity,
    database,
    log,
    isAlive: deps.isAlive ?? (async () => false),
    becameInstance: (instance) => {
      deps.instanceChanged?.(instance);
      membership.renew();
    },
  });
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
        timeZone: settings().timeZone ?? '',
        limits: machine.limits,
      },
      registries: responses.registries,
      views: viewsAsMade(responses.views, supervisor.desired),
      policy: policyContext.policy,
      artifactWait,
    }),
    machine: createMachineAccess(policyContext, { ...deps, cdiDevices }),
    adopt: (signal) => adoption.adopt(signal),
  });
  const content = new MountedContent({
    files: deps.mountedFiles ?? filesInMemory(clock.wall),
    clock,
    log,
    identity: () => identity.current,
    authority: deps.apiAuthority,
    retry: () => applyDesired(new Set()),
    supervisor: () => supervisor,
  });
  const engineFacts = (): EngineFacts | undefined =>
    supervisor.engine.state === 'connected' ? supervisor.engine.facts : undefined;
  const artifacts = deps.artifactFiles && createArtifacts(deps.artifactFiles);
  const inventory = new Inventory({
    engine,
    clock,
    log,
    supervisor,
    adoption,
    isWatching: () => isWatching(config, responses.wanted),
    isRemoving: () => isRemoving(config, responses.wanted),
  });
  const settingsSources = (): SettingsSources => ({
    config,
    wanted: responses.wanted,
    engine: { kind: engineFacts()?.kind, url: engine.url },
    foreignContainers: inventory.foreignContainers,
    hasInterface: (name) => machine.addresses(name) !== undefined,
  });
  const settings = (): AgentConfig => settingsInForce(settingsSources());
  const containers = () => supervisor.containers;
  const pruneArtifacts = async (kind?: ArtifactKind): Promise<PrunedArtifacts> =>
    artifacts?.prune(kind) ?? { names: [], bytes: 0 };
  const pruning = { engine, database, log, clock, random, machine, settings, containers, pruneArtifacts };
  const pruneAll = () => {
    prune(pruning).catch((error: unknown) => log.warn('Images are not pruned', { error: errorText(error) }));
    pruneArtifacts().catch(() => {});
  };
  const updater = createUpdater(deps, () => membership);
  const actions = new Actions({ database, log, executors: executorsOf(deps, updater, pruneAll) });
  const reporter = new Reporter({
    ...{ clock, startedAt, machine, identity, responses, actions, inventory, supervisor, engineFacts, settings },
    ...{ cdiDevices, content },
    membership: () => membership,
    refusedSettings: () => refusedSettings(settingsSources()),
    artifacts: () =>
      artifacts && {
        models: artifacts.statuses('models'),
        knowledge: artifacts.statuses('knowledge'),
        changedAt: artifacts.changedAt,
      },
    fileProblems: deps.fileProblems ?? (() => []),
    updater,
  });
  const membership = new Membership({
    ...{ config, clock, random, log, metrics, database, identity, responses, actions, settings },
    boot: randomUUID(),
    transport: deps.transport,
    controllerCa: deps.controllerCa,
    report: (measurements) => reporter.report(measurements),
    reported: () => updater?.confirm(),
    acknowledgeGone: (uuids) => supervisor.acknowledgeGone(uuids),
    sessionsChanged: () => sessions.changed(),
  });
  const sessions = new Sessions({
    ...{ engine, clock, random, log, ownLog: deps.ownLog, programs: deps.programs },
    client: () => membership.client,
    policy: () => policyContext.policy,
    containerOf: (uuid) => latestOf(supervisor.containers, uuid),
    stateOf: (uuid) => supervisor.statuses()?.find(({ id }) => id === uuid),
    runsOf: (uuid) => supervisor.record(uuid)?.runs,
    isSystem: (uuid) => supervisor.record(uuid)?.isSystem === true,
  });
  const provisioning = new Provisioning({
    ...{ config, log, machine, identity, responses, membership, actions },
    engineKind: () => engineFacts()?.kind ?? config.containerEngine,
    microservices: () => supervisor.present,
    adopt: () => adoption.adoptNow(supervisor),
    fetchAuthority: deps.fetchAuthority,
  });
  const applyLogging = (): void => {
    const { logLevel } = settings();
    deps.setLogging?.((logLevel?.toUpperCase() ?? config.logLevel) as LogLevel, settings());
  };

  /** Passes the desired entries to the supervisor, at the start and after each change. */
  function applyDesired(registries: ReadonlySet<number>): void {
    applyLogging();
    content.applyMounts(responses.volumeMounts);
    const desired = responses.desired({
      refusal: (view) => viewRefusal(view, responses.registries, policyContext),
      resolve: (view) => content.resolve(view),
      pullReference: (view) => pullReference(view, responses.registries),
    });
    content.applyAccounts(desired);
    supervisor.setDesired(desired);
    supervisor.registriesChanged(registries);
    artifacts?.look();
    artifacts?.registriesChanged(registries);
  }

  function createArtifacts(files: NonNullable<AgentDependencies['artifactFiles']>): Artifacts {
    const { architecture } = machine;
    return new Artifacts({
      ...{ ...files, clock, random, log, metrics },
      platform: { os: 'linux', architecture: architecture === 'auto' ? 'amd64' : architecture },
      sources: () => ({
        desired: responses.artifacts,
        entries: supervisor.desired,
        retains: responses.retains,
        containers: supervisor.hasLooked ? supervisor.containers : undefined,
        registries: responses.registries,
      }),
      reach: () => ({ policy: policyContext.policy, ownAddresses: deps.ownAddresses ?? (() => []) }),
      room: async () => {
        const { diskLimit = Infinity } = settings();
        return { ...((await machine.disk()) ?? ENDLESS), limit: diskLimit * 1024 ** 3 };
      },
      rateLimit: () => config.pullRateLimit * 1024 ** 2,
      imagesPulled: () => supervisor.isPulling,
      changed: () => {
        supervisor.wake();
        membership.changed();
      },
      progressed: () => membership.changed(),
    });
  }

  function artifactWait(uuid: string): ArtifactWait | undefined {
    if (artifacts) return artifacts.waitOf(uuid);
    const isBound = allCatalogs(supervisor.desired).some((catalog) => catalog.uuid === uuid);
    return isBound ? { failed: true, message: 'this machine keeps no models and no knowledge' } : undefined;
  }

  applyDesired(new Set());
  supervisor.onChange(() => {
    artifacts?.look();
    membership.changed();
    if (!identity.current.node) forgetGone(supervisor);
    content.tidy();
  });
  return {
    ...{ startedAt, metrics, identity, responses, policyContext, supervisor, membership, provisioning, inventory },
    ...{ reporter, adoption, settings, pruning, content, applyLogging, applyDesired, updater, actions, artifacts },
    sessions,
  };
}

/** What carries out version actions, where this agent is installed with a launcher. */
function createUpdater(deps: AgentDependencies, membership: () => Membership): Updater | undefined {
  const { updates, restart, clock, random, log, machine } = deps;
  if (!updates || !restart) return undefined;
  return new Updater({
    ...updates,
    ...{ clock, random, log, restart, version: AGENT_VERSION, architecture: machine.architecture },
    accessTo: (origin) => membership().client?.accessTo(origin) ?? {},
    requested: async (signal) => {
      const { client } = membership();
      if (!client) throw new Error('the agent is not provisioned');
      return client.version(signal);
    },
    changed: () => membership().changed(),
  });
}

/** The actions that this agent can carry out on its machine. */
function executorsOf(
  { restart }: AgentDependencies,
  updater: Updater | undefined,
  prune: () => void,
): Partial<Record<'reboot' | 'prune' | 'version', ActionExecutor>> {
  return {
    prune: { start: prune },
    // Done is what an earlier process has begun: this one was started after it.
    ...(restart && { reboot: { start: restart, isDone: (_digest, isEarlier) => isEarlier } }),
    ...(updater && {
      version: {
        start: (digest) => updater.begin(digest),
        isDone: (digest) => updater.isFinished(digest),
        forget: () => updater.forget(),
      },
    }),
  };
}

/** The views as they were sent, and those of what is to run as its containers are made. */
function viewsAsMade(
  sent: ReadonlyMap<string, MicroserviceView>,
  desired: readonly Entry[] | undefined,
): ReadonlyMap<string, MicroserviceView> {
  const made = (desired ?? []).flatMap((entry): [string, MicroserviceView][] =>
    entry.kind === 'run' ? [[entry.uuid, entry.view]] : [],
  );
  return new Map([...sent, ...made]);
}
