import { createHash, randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { BOUNDS } from '../../src/api/bounds.ts';
import {
  type AgentConfig,
  agentConfigSchema,
  type MicroserviceStatus,
  type MicroserviceView,
  type PortMapping,
  type StatusReport,
} from '../../src/wire/agent.ts';
import { type JoinString, parseJoinString } from '../../src/wire/node-token.ts';
import type { Digests } from '../../src/wire/sections.ts';
import { type Clock, jitter, pause, type Random } from './clock.ts';
import type { Config } from './config.ts';
import { desiredEntries, isReadable, keepOf, registries, unnamed, views, wantedSettings } from './desired.ts';
import type { ContainerSpec, Engine } from './engines/port.ts';
import { type Connection, ControllerClient, ControllerError, type Transport } from './link/client.ts';
import { Link, type OrderSection, StoreError } from './link/link.ts';
import { errorText, LOG_LEVELS, type Log, type LogLevel } from './log.ts';
import { architectureId, type Machine } from './machine.ts';
import { createAgentMetrics } from './metrics/metrics.ts';
import { AGENT_VERSION } from './names.ts';
import type { Step } from './plan/model.ts';
import { OPEN_POLICY, PLAIN_PLACES, type Places, type Policy, type PolicyContext, refusal } from './policy.ts';
import { pullTarget } from './registries/target.ts';
import { type Identity, type IdentityStore, type Node, newIdentity, newKey, publicPart } from './state/identity.ts';
import type { DocumentName, Store, StoredDocument } from './state/store.ts';
import { Supervisor } from './supervise/supervisor.ts';
import { type Usage, UsageReader } from './supervise/usage.ts';
import { signingKey } from './token.ts';

/** Everything that an agent needs of the world. A thousand of them can live in one process. */
export interface AgentPorts {
  clock: Clock;
  random: Random;
  log: Log;
  /** the engine that this agent's containers run on; told the instance id that they carry */
  engine(instance: string): Engine;
  store: Store;
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
  prepareMounts?: (spec: ContainerSpec, step: Extract<Step, { kind: 'create' }>) => void;
  /** whether some program of this machine has a port */
  portTaken?: (port: PortMapping) => Promise<boolean>;
  /** applies what the controller or the machine chose for the log */
  setLogging?: (level: LogLevel, settings: AgentConfig) => void;
  /** PEM of a further authority for the controller's certificate */
  controllerCa?: string;
  /** fetches the authority that a join string names */
  fetchAuthority?: (controllerUrl: string, digest: string) => Promise<string>;
}

/** An operation that cannot be done now, in the words of the local API. */
export class AgentError extends Error {
  readonly code: 'INVALID_ARGUMENT' | 'CONFLICT' | 'NOT_FOUND' | 'INTERNAL';
  constructor(code: AgentError['code'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'AgentError';
    this.code = code;
  }
}

const SECOND = 1000;
const HOUSEKEEPING = 600 * SECOND;

/** Settings that only the machine chooses; what a controller says of them is refused, and said so. */
const MACHINE_SETTINGS: readonly (keyof AgentConfig)[] = [
  'containerEngine',
  'containerEngineUrl',
  'diskDirectory',
  'logDirectory',
];

export type Agent = ReturnType<typeof createAgent>;

/** An agent: supervisor and link around one store. Holds no state outside of itself. */
export function createAgent(config: Config, ports: AgentPorts) {
  const { clock, random, log, store, machine } = ports;
  const startedAt = clock.wall();
  const boot = randomUUID();
  const { identity: loaded, isLost: identityLost } = loadIdentity(ports);
  let identity = loaded;
  const engine = ports.engine(identity.instance);
  const metrics = createAgentMetrics();
  const policyContext: PolicyContext = {
    policy: ports.policy ?? OPEN_POLICY,
    protectedPaths: ports.protectedPaths ?? [],
    places: ports.places ?? PLAIN_PLACES,
    reference: ({ imageId, registryId }) => pullTarget(imageId, registryViews.get(registryId)).reference,
  };

  let documents = store.documents();
  let seen = store.value('seen');
  let known = views(documents);
  let wanted = wantedSettings(documents);
  let registryViews = registries(documents);
  const orders: Record<string, { digest: string; count?: number }> = JSON.parse(store.value('orders') ?? '{}');

  const supervisor = new Supervisor({
    engine,
    store,
    clock,
    random,
    log,
    metrics,
    bootId: machine.bootId,
    specContext: () => ({
      instance: identity.instance,
      nodeUuid: identity.node?.uuid ?? '',
      volumesDirectory: join(config.diskDirectory, 'volumes'),
      timeZone: effective().timeZone ?? '',
      limits: machine.limits,
    }),
    pullTarget: (reference, registryId) => pullTarget(reference, registryViews.get(registryId)),
    registry: (id) => registryViews.get(id),
    refusal: (view) => refusal(view, policyContext),
    view: (uuid) => known.get(uuid),
    stopsRefused: () => policyContext.policy.stopRefused,
    prepareMounts: (spec, step) => ports.prepareMounts?.(spec, step),
    portTaken: ports.portTaken,
  });
  const usageReader = new UsageReader(() => clock.now());
  let usage = new Map<string, Usage>();

  /** names of containers on the same engine that are somebody else's; kept up while the watchdog is on */
  let strangers: readonly string[] | undefined;

  let link: { link: Link; client: ControllerClient; stop: AbortController; done: Promise<void> } | undefined;
  let running: AbortSignal | undefined;
  let busy = false;

  applyDocuments();

  /** Takes in what is stored: at the start, and after each change. */
  function applyDocuments(): void {
    known = views(documents);
    wanted = wantedSettings(documents);
    const changed = changedKeys(registryViews, registries(documents));
    registryViews = registries(documents);
    applyLogging();
    supervisor.setDesired(desiredEntries(documents, (view) => refusal(view, policyContext), here()));
    supervisor.registriesChanged(changed);
  }

  function applyLogging(): void {
    const settings = effective();
    ports.setLogging?.((settings.logLevel?.toUpperCase() ?? config.logLevel) as LogLevel, settings);
  }

  /** Microservices that are here, whoever wanted them. */
  function here(): string[] {
    return [...store.rows().values()].filter(({ gone }) => !gone).map(({ uuid }) => uuid);
  }

  const storeMark = {
    get: () => store.value('storeMark'),
    set(mark: string) {
      if (mark === store.value('storeMark')) return;
      try {
        store.saveValue('storeMark', mark);
      } catch (error) {
        // An older mark only makes this agent more careful.
        log.debug('The mark of the store could not be kept', { error: errorText(error) });
      }
    },
  };

  function saveDocuments(changed: ReadonlyMap<DocumentName, StoredDocument>): void {
    for (const [name, { body }] of changed)
      if (!isReadable(name, body))
        throw new ControllerError(
          'INTERNAL_ERROR',
          `the controller gave ${name} that cannot be read; the last ones stay`,
        );
    try {
      // First the mark: one that is ahead of the documents asks for newer ones, one that is behind would take older ones.
      if (store.value('seen') !== seen) store.saveValue('seen', seen);
      store.saveDocuments(changed);
    } catch (error) {
      metrics.add('storeErrors');
      throw new StoreError('the database does not take it', { cause: error });
    }
    documents = new Map([...documents, ...changed]);
    const keep = keepOf(documents);
    // With nothing to keep, this store is as good as the one before.
    if (keep?.store && unnamed(documents, here()).length === 0) storeMark.set(keep.store);
    if (keep)
      log.warn('The controller forgot what it had told; what runs here is kept', {
        microservices: unnamed(documents, here()).length,
      });
    applyDocuments();
    link?.link.changed();
  }

  /** What could not be saved is no trouble of the connection that it came over. */
  function save(act: () => void): void {
    try {
      act();
    } catch (error) {
      throw new StoreError('the database does not take it', { cause: error });
    }
  }

  /** The settings that are in force: the controller's where it has some and may, else the machine's. */
  function effective(): AgentConfig {
    const own = agentConfigSchema.partial().parse({
      networkInterface: config.networkInterface,
      containerEngine: supervisor.engine.state === 'connected' ? supervisor.engine.facts.kind : config.containerEngine,
      containerEngineUrl: engine.url,
      diskLimit: config.diskLimit,
      diskDirectory: config.diskDirectory,
      memoryLimit: config.memoryLimit,
      cpuLimit: config.cpuLimit,
      logLimit: config.logLimit,
      logDirectory: config.logDirectory,
      logFileCount: config.logFileCount,
      statusFrequency: config.statusFrequency,
      changeFrequency: config.changeFrequency,
      watchdogEnabled: false,
      edgeGuardFrequency: config.edgeGuardFrequency,
      gpsMode: config.gpsMode,
      gpsScanFrequency: config.gpsScanFrequency,
      logLevel: config.logLevel,
      pruningFrequency: config.pruningFrequency,
      availableDiskThreshold: config.availableDiskThreshold,
      timeZone: config.timeZone,
    } satisfies AgentConfig);
    const refused = new Set(refusedSettings().map(({ field }) => field));
    const taken = Object.entries(wanted).filter(([key]) => !refused.has(key));
    return { ...own, ...Object.fromEntries(taken) };
  }

  /** The watchdog reports; whose containers these are it cannot know, so it removes none. */
  function isWatching(): boolean {
    return wanted.watchdogEnabled === true || config.watchdogEnabled;
  }

  async function lookForStrangers(): Promise<void> {
    if (!isWatching() || supervisor.engine.state !== 'connected') return;
    try {
      strangers = await engine.strangers();
    } catch (error) {
      log.debug('Cannot list the containers of others', { error: errorText(error) });
    }
  }

  function refusedSettings(): { field: string; reason: string }[] {
    const refused: { field: string; reason: string }[] = [];
    for (const field of MACHINE_SETTINGS)
      if (wanted[field] !== undefined && wanted[field] !== config[field as keyof Config])
        refused.push({ field, reason: 'only the machine itself chooses this' });
    if (isWatching()) refused.push({ field: 'watchdogEnabled', reason: watchdogReport(strangers ?? []) });
    const level = wanted.logLevel?.toUpperCase();
    if (level !== undefined && !(LOG_LEVELS as readonly string[]).includes(level))
      refused.push({ field: 'logLevel', reason: `one of ${LOG_LEVELS.join(', ')}` });
    for (const field of ['statusFrequency', 'changeFrequency'] as const)
      if (wanted[field] === 0) refused.push({ field, reason: 'at least 1' });
    return refused;
  }

  function have(): Digests {
    const digests: Digests = {};
    for (const document of documents.values()) Object.assign(digests, document.digests);
    for (const [section, { digest }] of Object.entries(orders)) digests[section as OrderSection] = digest;
    return digests;
  }

  /** An order is noted before it is carried out: one that ends the process is not carried out for ever. */
  function carryOut(section: OrderSection, digest: string, count: number | undefined): void {
    if (orders[section]?.digest === digest) return;
    const noted = { ...orders, [section]: { digest, count } };
    save(() => store.saveValue('orders', JSON.stringify(noted)));
    Object.assign(orders, noted);
    if (section === 'prune') void prune();
    else log.warn('This version of the agent does not carry out such orders', { order: section });
    link?.link.changed();
  }

  /** Removes images that this agent pulled and that nothing of it uses any more. */
  async function prune(): Promise<{ id: string; reference: string }[]> {
    const used = new Set(supervisor.containers.map(({ imageId }) => imageId));
    for (const row of store.rows().values()) if (row.image) used.add(row.image.id);
    const removed: { id: string; reference: string }[] = [];
    for (const [id, reference] of store.images()) {
      if (used.has(id)) continue;
      try {
        await engine.removeImage(id);
        store.forgetImage(id);
        removed.push({ id, reference });
      } catch (error) {
        // Somebody else's container uses it.
        log.info('An image stays', { image: reference, error: errorText(error) });
      }
    }
    if (removed.length > 0) log.info('Pruned images', { removed: removed.length });
    return removed;
  }

  /** Prunes when the settings' time has come, and when the disk is fuller than they allow. */
  async function keepHouse(signal: AbortSignal): Promise<void> {
    let lastPrune = clock.now();
    while (!signal.aborted) {
      await pause(clock, jitter(HOUSEKEEPING, random), signal);
      if (signal.aborted) return;
      const { pruningFrequency = 0, availableDiskThreshold = 0 } = effective();
      const { systemAvailableDisk: free, systemTotalDisk: total } = await machine.measure();
      const full = free !== undefined && total !== undefined && (free / total) * 100 < availableDiskThreshold;
      const due = pruningFrequency > 0 && clock.now() - lastPrune >= pruningFrequency * 3600 * SECOND;
      if (!due && !full) continue;
      lastPrune = clock.now();
      await prune();
    }
  }

  async function measureUsage(): Promise<Map<string, Usage>> {
    usage = await usageReader.read(supervisor.containers);
    return usage;
  }

  function withUsage(status: MicroserviceStatus): MicroserviceStatus {
    const one = status.status === 'RUNNING' && status.containerId ? usage.get(status.containerId) : undefined;
    return one ? { ...status, cpuUsage: one.cpu, memoryUsage: one.memory } : status;
  }

  function microservices(): MicroserviceStatus[] | undefined {
    return supervisor.statuses()?.map(withUsage);
  }

  /** What keeps the agent from doing its work, for people. */
  function allTroubles(): string[] {
    const lost = identityLost && !identity.node;
    const skew = link?.client.skew;
    return [
      ...supervisor.troubles,
      ...(lost ? ['identity: it could not be read; what runs is kept, provision the agent again'] : []),
      ...(skew ? [`clock: this machine's said ${iso(skew.own)} when the controller's said ${iso(skew.theirs)}`] : []),
    ];
  }

  async function report(measurements: boolean): Promise<StatusReport> {
    if (measurements) await measureUsage();
    if (measurements || strangers === undefined) await lookForStrangers();
    const figures = measurements ? await machine.measure() : {};
    const troubles = allTroubles();
    const address = machine.addresses(config.networkInterface);
    const facts = supervisor.engine.state === 'connected' ? supervisor.engine.facts : undefined;
    // Only what was really done is echoed: the controller believes it.
    const counts = Object.entries(orders).filter(([name, { count }]) => name === 'prune' && count !== undefined);
    const refused = refusedSettings();
    const { memoryLimit = Infinity, cpuLimit = Infinity, diskLimit = Infinity } = effective();
    const violations = measurements && {
      memoryViolation: (figures.memoryUsage ?? 0) > memoryLimit * 1024 * 1024,
      cpuViolation: (figures.cpuUsage ?? 0) > cpuLimit,
      diskViolation: (figures.diskUsage ?? 0) > diskLimit,
    };
    return {
      ...figures,
      ...violations,
      daemonStatus: troubles.length > 0 ? 'WARNING' : 'RUNNING',
      warningMessage: troubles.join('; ').slice(0, 1024),
      daemonLastStart: startedAt,
      ...(measurements && { daemonOperatingDuration: clock.wall() - startedAt }),
      // Before the first look nothing is known of them, and nothing is said.
      microserviceStatus: withinReport(microservices()),
      repositoryCount: registryViews.size,
      ipAddress: address?.address,
      version: AGENT_VERSION,
      isReadyToUpgrade: false,
      isReadyToRollback: false,
      availableRuntimes: facts?.runtimes.filter((name) => name.length <= 64).slice(0, 64),
      config: effective(),
      refusedSettings: refused,
      orders: counts.length > 0 ? Object.fromEntries(counts.map(([name, { count }]) => [name, count])) : undefined,
    };
  }

  function newClient(controllerUrl: string, ca: string | undefined, node?: { uuid: string }): ControllerClient {
    const authorities = [ca, ports.controllerCa].filter(Boolean).join('\n');
    return new ControllerClient({
      controllerUrl,
      ca: authorities || undefined,
      insecure: !config.secureMode,
      instance: identity.instance,
      boot,
      clock,
      transport: ports.transport,
      seen: {
        get: () => seen,
        take: (mark) => {
          seen = mark;
        },
      },
      onAnswer: (path, code) => metrics.add('requests', { kind: requestKind(path), code }),
      storeMark,
      node: node && identity.nodeKey && { uuid: node.uuid, key: signingKey(identity.nodeKey) },
    });
  }

  /** Nothing of what a controller said counts any more, nor how far it had come: another one counts from elsewhere. */
  function forgetController(): void {
    store.forgetController();
    store.saveValue('seen', undefined);
    seen = undefined;
  }

  function startLink(): void {
    const { node } = identity;
    if (!node || !running || running.aborted) return;
    const stop = new AbortController();
    const client = newClient(node.controllerUrl, node.ca, node);
    const own = new Link({
      client,
      clock,
      random,
      log,
      have,
      store: saveDocuments,
      order: carryOut,
      deleting: () => save(() => store.saveValue('ending', 'deleteNode')),
      deleted: endRelation,
      report,
      reported: ({ microserviceStatus }) =>
        supervisor.acknowledgeGone(
          (microserviceStatus ?? []).filter(({ status }) => status === 'STOPPED').map(({ id }) => id),
        ),
      statusFrequency: () => effective().statusFrequency ?? config.statusFrequency,
      changeFrequency: () => effective().changeFrequency ?? config.changeFrequency,
    });
    const done = own.run(AbortSignal.any([stop.signal, running])).finally(() => client.close());
    link = { link: own, client, stop, done };
  }

  /** From here on no controller is obeyed: what it wanted is no longer wanted, and who we were is forgotten. */
  function endRelation(): void {
    link?.stop.abort();
    link = undefined;
    forgetController();
    const nothing: [DocumentName, StoredDocument] = ['microservices', { digests: {}, body: '{"microservices":[]}' }];
    store.saveDocuments(new Map([nothing]));
    for (const section of Object.keys(orders)) delete orders[section];
    store.saveValue('orders', undefined);
    store.saveValue('ending', undefined);
    store.saveValue('storeMark', undefined);
    const { instance, localKey } = identity;
    identity = { instance, localKey };
    ports.identity.save(identity);
    documents = store.documents();
    applyDocuments();
    log.info('No longer provisioned');
  }

  function finishEnding(): void {
    try {
      endRelation();
    } catch (error) {
      log.error('Cannot forget the controller that has deleted this node', { error: errorText(error) });
    }
  }

  supervisor.onChange(() => {
    link?.link.changed();
    // With nobody to tell, there is nothing to keep for telling.
    if (!identity.node) {
      const gone = (supervisor.statuses() ?? []).filter(({ id }) => supervisor.row(id)?.gone).map(({ id }) => id);
      supervisor.acknowledgeGone(gone);
    }
  });

  return {
    config,
    supervisor,
    store,
    prune,
    effective,
    microservices,
    measureUsage,
    report,
    startedAt,
    /** The machine's own settings are others now. */
    settingsChanged: () => applyLogging(),
    metrics,
    machine,
    /** milliseconds that the controller's clock is ahead of ours, as far as that is known */
    get clockOffset(): number {
      return link?.client.offset ?? 0;
    },
    /** From now on this is what the machine allows. What runs runs on, unless the policy says otherwise. */
    setPolicy(policy: Policy): void {
      policyContext.policy = policy;
      applyDocuments();
      supervisor.policyChanged();
      link?.link.changed();
    },
    get identity(): Identity {
      return identity;
    },
    get troubles(): string[] {
      return allTroubles();
    },
    /** The view of a microservice, as the controller last sent it or as it last ran. */
    view: (uuid: string): MicroserviceView | undefined => known.get(uuid) ?? supervisor.row(uuid)?.lastGood,
    get connection(): { state: Connection; error: string; lastContact: number } {
      return link?.link.connection ?? { state: 'NOT_PROVISIONED', error: '', lastContact: 0 };
    },

    /** Supervises and keeps in touch until the signal fires. Containers run on. */
    async run(signal: AbortSignal): Promise<void> {
      running = signal;
      // The controller had ended the relation, and we died before it was ended here.
      if (store.value('ending') !== undefined) finishEnding();
      log.info('Starting', { version: AGENT_VERSION, instance: identity.instance, node: identity.node?.uuid });
      startLink();
      await Promise.all([supervisor.run(signal), keepHouse(signal)]);
      await link?.done;
    },

    /** Exchanges a join string for an identity. The key pair is made and stored before anything is sent. */
    async provision(text: string, signal?: AbortSignal): Promise<Node> {
      const join = readJoinString(text, config.controllerUrl);
      // A controller that proves not to know this identity may give another: everything runs on under the new one.
      if (identity.node && link?.link.connection.state !== 'UNAUTHORIZED')
        throw new AgentError(
          'CONFLICT',
          `already provisioned as node ${identity.node.name ?? identity.node.uuid}; deprovision first`,
        );
      if (busy) throw new AgentError('CONFLICT', 'another provisioning or deprovisioning is under way');
      busy = true;
      try {
        return await provisionWith(join, signal);
      } finally {
        busy = false;
      }
    },

    /** Ends the relation to the controller; microservices are stopped and removed, volumes stay. */
    async deprovision(signal?: AbortSignal): Promise<{ controllerTold: boolean }> {
      if (!identity.node) throw new AgentError('CONFLICT', 'the agent is not provisioned');
      if (busy) throw new AgentError('CONFLICT', 'another provisioning or deprovisioning is under way');
      busy = true;
      try {
        const uuids = (supervisor.statuses() ?? []).map(({ id }) => id);
        const controllerTold = await tellDeprovision(uuids, signal);
        endRelation();
        return { controllerTold };
      } finally {
        busy = false;
      }
    },
  };

  async function tellDeprovision(uuids: string[], signal?: AbortSignal): Promise<boolean> {
    const deadline = AbortSignal.timeout(15 * SECOND);
    try {
      await link?.client.deprovision(uuids, signal ? AbortSignal.any([signal, deadline]) : deadline);
      return true;
    } catch (error) {
      log.warn('The controller could not be told', { error: errorText(error) });
      return false;
    }
  }

  async function provisionWith({ controllerUrl, key, caDigest }: JoinString, signal?: AbortSignal): Promise<Node> {
    const keyDigest = createHash('sha256').update(key).digest('hex');
    // The same key again after an answer that was lost: the controller knows our public key and answers once more.
    const before = identity;
    const again = identity.joining?.keyDigest === keyDigest && identity.joining.controllerUrl === controllerUrl;
    if (!again || !identity.nodeKey) {
      identity = { ...identity, nodeKey: newKey(), joining: { controllerUrl, keyDigest } };
      ports.identity.save(identity);
    }
    const nodeKey = identity.nodeKey;
    if (!nodeKey) throw new AgentError('INTERNAL', 'there is no node key');
    const ca = caDigest ? await authorityOf(controllerUrl, caDigest) : undefined;
    const client = newClient(controllerUrl, ca);
    try {
      const reply = await client.provision(
        {
          key,
          type: architectureId(machine.architecture),
          engine: supervisor.engine.state === 'connected' ? supervisor.engine.facts.kind : config.containerEngine,
          publicKey: publicPart(nodeKey),
        },
        signal,
      );
      const node: Node = { uuid: reply.uuid, name: reply.name, namespace: reply.namespace, controllerUrl, ca };
      const { joining, ...rest } = identity;
      link?.stop.abort();
      link = undefined;
      // What an earlier controller wanted is not what this one wants.
      forgetController();
      documents = store.documents();
      applyDocuments();
      identity = { ...rest, node };
      ports.identity.save(identity);
      log.info('Provisioned', { node: node.uuid, name: node.name, controllerUrl });
      startLink();
      return node;
    } catch (error) {
      // Who we were counts on, should that controller come back to its senses.
      if (before.node) {
        identity = before;
        ports.identity.save(identity);
      }
      throw provisionTrouble(error);
    } finally {
      client.close();
    }
  }

  async function authorityOf(controllerUrl: string, digest: string): Promise<string> {
    if (!ports.fetchAuthority) throw new AgentError('INTERNAL', 'no way to fetch a certificate authority');
    try {
      return await ports.fetchAuthority(controllerUrl, digest);
    } catch (error) {
      throw new AgentError('INVALID_ARGUMENT', errorText(error), { cause: error });
    }
  }
}

const REQUEST_KINDS: readonly [RegExp, string][] = [
  [/^\/agent\/changes/, 'poll'],
  [/^\/agent\/status/, 'report'],
  [/^\/agent\/(config|registries|microservices)/, 'document'],
];

/** What a request to the controller is for, as the metrics tell it. */
function requestKind(path: string): string {
  return REQUEST_KINDS.find(([pattern]) => pattern.test(path))?.[1] ?? 'other';
}

/** The keys whose values differ, or that only one of the maps has. */
function changedKeys<K, V>(before: ReadonlyMap<K, V>, after: ReadonlyMap<K, V>): Set<K> {
  const keys = new Set([...before.keys(), ...after.keys()]);
  return new Set([...keys].filter((key) => JSON.stringify(before.get(key)) !== JSON.stringify(after.get(key))));
}

/** What the watchdog has seen, as long as the wire lets it be. */
function watchdogReport(strangers: readonly string[]): string {
  const reason = 'this agent never removes containers that are not its own';
  if (strangers.length === 0) return reason;
  const text = `${reason}; there ${strangers.length === 1 ? 'is 1' : `are ${strangers.length}`}: ${strangers.join(', ')}`;
  return text.length <= REASON_LENGTH ? text : `${text.slice(0, REASON_LENGTH - 4)} ...`;
}

/** of a refused setting in a report */
const REASON_LENGTH = 256;

const iso = (time: number) => new Date(time).toISOString();

/** As many as one report may hold; what is gone gives way to what is there. */
function withinReport(list: MicroserviceStatus[] | undefined): MicroserviceStatus[] | undefined {
  if (!list || list.length <= BOUNDS.report) return list;
  return [...list]
    .sort((a, b) => Number(a.status === 'STOPPED') - Number(b.status === 'STOPPED'))
    .slice(0, BOUNDS.report);
}

/** A join string, or a bare key for the controller that the settings name. */
function readJoinString(text: string, controllerUrl: string | undefined): JoinString {
  try {
    const bare = /^[A-Za-z0-9-]{8,255}$/.test(text.trim()) && controllerUrl !== undefined;
    if (bare) return { controllerUrl: new URL(controllerUrl).origin, key: text.trim() };
    return parseJoinString(text.trim());
  } catch (error) {
    throw new AgentError('INVALID_ARGUMENT', errorText(error), { cause: error });
  }
}

/** What a failed provisioning means for whoever ordered it. */
function provisionTrouble(error: unknown): AgentError {
  if (!(error instanceof ControllerError)) return new AgentError('INTERNAL', errorText(error), { cause: error });
  const { status } = error;
  if (status === 404)
    return new AgentError(
      'INVALID_ARGUMENT',
      'the controller does not know this key: it was used, replaced, or never given',
      { cause: error },
    );
  if (status === 401)
    return new AgentError('INVALID_ARGUMENT', 'the key has expired; ask for a new one', { cause: error });
  if (status >= 400 && status < 500) return new AgentError('INVALID_ARGUMENT', errorText(error), { cause: error });
  return new AgentError('INTERNAL', errorText(error), { cause: error });
}

/**
 * The identity that is kept, or a new one that is kept from now on. A disk that does not take it is no reason not to look
 * after what runs.
 */
function loadIdentity({ identity, store, log }: AgentPorts): { identity: Identity; isLost: boolean } {
  const attempt = <T>(act: () => T): T | undefined => {
    try {
      return act();
    } catch (error) {
      log.error('Cannot read or keep the identity', { error: errorText(error) });
      return undefined;
    }
  };
  const known = attempt(() => identity.load());
  const instance = store.value('instance');
  const current = known ?? newIdentity(instance);
  if (!known) attempt(() => identity.save(current));
  if (instance !== current.instance) attempt(() => store.saveValue('instance', current.instance));
  return { identity: current, isLost: !known && instance !== undefined };
}
