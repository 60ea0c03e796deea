import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { ARCHITECTURES, type Architecture } from '../../src/api/names.ts';
import type { AgentConfig } from '../../src/wire/agent.ts';
import { BusServer } from './bus/bus-server.ts';
import { Images } from './content/images/images.ts';
import { SystemFiles } from './content/system-files/system-files.ts';
import { MountedContent } from './content/volume-mounts/mounted-content.ts';
import { Volumes } from './content/volumes/volumes.ts';
import type { AgentDependencies } from './dependencies.ts';
import type { ArtifactKind } from './domain/artifact.ts';
import type { Config, LogLevel } from './domain/config.ts';
import { isControlPlaneUuid } from './domain/local-uuid.ts';
import { AGENT_VERSION } from './domain/names.ts';
import type { Part } from './domain/part.ts';
import type { PolicyContext } from './domain/policy.ts';
import {
  isRemoving,
  isWatching,
  refusedSettings,
  type SettingsSources,
  settingsInForce,
  timeZoneInForce,
} from './domain/settings.ts';
import { setPath } from './domain/system-files.ts';
import { latestOf } from './engine-port/container.ts';
import { Actions } from './link/actions.ts';
import { EdgeGuard } from './link/edge-guard.ts';
import { Link } from './link/link.ts';
import { Membership } from './link/membership.ts';
import { Provisioning } from './link/provisioning.ts';
import { Reporter } from './link/reporter.ts';
import { SavedResponses } from './link/saved-responses.ts';
import { LocalArtifacts } from './local/artifacts.ts';
import { MachineControlPlane } from './local/control-plane.ts';
import { OwnMicroservices } from './local/own-microservices.ts';
import { LocalRegistries } from './local/registries.ts';
import { LocalRuntimeClasses } from './local/runtime-classes.ts';
import { createAgentMetrics } from './local-api/routes/probes/metrics-page.ts';
import { Position } from './position/position.ts';
import { RouterPart } from './router/router.ts';
import { Sessions } from './sessions/sessions.ts';
import { LocalTokens } from './state/local-tokens.ts';
import { loadIdentity } from './state/own-identity.ts';
import { Adoption } from './supervise/adoption.ts';
import { type ApplyDependencies, applyDesired } from './supervise/apply.ts';
import { ChangeNotifier } from './supervise/change-notifier.ts';
import { createMachineAccess } from './supervise/executors/machine-access.ts';
import { Inventory } from './supervise/inventory.ts';
import { pruneAll } from './supervise/pruning.ts';
import { forgetGone } from './supervise/removal.ts';
import { Supervisor } from './supervise/supervisor.ts';
import { wantedImages } from './supervise/wanted-images.ts';
import { Tunnel } from './tunnel/tunnel.ts';
import { Updater } from './update/updater.ts';

/** A disk whose size cannot be known. */
const ENDLESS = { total: Infinity, available: Infinity };

/**
 * Makes the parts of an agent, each after the parts that it is given; only events lead back. It is long because it names
 * each dependency of each part once.
 */
export function createParts(config: Config, deps: AgentDependencies) {
  const { clock, random, log, database, machine } = deps;
  const architecture = machine.architecture === 'auto' ? 'amd64' : machine.architecture;
  const startedAt = clock.wall();
  /** of this process */
  const life = { isStopping: false, settingsSince: startedAt };
  const metrics = createAgentMetrics();
  const identity = loadIdentity(deps.identity, database, log);
  const engine = deps.engine(identity.current.instance);
  const policy: PolicyContext = {
    policy: deps.policy,
    protectedPaths: deps.protectedPaths,
    places: deps.places,
  };
  const volumesDirectory = join(config.diskDirectory, 'volumes');
  const responses = new SavedResponses({ database, log, metrics });
  const link = new Link();
  const adoption = new Adoption({ engine, identity, database, log, isAlive: deps.isAlive });
  const supervisor = new Supervisor({
    ...{ engine, database, clock, random, log, metrics },
    bootId: machine.bootId,
    sources: () => ({
      machine: {
        instance: identity.current.instance,
        nodeUuid: identity.current.node?.uuid ?? '',
        scopeOf: (uuid) => (own.owns(uuid) ? 'local' : 'managed'),
        volumesDirectory,
        timeZone: timeZoneInForce({ config, wanted: responses.sent.config }),
        limits: machine.limits,
      },
      registries: own.within(responses.sent).registries,
      views: own.viewsWith(responses.sent.microservices?.views),
      policy: policy.policy,
    }),
    noteStop: (uuid, isStopped) => own.noteStop(uuid, isStopped),
    machine: createMachineAccess(policy, { ...deps, whileVolumesStay: (make) => volumes.whileVolumesStay(make) }),
    adopt: (signal) => adoption.adopt(signal),
  });
  const own = new OwnMicroservices({
    ...{ rows: deps.ownMicroservices, clock, log, observed: supervisor },
    settle: () => membership.clear(),
    isEnding: () => identity.current.ending !== undefined,
    hasVolumes: (uuid) => volumes.hasPrivate(uuid),
    controlPlanesWithVolumes: () => volumes.controlPlanes,
    registries: () => registries.views,
    runtimeOf: (name) => runtimeClasses.runtimeOf(name),
    changed: () => changed(),
  });
  const changed = (numbers?: ReadonlySet<number>): void => {
    apply(numbers);
    link.changed();
  };
  const controlPlane = new MachineControlPlane({
    ...{ clock, log, own, observed: supervisor },
    volumes: { destroyOfControlPlane: (uuid) => volumes.destroyOfControlPlane(uuid) },
    status: (uuid) => supervisor.statuses()?.find(({ id }) => id === uuid),
    node: () => identity.current.node?.uuid,
    archId: Math.max(ARCHITECTURES.indexOf(architecture as Architecture), 1),
    register: (body, signal) => link.registerController(body, signal),
  });
  const registries = new LocalRegistries({
    ...{ rows: deps.localRegistries, clock, log, changed },
    policy: () => policy.policy,
    usersOf: (number) => [
      ...own.namesOfUsers(({ registryId }) => registryId === number),
      ...localArtifacts.usersOf(number),
    ],
  });
  const runtimeClasses = new LocalRuntimeClasses({
    ...{ rows: deps.localRuntimeClasses, clock, log },
    facts: () => supervisor.facts,
    managed: () => responses.sent.runtimeClasses,
    usersOf: (name) => own.usersOf(({ runtime }) => runtime === name),
    changed: () => changed(),
  });
  const inventory = new Inventory({
    ...{ engine, clock, log, supervisor, adoption },
    isWatching: () => isWatching(config, responses.sent.config),
    isRemoving: () => isRemoving(config, responses.sent.config),
  });
  /** without what a part finds, which reads its own settings here */
  const chosen = (): SettingsSources => ({
    config,
    wanted: responses.sent.config,
    engine: { kind: supervisor.facts?.kind, url: engine.url },
    foreignContainers: inventory.foreignContainers,
    hasInterface: (name) => machine.addresses(name) !== undefined,
  });
  const settingsSources = (): SettingsSources => ({ ...chosen(), position: position.reported });
  const settings = (): AgentConfig => settingsInForce(settingsSources());
  const applyLogging = (): void => {
    const { logLevel } = settings();
    deps.setLogging((logLevel?.toUpperCase() ?? config.logLevel) as LogLevel, settings());
  };

  const position: Position = new Position({
    ...{ config, clock, random, log, readDevice: deps.readDevice, lookUp: deps.lookUp },
    settings: () => settingsInForce(chosen()),
    changed: () => link.changed(),
  });
  const edgeGuard = new EdgeGuard({
    ...{ config, clock, log, identity, hardware: () => machine.hardware() },
    changed: () => {
      membership.refusalChanged();
      link.changed();
    },
  });
  const tokens = new LocalTokens({ clock, log, identity, rows: deps.revocations });
  const content = new MountedContent({
    files: deps.mountedFiles,
    ...{ clock, log, tokens, observed: supervisor },
    identity: () => identity.current,
    namespace: () => config.namespace,
    authority: deps.apiAuthority,
  });
  tokens.onRevoked(() => content.prepare(supervisor.desired));
  const volumes = new Volumes({
    directory: volumesDirectory,
    ...{ database, clock, log, engine, observed: supervisor, places: deps.places, mountsInUse: deps.mountsInUse },
    views: () => own.viewsWith(responses.sent.microservices?.views),
    sourceOf: (uuid) => (own.owns(uuid) ? 'local' : 'managed'),
    isControlPlane: isControlPlaneUuid,
  });
  const systemFiles = new SystemFiles({
    files: deps.mountedFiles,
    ...{ clock, random, log, observed: supervisor },
    listDigest: () => responses.digests.systemFiles,
    fetch: (digests, limit, signal) => link.systemFileContents(digests, limit, signal),
    changed: () => link.changed(),
  });
  const artifacts = deps.artifacts({
    ...{ clock, random, log, metrics },
    platform: { os: 'linux', architecture },
    observed: supervisor,
    own: () => localArtifacts.own,
    reach: () => ({ policy: policy.policy, ownAddresses: deps.ownAddresses }),
    room: async () => {
      const { diskLimit = Infinity } = settings();
      return { ...((await machine.disk()) ?? ENDLESS), limit: diskLimit * 1024 ** 3 };
    },
    rateLimit: () => config.pullRateLimit * 1024 ** 2,
    imagesPulled: () => supervisor.isPulling,
    changed: () => {
      supervisor.wake();
      link.changed();
    },
    progressed: () => link.changed(),
  });
  const localArtifacts = new LocalArtifacts({
    ...{ rows: deps.localArtifacts, clock, log, registries, contents: artifacts },
    boundBy: (kind, name) => own.namesOfUsers((view) => view[kind]?.items.some((item) => item.name === name) === true),
    isWatchdogOn: () => config.watchdogEnabled,
    changed: () => changed(),
  });
  const updater =
    deps.updates &&
    new Updater({
      ...{ ...deps.updates, clock, random, log, restart: deps.restart },
      ...{ version: AGENT_VERSION, architecture: machine.architecture },
      accessTo: (url) => link.accessTo(url),
      requested: (signal) => link.version(signal),
      changed: () => link.changed(),
    });
  const sessions = new Sessions({
    ...{ engine, clock, random, log, ownLog: deps.ownLog, programs: deps.programs },
    client: () => link.client,
    policy: () => policy.policy,
    containerOf: (uuid) => latestOf(supervisor.containers, uuid),
    stateOf: (uuid) => supervisor.statuses()?.find(({ id }) => id === uuid),
    runsOf: (uuid) => supervisor.record(uuid)?.runs,
    isSystem: (uuid) => supervisor.record(uuid)?.isSystem === true,
    isOwn: (uuid) => own.owns(uuid),
  });
  const tunnel = new Tunnel({
    ...{ client: deps.ssh, clock, random, log },
    isAllowed: () => policy.policy.tunnel,
    changed: () => link.changed(),
  });
  const busServer = new BusServer({
    ...{ clock, random, log },
    read: (set) => deps.mountedFiles.read(setPath(set)),
    changedAt: (set) => deps.mountedFiles.changedAt(setPath(set)),
    changed: () => link.changed(),
  });
  const router = new RouterPart({
    ...{ clock, random, log },
    read: (set) => deps.mountedFiles.read(setPath(set)),
    changedAt: (set) => deps.mountedFiles.changedAt(setPath(set)),
    changed: () => link.changed(),
  });
  /** of what microservices are and may do */
  const roles = new ChangeNotifier(clock);
  const further: readonly Part[] = [
    { look: () => roles.notify(), observed: () => roles.notify() },
    ...(updater ? [updater] : []),
    sessions,
    tunnel,
    busServer,
    router,
    position,
    edgeGuard,
  ];
  const parts: readonly Part[] = [
    content,
    volumes,
    systemFiles,
    artifacts,
    own,
    controlPlane,
    registries,
    localArtifacts,
    runtimeClasses,
    ...further,
  ];

  const imagesWanted = () => wantedImages(supervisor, own.within(responses.sent).registries, controlPlane.former);
  const images = new Images({
    ...{ engine, log, architecture },
    policy: () => policy.policy,
    registry: (id) => registries.all.find((registry) => registry.id === id),
    connection: () => supervisor.connection,
    pull: (request, onProgress, signal) => supervisor.pullByHand(request, onProgress, signal),
    room: async () => {
      const { dataDirectory } = supervisor.facts ?? {};
      // The directory of an engine on another machine says nothing here.
      return dataDirectory && engine.url.startsWith('unix:') ? machine.diskAt(dataDirectory) : undefined;
    },
    usersOf: (name) => imagesWanted().get(name) ?? [],
    pulledAs: (id) => database.images().get(id),
    applicationOf: (uuid) => responses.sent.microservices?.views.get(uuid)?.application,
    disown: (id) => supervisor.forgetImage(id),
  });

  const pruning = {
    ...{ engine, database, log, clock, random, machine, settings },
    containers: () => supervisor.containers,
    wantedReferences: () => new Set(imagesWanted().keys()),
    pruneArtifacts: (kind?: ArtifactKind) => artifacts.prune(kind),
  };
  const actions = new Actions({
    ...{ database, log },
    executors: {
      prune: { start: () => pruneAll(pruning) },
      // Done is what an earlier process has begun: this one was started after it.
      reboot: { start: deps.restart, isDone: (_digest, isEarlier) => isEarlier },
      ...(updater && { version: updater.executor }),
    },
  });
  const reporter = new Reporter({
    ...{ clock, startedAt, machine, identity, responses, actions, inventory, supervisor, settings, parts, link },
    reported: (statuses) => own.reported(statuses),
    runtimeClasses: () => runtimeClasses.all,
    cdiDevices: deps.cdiDevices,
    refusedSettings: () => refusedSettings(settingsSources()),
    fileProblems: deps.fileProblems,
    phase: () => {
      if (life.isStopping) return 'stopping';
      return supervisor.hasLooked || supervisor.engineProblem !== undefined ? 'running' : 'starting';
    },
  });
  const membership: Membership = new Membership({
    ...{ config, clock, random, log, metrics, database, identity, link, responses, actions, settings },
    own: { keep: () => own.keep(responses.sent), removeAll: () => own.removeAll() },
    boot: randomUUID(),
    transport: deps.transport,
    controllerCa: deps.controllerCa ?? (() => undefined),
    refusal: () => edgeGuard.refusal,
    report: (measurements) => reporter.report(measurements),
    reported: () => updater?.confirm(),
    acknowledgeGone: (uuids) => supervisor.acknowledgeGone(uuids),
    sessionsChanged: () => sessions.changed(),
  });
  const provisioning = new Provisioning({
    ...{ config, log, machine, identity, responses, membership, actions },
    engineKind: () => supervisor.facts?.kind ?? config.containerEngine,
    // Those deployed here may wait for their image, without a container.
    microservices: () => [...new Set([...supervisor.present, ...own.usersOf(() => true).map(({ uuid }) => uuid)])],
    isMachinesOwn: (uuid) => own.owns(uuid),
    adopt: () => adoption.adoptNow(supervisor),
    refusal: () => edgeGuard.refusal,
    fetchAuthority: deps.fetchAuthority,
  });

  const wanted: ApplyDependencies['wanted'] = {
    get sent() {
      return own.within(responses.sent);
    },
    desired: (rules) => own.desired(responses.desired(rules), rules),
  };
  const applied = { wanted, policy, parts, supervisor, settingsChanged: applyLogging };
  const apply = (registries?: ReadonlySet<number>): void => applyDesired(applied, registries);
  apply();
  responses.onChange(apply);
  adoption.onAdopted((instance) => {
    deps.instanceChanged(instance);
    membership.renew();
  });
  supervisor.onChange(() => {
    link.changed();
    if (!identity.current.node) forgetGone(supervisor);
    for (const part of parts) part.observed?.();
  });
  return {
    ...{ startedAt, metrics, identity, tokens, policy, responses, link, adoption, supervisor, inventory, settings },
    pruning,
    ...{
      content,
      own,
      ...{ controlPlane, registries, localArtifacts, runtimeClasses },
      volumes,
      images,
      systemFiles,
      artifacts,
      sessions,
      tunnel,
      roles,
      parts,
      actions,
      reporter,
      membership,
      provisioning,
      apply,
      applyLogging,
      position,
      edgeGuard,
      life,
      settingsSources,
    },
  };
}
