import type { EdgeNode, ObservedMicroservice } from '../../api/v3/index.ts';
import type { MicroserviceView } from '../../wire/index.ts';
import type { DesiredState, SentRevision } from '../inputs.ts';
import { logSizeOf } from '../microservice/normal-form.ts';

/** What agents of other makes get of a microservice (docs/spec/agent-channel.md#third-party-agents). */
export type ThirdPartyView = MicroserviceView & ReturnType<typeof spellings>;

type Known = Pick<ObservedMicroservice, 'revision' | 'sent'>;

/**
 * The microservices for third-party agents, which do not support holds: the last admitted view; without one, the entry with the
 * image that the node last reported or was last sent; an entry that was never admitted is absent. `rebuild` is that of
 * {@link isRebuildDue}, whether or not it was sent before.
 */
export function thirdPartyView(
  desired: Pick<DesiredState, 'microservices' | 'held'>,
  lastAdmitted: ReadonlyMap<string, MicroserviceView>,
  observed: EdgeNode['status'],
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
 * Whether an agent that compares only some members of a microservice has to be told to make its container anew: a rebuild was
 * ordered, the container is known to have another revision, or another one was sent last, of which there may be a container by now,
 * or which the agent has given up. A container of which nothing is known may have run before the node was provisioned, and is
 * left alone.
 */
export function isRebuildDue({ rebuild, revision }: MicroserviceView, known: Known | undefined): boolean {
  const isOther = (given: string | undefined) => given !== undefined && given !== revision;
  return rebuild || isOther(known?.revision) || isOther(known?.sent?.revision);
}

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
