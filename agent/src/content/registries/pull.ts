import type { ReachLimits } from '../../domain/reach.ts';
import { parseReference } from '../../domain/reference.ts';
import type { PullTarget } from '../../domain/target.ts';
import { EngineError } from '../../engine-port/error.ts';
import type { ImagePort, PullRequest } from '../../engine-port/images.ts';
import { RegistryClient } from './client.ts';
import { requireRegistryReach } from './judged-lookup.ts';
import { openRelay, type Relay } from './relay.ts';

/** The clean-up after a pull may take so long, ms; it also takes place when the pull was called off. */
const CLEAN_UP = 30_000;
const ATTEMPTS = 3;

export interface PullOptions extends Pick<PullRequest, 'platform' | 'onProgress'> {
  target: PullTarget;
  /** the agent's instance id */
  instance: string;
  reach: ReachLimits;
}

/** `url` is for people. */
type PullEngine = ImagePort & { readonly url: string };

/**
 * Lets the engine pull an image, and returns its id. Where the engine cannot be configured to trust the registry, it pulls
 * from a relay of this agent; the image then gets the reference that was asked for, and loses that of the relay.
 */
export async function pullImage(engine: PullEngine, options: PullOptions, signal: AbortSignal): Promise<string> {
  const { target, platform, onProgress } = options;
  const { reference, credentials } = target;
  if (!target.relay) {
    await requireRegistryReach(parseReference(reference).host, options.reach);
    return engine.pull({ reference, platform, credentials, onProgress }, signal);
  }
  const rising = onlyRising(onProgress);
  using client = new RegistryClient(target.relay, options.reach);
  await using relay = await openRelay({
    client,
    image: parseReference(reference),
    prefix: relayPrefix(options.instance),
    onProgress: rising,
  });
  let id: string;
  try {
    id = await engine.pull({ reference: relay.reference, platform, onProgress: rising }, signal);
    await engine.tag(id, reference, signal);
  } catch (error) {
    throw signal.aborted ? error : explain(error, reference, relay, engine);
  } finally {
    // A name that stays because the engine is gone is removed when the agent connects to it again.
    await engine.removeImage(relay.reference, AbortSignal.timeout(CLEAN_UP)).catch(() => {});
  }
  // podman loses a name when another pull of the same image is given one at the same moment.
  for (let attempt = 1; attempt <= ATTEMPTS && (await engine.image(reference, signal)) === undefined; attempt++)
    await engine.tag(id, reference, signal);
  return id;
}

/** The prefix of the path of every image that one agent pulls through a relay. */
export function relayPrefix(instance: string): string {
  return `skerry-${instance.slice(0, 12)}-`;
}

/** Whether a name of an image is one of a relay of this agent. No other program uses such names. */
export function isRelayName(name: string, instance: string): boolean {
  return /^127\.0\.0\.1:\d+\//.test(name) && name.split('/')[1]?.startsWith(relayPrefix(instance)) === true;
}

/** An error between agent and registry says more than what the engine reports of it. */
function explain(error: unknown, reference: string, relay: Relay, { url }: PullEngine): unknown {
  if (!(error instanceof EngineError) || error.code === 'Unavailable' || error.code === 'DiskFull') return error;
  const { failure } = relay;
  if (failure) return new EngineError(failure.code, `pull ${reference}: ${failure.message}`, { cause: failure });
  if (relay.requests === 0)
    return new EngineError(
      'ImagePullFailed',
      `pull ${reference}: ca and insecure of a registry need an engine that reaches the agent on the loopback interface, and the one at ${url} does not: ${relay.translate(error.message)}`,
      { cause: error },
    );
  return new EngineError(error.code, relay.translate(error.message), { cause: error });
}

function onlyRising(onProgress: ((percentage: number) => void) | undefined): (percentage: number) => void {
  let shown = 0;
  return (percentage) => {
    if (percentage <= shown) return;
    shown = percentage;
    onProgress?.(percentage);
  };
}
