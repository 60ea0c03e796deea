import type { EdgeNode } from '../../api/v3/index.ts';
import type { DesiredCache } from '../../desired/desired-cache.ts';
import { lostFor, mayLoseRebuild } from '../../desired/rules/third-party.ts';
import { json, type Reply } from '../../http/reply.ts';
import type { Clock } from '../../lib/clock.ts';
import { requestedAction } from '../../subjects/nodes/rules/actions.ts';
import { changesAckSchema } from '../../wire/agent.ts';
import {
  type Digests,
  flagsOf,
  formatHave,
  MICROSERVICE_SECTIONS,
  NAMED_SECTIONS,
  parseHave,
  SECTIONS,
  type Section,
} from '../../wire/sections.ts';
import { type AgentCall, type EpochCheck, isThirdParty, type Observe } from '../channel/call.ts';
import { AgentFailure } from '../channel/failure.ts';
import type { NodeDirectory } from '../channel/node-directory.ts';
import { differ, type LongPolls } from '../long-polls/long-polls.ts';
import type { ActionCounts, SentResponses } from '../long-polls/sent-responses.ts';
import { type CheckEpoch, digestsFor } from '../pipeline/epoch-check.ts';

export interface ChangesOptions {
  desired: Pick<DesiredCache, 'digests' | 'keepAdmitted'>;
  directory: Pick<NodeDirectory, 'node'>;
  longPolls: LongPolls;
  sent: SentResponses;
  checkEpoch: CheckEpoch;
  observe: Observe;
  clock: Pick<Clock, 'wall'>;
  maxLongPolls: number;
}

const MAX_WAIT = 240;
/** Longest wait, seconds, of an agent that retains what the datastore lacks, so that it soon notices an accepted epoch. */
const RETAINING_WAIT = 10;
/** Actions that are sections of their own. A third-party agent cannot echo them: its acknowledgement means that they are done. */
const ACTIONS = ['reboot', 'prune', 'version'] as const;

/** `GET` and `PATCH /agent/changes`: which sections of the desired state differ from what the agent has saved. */
export function createChanges(options: ChangesOptions) {
  const { desired, directory, longPolls, sent, checkEpoch, observe, clock, maxLongPolls } = options;

  function dueOf({ uuid }: AgentCall, checked: EpochCheck): Digests {
    const due = desired.digests(uuid);
    if (!due) throw new AgentFailure('AGENT_NODE_NOT_FOUND', 'the node was deleted');
    return digestsFor(due, checked);
  }

  /** The present node: that of the authentication may be as old as the long poll. */
  const nodeOf = (call: AgentCall) => directory.node(call.uuid) ?? call.node;

  /**
   * The digests that an agent has saved; for a third-party agent, those that it acknowledged at this replica. A section
   * that the agent does not know counts as saved.
   */
  function haveOf(call: AgentCall, due: Digests, unknown: readonly Section[]): Digests {
    const have = call.query.get('have');
    const said = have !== null ? parseHave(have) : isThirdParty(call) ? sent.acknowledged(call.uuid) : {};
    return { ...said, ...Object.fromEntries(unknown.map((section) => [section, due[section]])) };
  }

  /** The sections that an agent is to read later: the list of microservices is where it would lose a rebuild. */
  function laterOf(node: EdgeNode): readonly Section[] {
    const now = clock.wall();
    return node.status?.microservices?.some((one) => mayLoseRebuild(one, now)) ? MICROSERVICE_SECTIONS : [];
  }

  function answer(call: AgentCall, due: Digests, has: Digests, unknown: readonly Section[]): Reply {
    const node = nodeOf(call);
    const flags = flagsOf(due, has);
    // It may have become due while the poll waited.
    for (const section of unknown) flags[section] = false;
    if (isThirdParty(call)) {
      const later = laterOf(node);
      const lastUpdated = sent.add(call.uuid, withoutNamed(due), actionsIn(due, node), later);
      return json({ ...flags, ...Object.fromEntries(later.map((section) => [section, false])), lastUpdated });
    }
    const lastUpdated = new Date(clock.wall()).toISOString();
    const raised = SECTIONS.filter((section) => flags[section]);
    if (raised.length === 0) return json({ lastUpdated });
    const digests: Digests = Object.fromEntries(raised.map((section) => [section, due[section]]));
    const actions = actionsIn(digests, node);
    return json({
      ...Object.fromEntries(raised.map((section) => [section, true])),
      lastUpdated,
      due: formatHave(digests),
      ...(Object.keys(actions).length > 0 && { actions }),
    });
  }

  function polled(call: AgentCall, checked: EpochCheck): Reply | Promise<Reply> {
    const { retainUnlisted } = checked;
    const due = dueOf(call, checked);
    const unknown = unknownTo(call);
    const has = haveOf(call, due, unknown);
    const wait = waitOf(call.query.get('wait'));
    const seconds = retainUnlisted ? Math.min(wait, RETAINING_WAIT) : wait;
    const said = isThirdParty(call) ? {} : { restored: retainUnlisted?.acceptEpoch ?? '' };
    if (seconds === 0 || differ(due, has) || longPolls.count >= maxLongPolls) {
      observe(call, said);
      return answer(call, due, has, unknown);
    }
    observe(call, { ...said, waitSeconds: seconds });
    const signal = { onGone: (callback: () => void) => void call.res.once('close', callback) };
    // Nothing is due, so the agent has saved what is due without `retainUnlisted`.
    const armed = retainUnlisted ? (desired.digests(call.uuid) ?? has) : has;
    return longPolls.arm({ uuid: call.uuid, have: armed, seconds, signal }).then(async (how) => {
      if (how === 'revoked')
        throw new AgentFailure(
          'AGENT_PUBLIC_KEY_NOT_FOUND',
          'the key of the node was deleted or replaced: provision it',
        );
      // The datastore may have been restored since.
      return how === 'gone' ? GONE : answer(call, dueOf(call, await checkEpoch(call)), has, unknown);
    });
  }

  return {
    poll(call: AgentCall): Reply | Promise<Reply> {
      if (isThirdParty(call)) {
        desired.keepAdmitted(call.uuid);
        const lost = (nodeOf(call).status?.microservices ?? []).flatMap((one) => lostFor(one, clock.wall()) ?? []);
        if (lost.length > 0) sent.repeat(call.uuid, 'microserviceList', Math.min(...lost));
      }
      return polled(call, call.epoch ?? {});
    },
    acknowledge(call: AgentCall, body: unknown): Reply {
      const parsed = changesAckSchema.safeParse(body);
      if (!parsed.success) throw new AgentFailure('VALIDATION_ERROR', 'lastUpdated: a string is required');
      const due = dueOf(call, {});
      const actions = sent.acknowledge(call.uuid, parsed.data.lastUpdated, {
        due: withoutNamed(due),
        actions: actionsIn(due, nodeOf(call)),
      });
      observe(call, actions && Object.keys(actions).length > 0 ? { report: { actions } } : {});
      return json({});
    },
  };
}

/** The reply to a client that has disconnected. */
const GONE: Reply = { status: 204 };

/** The sections that an agent does not know: no third-party agent, and none of a former release, names them. */
function unknownTo(call: AgentCall): readonly Section[] {
  if (isThirdParty(call)) return NAMED_SECTIONS;
  const have = call.query.get('have') ?? '';
  return NAMED_SECTIONS.filter((section) => !have.includes(`${section}:`));
}

/** What third-party agents know of the digests that are due: a change of the others makes them read nothing again. */
function withoutNamed(due: Digests): Digests {
  return Object.fromEntries(Object.entries(due).filter(([section]) => !NAMED_SECTIONS.includes(section as Section)));
}

function waitOf(text: string | null): number {
  const seconds = Number(text ?? 0);
  return Number.isFinite(seconds) && seconds >= 1 ? Math.min(Math.floor(seconds), MAX_WAIT) : 0;
}

function actionsIn(due: Digests, node: EdgeNode): ActionCounts {
  const counts: Record<string, number> = {};
  for (const action of ACTIONS) if (due[action]) counts[action] = requestedAction(node, action).count;
  return counts;
}
