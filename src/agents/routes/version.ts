import { randomUUID } from 'node:crypto';
import type { VersionKeys } from '../../datastore/provisioning-keys.ts';
import type { DesiredCache } from '../../desired/desired-cache.ts';
import type { Reply } from '../../http/reply.ts';
import type { Clock } from '../../lib/clock.ts';
import { createTokenBuckets } from '../../lib/token-bucket.ts';
import { isDue, requestedAction } from '../../subjects/nodes/rules/actions.ts';
import type { VersionReply } from '../../wire/agent.ts';
import { type AgentCall, isThirdParty, type Observe } from '../channel/call.ts';
import { AgentFailure } from '../channel/failure.ts';
import { etagOf, tagged } from './reads.ts';

export interface VersionOptions {
  desired: Pick<DesiredCache, 'digests'>;
  versionKeys: VersionKeys;
  observe: Observe;
  clock: Clock;
  /** where our agents find releases of themselves */
  releasesUrl?: string | undefined;
}

const LIFETIME_MS = 20 * 60_000;
const CALL_MS = 10_000;
/** Limit per node of requests to the API server: each issues a key. */
const QUESTIONS = { perSecond: 1 / 10, burst: 10 };
/** How long a third-party agent may ask for another key after its acknowledgement, which ends the action. */
const ACKNOWLEDGED_MS = 20 * 60_000;
/** What our agent gets, which has no use for a key, while a person has asked for one. */
const NO_KEY = { key: '', expiresAt: 0 };

/**
 * `GET /agent/version`: the requested version, with a key to provision again after the change. Each read renews the key: the one before
 * it is deleted, used or not, and an agent has the whole lifetime for its change. Whoever has the key of a node may ask, so a key is issued only while the action is due (to third-party agents also for a while after it), and never in
 * place of one that a person asked for.
 */
export function createVersion({ desired, versionKeys, observe, clock, releasesUrl }: VersionOptions) {
  const questions = createTokenBuckets({ clock, ...QUESTIONS });

  async function keyFor({ uuid, node }: AgentCall) {
    if (!questions.take(uuid))
      throw new AgentFailure('TOO_MANY_REQUESTS', 'this node asks too often for its version', {
        retryAfterSeconds: 10,
      });
    const key = { key: randomUUID(), expiresAt: clock.wall() + LIFETIME_MS };
    return (await versionKeys.issueForVersion(node, key, AbortSignal.timeout(CALL_MS))) ? key : undefined;
  }

  /** Whether the version is still to change, as far as this agent can know. */
  function isOpen(call: AgentCall): boolean {
    if (isDue(call.node, 'version')) return true;
    const { versionTime } = call.node.status ?? {};
    return isThirdParty(call) && versionTime !== undefined && clock.wall() < Date.parse(versionTime) + ACKNOWLEDGED_MS;
  }

  return async (call: AgentCall): Promise<Reply> => {
    observe(call);
    const { command, semver } = requestedAction(call.node, 'version');
    if (!command || !isOpen(call)) throw new AgentFailure('VERSION_COMMAND_NOT_FOUND', 'no version is requested');
    const etag = etagOf(desired.digests(call.uuid) ?? {}, ['version']);
    if (call.req.headers['if-none-match'] === etag) return { status: 304, etag };
    const offered = (await keyFor(call)) ?? (isThirdParty(call) ? undefined : NO_KEY);
    if (!offered)
      throw new AgentFailure(
        'PROVISIONING_KEY_WAITS',
        'a provisioning key of this node waits for its agent: provision with that key, or ask again once it has expired',
      );
    const reply: VersionReply = {
      versionCommand: command,
      provisionKey: offered.key,
      expirationTime: offered.expiresAt,
      ...(semver !== undefined && { semver }),
      ...(releasesUrl !== undefined && !isThirdParty(call) && { releasesUrl }),
    };
    return tagged(call, etag, () => reply);
  };
}
