import type { EdgeNode, EdgeNodeStatus, ObservedMicroservice } from '../../api/v3/index.ts';
import type { DesiredState, Observation, SentRevision } from '../../rules/inputs.ts';
import { logSizeOf } from '../../rules/normal-entry.ts';
import { registryView } from '../../subjects/catalog/rules/node.ts';
import { BUILT_INS } from '../../subjects/catalog/rules/registry.ts';
import { observedMicroservices } from '../../subjects/nodes/rules/report.ts';
import { joinSent } from '../../subjects/nodes/rules/sent-list.ts';
import type { MicroserviceView, RegistryView } from '../../wire/agent.ts';

/** What agents of other makes get of a microservice (docs/spec/agent-channel.md#third-party-agents). */
export type ThirdPartyView = MicroserviceView & ReturnType<typeof spellings>;

/**
 * What is known at this moment of the microservices of a third-party agent: what it reports, and what it was last sent, which the
 * stored status says only after the next report.
 */
export function knownMicroservices(node: EdgeNode, observation: Observation | undefined): ObservedMicroservice[] {
  const observed = observedMicroservices({ node, observation, desired: undefined, liveness: 'live' }) ?? [];
  if (!observation) return observed;
  const items = new Map(observed.map((item) => [item.uuid, item]));
  for (const uuid of Object.keys(observation.sentRevisions)) {
    const item = items.get(uuid) ?? { uuid, state: 'UNKNOWN' };
    const sent = joinSent(item.sent, observation, uuid);
    if (sent) items.set(uuid, { ...item, sent });
  }
  return [...items.values()];
}

type Known = Pick<ObservedMicroservice, 'revision' | 'sent'>;

/**
 * The microservices for third-party agents, which do not support holds: the last admitted view; without one, the entry with the
 * image that the node last reported or was last sent; an entry that was never admitted is absent. `rebuild` is that of
 * {@link isRebuildDue}, whether or not it was sent before.
 */
export function thirdPartyView(
  desired: Pick<DesiredState, 'microservices' | 'held'>,
  lastAdmitted: ReadonlyMap<string, MicroserviceView>,
  observed: Pick<EdgeNodeStatus, 'microservices'> | undefined,
): ThirdPartyView[] {
  const views = desired.microservices.flatMap((item) => {
    const known = observed?.microservices?.find(({ uuid }) => uuid === item.uuid);
    if (!('hold' in item)) return [{ ...item, rebuild: isRebuildDue(item, known) }];
    // A held entry starts no new container, not even for a rebuild.
    const { revision = '', rebuildCount = 0, sent } = known ?? {};
    const admitted = lastAdmitted.get(item.uuid);
    if (admitted) return [{ ...admitted, rebuildCount, rebuild: false }];
    const imageId = known?.imageId ?? sent?.imageId;
    const draft = desired.held.get(item.uuid);
    return imageId && draft ? [{ ...draft, imageId, revision, rebuildCount, rebuild: false }] : [];
  });
  return views.map((view) => ({ ...view, logSize: logSizeOf(view.logSize), ...spellings(view) }));
}

/**
 * The registries for third-party agents: those that the node uses, and the built-in ones always. Such an agent tries a
 * container five times within a second, and gives it up when its registry is not in the list of registries. It reads that
 * list before the microservices, and the first one of a registry may be created in between.
 */
export function thirdPartyRegistries(used: readonly RegistryView[]): RegistryView[] {
  const ids = new Set(used.map(({ id }) => id));
  const builtIn = BUILT_INS.flatMap(({ name, spec }) => {
    const view = registryView({ apiVersion: '', kind: 'Registry', metadata: { name }, spec }, () => undefined);
    return view && !ids.has(view.id) ? [view] : [];
  });
  return [...used, ...builtIn].sort((a, b) => a.id - b.id);
}

/**
 * Whether an agent that compares only some members of a microservice has to be told to make its container anew: a rebuild was
 * ordered, the container is known to have another revision, or another one was sent last, of which there may be a container by now,
 * or which the agent has given up. A container of which nothing is known may have run before the node was provisioned, and is
 * left alone.
 */
export function isRebuildDue({ rebuild, revision }: MicroserviceView, known: Known | undefined): boolean {
  const isOther = (given: string | undefined) => given !== undefined && given !== revision;
  return rebuild || isOther(known?.revision) || isOther(known?.sent?.revision);
}

/** How long a container may run on after its agent was sent something else for it: longer than agents take to look at their list. */
const LOST_AFTER_MS = 60_000;

/**
 * For how long, ms, an agent has not done what it was sent of a microservice, although it reports that the former container
 * runs; undefined when it may be under way. Agents before version 3.8 can lose a rebuild: they keep it in memory only, until
 * they read the list again.
 */
export function lostFor(known: ObservedMicroservice | undefined, now: number): number | undefined {
  const { state, sent, startTime } = known ?? {};
  if (state !== 'RUNNING' || !sent || startTime === undefined || startTime >= sent.at) return undefined;
  const ms = now - sent.at;
  return isCarriedOut(sent, known) || ms < LOST_AFTER_MS ? undefined : ms;
}

/** How long agents may take to look at a list that they have read, ms. */
const LOOK_MS = 15_000;

/**
 * Whether an agent was sent a rebuild so recently that it may not have looked at it yet. The same list without the rebuild, which
 * it was sent already, would make an agent before version 3.8 lose it.
 */
export function mayLoseRebuild(known: ObservedMicroservice, now: number): boolean {
  const { sent, startTime = 0, revision } = known;
  if (!sent || revision === undefined || startTime >= sent.at) return false;
  return !isCarriedOut(sent, known) && now >= sent.at && now - sent.at < LOOK_MS;
}

/** Whether the container of a microservice is that of what was sent, after its rebuilds. */
const isCarriedOut = (
  sent: SentRevision,
  { revision, rebuildCount = 0 }: Partial<ObservedMicroservice> = {},
): boolean => revision === sent.revision && rebuildCount >= sent.rebuildCount;

/** Whether what was last sent of a microservice has this revision, and the rebuild that is due with it. */
export const isSent = ({ revision, rebuildCount }: MicroserviceView, sent: SentRevision | undefined): boolean =>
  sent !== undefined && sent.revision === revision && sent.rebuildCount >= rebuildCount;

/** Members of a view in the spellings of agents before version 3.8, which read them without a default and then drop the whole list. */
function spellings({ isBus, portMappings }: MicroserviceView) {
  return {
    // What is to be deleted is absent from the list.
    ...{ delete: false, deleteWithCleanUp: false, deleteWithCleanup: false },
    isNats: isBus,
    // Terminals have sessions of their own.
    execEnabled: false,
    portMappings: portMappings.map((port) => ({
      ...port,
      portInternal: port.internal,
      portExternal: port.external,
      isUdp: port.protocol === 'udp',
    })),
  };
}
