import { createTokenBuckets } from '../../src/lib/token-bucket.ts';
import type { MicroserviceView } from '../../src/wire/agent.ts';
import type { AgentDependencies } from './dependencies.ts';
import type { ArtifactItem, ArtifactKind } from './domain/artifact.ts';
import type { Config } from './domain/config.ts';
import { isControlPlaneUuid } from './domain/local-uuid.ts';
import { AGENT_VERSION } from './domain/names.ts';
import type { Policy } from './domain/policy.ts';
import { controlledSettings } from './domain/settings.ts';
import type { MicroserviceSource } from './domain/wanted.ts';
import type { OtherAgentContainer } from './engine-port/ownership.ts';
import type { Scope } from './link/membership.ts';
import type { ManifestMicroservice } from './local/manifest.ts';
import { deployRefusal } from './local/refusal.ts';
import { resumeApply } from './local-api/routes/deploy/control-plane.ts';
import { createOperations } from './local-api/routes/operations.ts';
import { createParts } from './parts.ts';
import type { Identity, Node } from './state/identity.ts';
import { type PrunedImages, pruneImages, runPruning } from './supervise/pruning.ts';
import { untilRemoved } from './supervise/removal.ts';

export type Agent = ReturnType<typeof createAgent>;

/** Builds an agent: a supervisor of containers and a membership at a controller, around one database. */
export function createAgent(config: Config, deps: AgentDependencies) {
  const { startedAt, metrics, identity, tokens, policy, responses, link, adoption, ...rest } = createParts(
    config,
    deps,
  );
  const { supervisor, inventory, settings, pruning, content, images, systemFiles, artifacts, sessions, tunnel, parts } =
    rest;
  const { actions, reporter, membership, provisioning, own, volumes, apply, applyLogging } = rest;
  const { position, edgeGuard, life } = rest;
  const { controlPlane, registries, localArtifacts, runtimeClasses } = rest;
  const { clock, log, database, machine } = deps;
  /** of everything that was begun for the local API */
  const over = new AbortController();
  const agent = {
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
    prune: (): Promise<PrunedImages> => pruneImages(pruning),
    images,
    /** the models or knowledge of this machine */
    artifacts: (kind: ArtifactKind): ArtifactItem[] => artifacts.items(kind),
    /** the volumes of this machine */
    volumes,
    /** the volume mounts of this machine, without their content */
    volumeMounts: () => content.items,
    /** the sets of the system's files on this machine, without their content */
    systemFiles: () => systemFiles.items,
    /** Removes the models and knowledge that nothing uses. */
    pruneArtifacts: pruning.pruneArtifacts,
    /** Containers of agents that no longer exist, of any node. */
    orphans: (signal?: AbortSignal) => adoption.orphans(signal),
    async removeOrphans(names: readonly string[], signal?: AbortSignal): Promise<OtherAgentContainer[]> {
      const removed = await adoption.removeOrphans(names, signal);
      await inventory.refreshOrphans(signal);
      link.changed();
      return removed;
    },
    /** The machine's own settings have changed; `isTrustOther`: how the controller is verified as well. */
    settingsChanged({ isTrustOther = false } = {}): void {
      life.settingsSince = deps.clock.wall();
      applyLogging();
      edgeGuard.settingsChanged();
      position.settingsChanged();
      if (isTrustOther) membership.renew();
      link.changed();
    },
    /** the settings that the controller has set, as far as they are in force */
    controlled: () => controlledSettings(rest.settingsSources()),
    get settingsSince(): number {
      return life.settingsSince;
    },
    /** what gpsMode auto or dynamic has found */
    get fix() {
      return position.fix;
    },
    get edgeGuard() {
      return edgeGuard.view;
    },
    /** Makes this machine the one of the identity. Throws AgentError where there is nothing to accept. */
    acceptMachine: (): void => edgeGuard.accept(),
    /** The agent ends. */
    stopping(): void {
      life.isStopping = true;
      link.changed();
    },
    /** Stops all containers within so many ms; they stay stopped until the agent starts again. */
    drain: (milliseconds: number) => supervisor.drain(milliseconds),
    positionChanges: createTokenBuckets({ clock, perSecond: 1 / 60, burst: 5 }),
    /** Wakes the reporter: the state of this machine has changed. */
    changed: () => link.changed(),
    /** milliseconds that the controller's clock is ahead of the agent's, 0 while unknown */
    get clockOffset(): number {
      return link.client?.offset ?? 0;
    },
    /** sessions of users on this machine */
    sessions: sessions.local,
    /** Replaces the policy. Containers keep running, unless the policy has `stopRefused`. */
    setPolicy(next: Policy): void {
      policy.policy = next;
      apply();
      supervisor.policyChanged();
      sessions.changed();
      link.changed();
    },
    /** tokens of the local API */
    tokens,
    get identity(): Identity {
      return identity.current;
    },
    get problems(): string[] {
      return reporter.problems;
    },
    /** the state of the tunnel; undefined without one */
    get tunnel() {
      return tunnel.state;
    },
    /** The view of a microservice, as it was last sent or deployed, or as it last ran. */
    view: (uuid: string): MicroserviceView | undefined =>
      own.viewOf(uuid, responses.sent.microservices?.views) ?? supervisor.record(uuid)?.lastGood,
    /** The view of a microservice that a controller wants here, for what its role grants. */
    viewWithRules: (uuid: string): MicroserviceView | undefined => {
      const isWanted = supervisor.desired.some((entry) => entry.uuid === uuid) || !supervisor.isUnwanted(uuid);
      if (own.owns(uuid) || !isWanted) return undefined;
      const { views, heldAccounts } = responses.sent.microservices ?? {};
      const view = views?.get(uuid) ?? supervisor.record(uuid)?.lastGood;
      const serviceAccount = heldAccounts?.get(uuid);
      return view && serviceAccount ? { ...view, serviceAccount } : view;
    },
    /** Calls a listener when microservices may be, or may do, something else. Returns how to stop listening. */
    onRolesChanged: (listener: () => void) => rest.roles.onChange(listener),
    /** who wants a microservice: a controller, or the machine itself */
    sourceOf: (uuid: string): MicroserviceSource => {
      if (isControlPlaneUuid(uuid)) return 'controlplane';
      return own.owns(uuid) ? 'local' : 'managed';
    },
    /** the microservices of the machine itself */
    own,
    /** Why this machine takes no such microservice, for people. */
    refusalOf: (microservice: Pick<ManifestMicroservice, 'registry' | 'view'>): string | undefined =>
      deployRefusal(microservice, {
        ...{ policy, facts: supervisor.facts, runtimeOf: (name) => runtimeClasses.runtimeOf(name) },
        registries: own.within(responses.sent).registries,
      }),
    /** the control plane of the machine itself */
    controlPlane,
    /** the registries, models, knowledge and runtime classes of the machine itself */
    ...{ registries, localArtifacts, runtimeClasses },
    ...createOperations({ clock, signal: over.signal }),
    get connection() {
      return membership.connection;
    },
    /** Supervises, polls and reports until the signal fires. Containers keep running. */
    async run(signal: AbortSignal): Promise<void> {
      membership.finishEnding();
      edgeGuard.check();
      const { instance, node } = identity.current;
      log.info({ version: AGENT_VERSION, instance, node: node?.uuid }, 'Starting');
      resumeApply(agent);
      membership.start(signal);
      actions.resume(signal);
      const work = [supervisor.run(signal), runPruning(pruning, signal)];
      await Promise.all([...work, ...parts.map((part) => part.run?.(signal, apply))]);
      over.abort();
      await membership.ended();
    },
    /** Moves the membership to another address of the controller. Node and containers stay. */
    moveController: (url: string): void => provisioning.moveController(url),
    /** What is wrong with the controller at another address, for people; undefined where it answers and knows this node. */
    controllerProblemAt: (url: string, signal?: AbortSignal) => provisioning.problemAt(url, signal),
    /** Exchanges a join string for an identity. */
    provision: (text: string, signal?: AbortSignal): Promise<Node> =>
      provisioning.provision(text, signal).finally(() => edgeGuard.settingsChanged()),
    /**
     * Ends the membership and begins to remove its containers; volumes stay. With the scope `local` the containers keep
     * running.
     */
    deprovision: (scope: Scope = 'all', signal?: AbortSignal) =>
      provisioning.deprovision(scope, signal).finally(() => edgeGuard.settingsChanged()),
    /** Resolves when all containers but the control plane are removed, or when the removal is stuck; returns the names that are left. */
    cleared: (signal: AbortSignal): Promise<string[]> => untilRemoved(supervisor, isControlPlaneUuid, signal),
  };
  return agent;
}
