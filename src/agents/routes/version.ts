import { randomUUID } from 'node:crypto';
import { isDue, requestedAction } from '../../domain/actions.ts';
import type { Reply } from '../../http/reply.ts';
import type { Clock } from '../../kube/mod.ts';
import { createTokenBuckets } from '../../kube/token-bucket.ts';
import type { VersionReply } from '../../wire/index.ts';
import type { Call, Observe } from '../call.ts';
import type { ProvisioningKeys } from '../dependencies.ts';
import type { DesiredCache } from '../desired-state/desired-cache.ts';
import { AgentFailure } from '../failure.ts';
import { isThirdParty } from './changes.ts';
import { etagOf, tagged } from './reads.ts';

export interface VersionOptions {
  desired: Pick<DesiredCache, 'digests'>;
  provisioningKeys: ProvisioningKeys;
  observe: Observe;
  clock: Clock;
  /** where our agents find releases of themselves */
  releasesUrl?: string | undefined;
}

const LIFETIME_MS = 20 * 60_000;
/** A key is sent again while it has this much of its lifetime left: issuing a new one invalidates it. */
const FRESH_MS = 15 * 60_000;
const CALL_MS = 10_000;
const REMEMBERED = 1_000;
/** Limit per node of requests to the API server: each issues a key, or checks that it is still usable. */
const QUESTIONS = { perSecond: 1 / 10, burst: 10 };

/** `GET /agent/version`: the requested version, with a key to provision again after the change. */
export function createVersion({ desired, provisioningKeys, observe, clock, releasesUrl }: VersionOptions) {
  const issued = new Map<string, { key: string; expiresAt: number }>();
  const questions = createTokenBuckets({ clock, ...QUESTIONS });

  async function keyFor({ uuid, node }: Call) {
    if (!questions.take(uuid))
      throw new AgentFailure('TOO_MANY_REQUESTS', 'this node asks too often for its version', {
        retryAfterSeconds: 10,
      });
    const signal = AbortSignal.timeout(CALL_MS);
    const known = issued.get(uuid);
    const isFresh = known !== undefined && known.expiresAt - clock.wall() >= FRESH_MS;
    // The key may have been used since, or another one issued.
    if (isFresh && (await provisioningKeys.isUsable(node, known.key, signal))) return known;
    const key = { key: randomUUID(), expiresAt: clock.wall() + LIFETIME_MS };
    await provisioningKeys.issue(node, key, signal);
    if (issued.size >= REMEMBERED) issued.clear();
    issued.set(uuid, key);
    return key;
  }

  return async (call: Call): Promise<Reply> => {
    observe(call);
    const { command, semver } = requestedAction(call.node, 'version');
    // A third-party agent may ask again after its acknowledgement, for another key.
    if (!command || !(isThirdParty(call) || isDue(call.node, 'version')))
      throw new AgentFailure('VERSION_COMMAND_NOT_FOUND', 'no version is requested');
    const etag = etagOf(desired.digests(call.uuid) ?? {}, ['version']);
    if (call.req.headers['if-none-match'] === etag) return { status: 304, etag };
    const { key, expiresAt } = await keyFor(call);
    const reply: VersionReply = {
      versionCommand: command,
      provisionKey: key,
      expirationTime: expiresAt,
      ...(semver !== undefined && { semver }),
      ...(releasesUrl !== undefined && !isThirdParty(call) && { releasesUrl }),
    };
    return tagged(call, etag, () => reply);
  };
}
