import type { EdgeNodeStatus, ObservedMicroservice } from '../../api/v3/index.ts';
import type { DesiredCache } from '../../desired/desired-cache.ts';
import {
  isSent,
  knownMicroservices,
  lostFor,
  thirdPartyRegistries,
  thirdPartyView,
} from '../../desired/rules/third-party.ts';
import { json, type Reply } from '../../http/reply.ts';
import type { Clock } from '../../lib/clock.ts';
import type { DesiredState, SentRevision } from '../../rules/inputs.ts';
import { systemFileContents, systemFilesView } from '../../rules/system-files.ts';
import type { NodeSessions, SessionLists } from '../../sessions/rules/list.ts';
import type { SentList } from '../../subjects/nodes/rules/sent-list.ts';
import type { MicroserviceHold, MicroserviceView } from '../../wire/agent.ts';
import { parseKnown, withoutKnown } from '../../wire/known-folders.ts';
import {
  type Digests,
  formatHave,
  MICROSERVICE_SECTIONS,
  RESPONSES,
  type ResponseName,
  type Section,
} from '../../wire/sections.ts';
import { SHA256, SYSTEM_FILES_ASKED, type SystemFileContent } from '../../wire/system-files.ts';
import { type AgentCall, type EpochCheck, isThirdParty, type Observe } from '../channel/call.ts';
import type { CurrentValues } from '../channel/dependencies.ts';
import { AgentFailure, notReady } from '../channel/failure.ts';
import type { ObservationForwarder } from '../leader/observation-forwarder.ts';
import type { SentResponses } from '../long-polls/sent-responses.ts';
import { digestsFor } from '../pipeline/epoch-check.ts';
import type { Outgoing } from '../pipeline/outgoing.ts';

type Entries = readonly (MicroserviceView | MicroserviceHold)[];
type Observed = { microservices: ObservedMicroservice[] };

export interface ReadsOptions {
  sessions?: Pick<NodeSessions, 'lists' | 'isComplete'> | undefined;
  desired: Pick<DesiredCache, 'state' | 'admitted' | 'keepAdmitted'>;
  /** called when our agent gets its list */
  onListed?: (uuid: string) => void;
  sent: Pick<SentResponses, 'acknowledged' | 'everAcknowledged' | 'addSections'>;
  observe: Observe;
  currentValues: CurrentValues;
  forwarder: Pick<ObservationForwarder, 'forwarded'>;
  outgoing: Pick<Outgoing, 'check'>;
  clock: Pick<Clock, 'wall'>;
}

/** A rebuild that was sent, and neither acknowledged nor executed after this time, counts as lost. */
const LOST_MS = 5 * 60_000;

/** How long the list of a third-party agent waits for the leader, to read what is known and to forward what is sent. */
const LEADER_MS = 1_000;

const NO_SESSIONS: SessionLists = { exec: [], logs: [], digests: {} };

/** The sections of the desired state, each response with its digests as ETag. */
export function createReads(options: ReadsOptions) {
  const { desired, sessions, onListed, sent, observe, currentValues, forwarder, outgoing, clock } = options;

  function stateOf({ uuid }: AgentCall): DesiredState {
    const state = desired.state(uuid);
    if (!state) throw new AgentFailure('AGENT_NODE_NOT_FOUND', 'the node was deleted');
    return state;
  }

  function thirdPartyEntries(uuid: string, state: DesiredState, observed: Observed): readonly MicroserviceView[] {
    const views = thirdPartyView(state, desired.admitted(uuid), observed);
    return views.map((view) => ({ ...view, rebuild: view.rebuild && !isUnderWay(uuid, state, view, observed) }));
  }

  async function observedNow({ uuid, node }: AgentCall): Promise<Observed> {
    const observation = (await currentValues.of([uuid], AbortSignal.timeout(LEADER_MS))).get(uuid);
    return { microservices: knownMicroservices(node, observation) };
  }

  /**
   * Whether a rebuild was already sent to a third-party agent. The agent may read the list again before the rebuild is done,
   * for another reason or at another replica, and would start the rebuild again. A rebuild that was sent but not acknowledged
   * may have been lost: after a while it is sent again. One that was acknowledged takes as long as it takes, although the
   * acknowledgement itself counts for a while only.
   */
  function isUnderWay(uuid: string, { digests }: DesiredState, view: MicroserviceView, observed: Observed): boolean {
    const { microserviceList: digest } = digests;
    if (sent.acknowledged(uuid).microserviceList === digest) return true;
    const known = observed.microservices.find((one) => one.uuid === view.uuid);
    const given = known?.sent;
    // The list that was acknowledged may have come from a replica that lagged behind, and had neither rebuild nor edit.
    if (given === undefined || !isSent(view, given) || lostFor(known, clock.wall()) !== undefined) return false;
    return sent.everAcknowledged(uuid, 'microserviceList', digest) || clock.wall() - given.at < LOST_MS;
  }

  function listed(call: AgentCall, checked: EpochCheck): Reply {
    const state = stateOf(call);
    observe(call);
    onListed?.(call.uuid);
    const { microservices, digests } = state;
    const { retainUnlisted } = checked;
    const etag = etagOf(digestsFor(digests, checked), MICROSERVICE_SECTIONS);
    return tagged(call, etag, () => ({ microservices, ...(retainUnlisted && { retainUnlisted }) }));
  }

  /**
   * The leader has the list before the agent, so that another replica does not send the rebuilds in it again. Without a leader
   * the agent gets it all the same. It has no digest, since it depends on the last report as well.
   */
  async function thirdPartyList(call: AgentCall): Promise<Reply> {
    const { uuid } = call;
    desired.keepAdmitted(uuid);
    const observed = await observedNow(call);
    const state = stateOf(call);
    const microservices = thirdPartyEntries(uuid, state, observed);
    observe(call, sentList(microservices, call.node.status, clock.wall()));
    sent.addSections(uuid, state.digests, MICROSERVICE_SECTIONS);
    await forwarder.forwarded(uuid, LEADER_MS);
    return json({ microservices });
  }

  async function entries(call: AgentCall): Promise<Entries> {
    if (!isThirdParty(call)) return stateOf(call).microservices;
    const observed = await observedNow(call);
    return thirdPartyEntries(call.uuid, stateOf(call), observed);
  }

  /** A handler whose response shows the desired state, with the digests of its sections as ETag. */
  const stateHandler =
    (name: ResponseName, body: (state: DesiredState, call: AgentCall) => unknown) =>
    (call: AgentCall): Reply => {
      observe(call);
      const { sections } = RESPONSES[name];
      const state = stateOf(call);
      if (isThirdParty(call)) sent.addSections(call.uuid, state.digests, sections);
      return tagged(call, etagOf(state.digests, sections), () => body(state, call));
    };

  /** A handler whose response has sessions of the node: nothing but memory, and empty without any. */
  const sessionsHandler =
    (name: ResponseName, body: (lists: SessionLists) => unknown) =>
    (call: AgentCall): Reply => {
      observe(call);
      // The agent ends what a list does not name.
      if (sessions?.isComplete === false) throw notReady('the sessions of other replicas are not known yet', 1);
      const lists = sessions?.lists(call.uuid) ?? NO_SESSIONS;
      return tagged(call, etagOf(lists.digests, RESPONSES[name].sections), () => body(lists));
    };

  const tunnelOf = stateHandler('tunnel', ({ tunnel }) => ({ tunnel, ...tunnel }));

  return {
    config: stateHandler('config', ({ config }) => config),
    registries: stateHandler('registries', ({ registries }, call) => ({
      registries: isThirdParty(call) ? thirdPartyRegistries(registries) : registries,
    })),
    runtimeClasses: stateHandler('runtimeClasses', ({ runtimeClasses }) => ({ runtimeClasses })),
    models: stateHandler('models', ({ models }) => ({ models })),
    knowledge: stateHandler('knowledge', ({ knowledge }) => ({ knowledge })),
    /** May be far longer than the other sections, so that there must be room before it is serialised. */
    volumeMounts: stateHandler('volumeMounts', ({ volumeMounts }, { uuid }) => {
      outgoing.check(uuid, contentLength(volumeMounts));
      return { volumeMounts };
    }),
    systemFiles: stateHandler('systemFiles', ({ systemFiles }, { query }) => {
      const known = parseKnown(query.get('known') ?? '');
      return { systemFiles: systemFiles.map((set) => withoutKnown(systemFilesView(set), known)) };
    }),
    /** The members stand beside `tunnel` as well, where older agents look for them. */
    tunnel(call: AgentCall): Reply {
      const { tunnel } = stateOf(call);
      if (tunnel) return tunnelOf(call);
      observe(call);
      throw new AgentFailure('TUNNEL_NOT_FOUND', 'there is no tunnel for this node');
    },
    /** Content of the node's own files: what it is not to have is left out, whoever has it. */
    systemFileContents(call: AgentCall): Reply {
      observe(call);
      const digests = digestsAsked(call.query.get('digests') ?? '');
      const contents = systemFileContents(stateOf(call).systemFiles, digests);
      outgoing.check(
        call.uuid,
        Object.values(contents).reduce((sum, { length }) => sum + length, 0),
      );
      return json({ contents } satisfies SystemFileContent);
    },
    execSessions: sessionsHandler('exec/sessions', ({ exec }) => ({ execSessions: exec })),
    logSessions: sessionsHandler('logs/sessions', ({ logs }) => ({ logSessions: logs })),

    microservices: (call: AgentCall): Reply | Promise<Reply> =>
      isThirdParty(call) ? thirdPartyList(call) : listed(call, call.epoch ?? {}),

    async microservice(call: AgentCall): Promise<Reply> {
      observe(call);
      const entry = (await entries(call)).find(({ uuid }) => uuid === call.parameter);
      if (!entry) throw new AgentFailure('MICROSERVICE_NOT_FOUND', 'this node has no microservice with this uuid');
      return json(entry);
    },
  };
}

export function etagOf(digests: Digests, sections: readonly Section[]): string {
  const shown: Digests = {};
  for (const section of sections) if (digests[section]) shown[section] = digests[section];
  return `"${formatHave(shown)}"`;
}

export function tagged(call: AgentCall, etag: string, body: () => unknown): Reply {
  if (call.req.headers['if-none-match'] === etag) return { status: 304, etag };
  return json(body(), { etag });
}

function digestsAsked(text: string): readonly string[] {
  const digests = text.split(',');
  const wrong = digests.find((digest) => !SHA256.test(digest));
  const asked = 'digests: SHA-256 digests of 64 hex digits in lower case are required, separated by commas';
  if (wrong !== undefined)
    throw new AgentFailure('VALIDATION_ERROR', `${asked}; ${JSON.stringify(wrong.slice(0, 80))} is none`);
  if (digests.length > SYSTEM_FILES_ASKED)
    throw new AgentFailure('VALIDATION_ERROR', `${asked}, at most ${SYSTEM_FILES_ASKED}; these are ${digests.length}`);
  return digests;
}

const contentLength = (mounts: DesiredState['volumeMounts']): number =>
  mounts.flatMap(({ data }) => Object.values(data)).reduce((sum, { length }) => sum + length, 0);

/**
 * What a third-party agent is sent now. Where the stored status says that it was sent something else before, this replica may
 * have sent the same even earlier: that was another time.
 */
function sentList(entries: Entries, stored: EdgeNodeStatus | undefined, at: number): SentList {
  const storedItems = new Map((stored?.microservices ?? []).map((item) => [item.uuid, item.sent]));
  const sentRevisions: Record<string, SentRevision> = {};
  for (const entry of entries) {
    if ('hold' in entry) continue;
    const { uuid, revision, imageId, rebuildCount } = entry;
    const before = storedItems.get(uuid);
    const isOther = before && (before.revision !== revision || before.rebuildCount !== rebuildCount);
    sentRevisions[uuid] = { revision, imageId, rebuildCount, at, ...(isOther && { storedAfter: before.at }) };
  }
  return { sentRevisions, listedAt: at };
}
