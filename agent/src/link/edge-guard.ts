import { createHash, type KeyObject, sign, verify } from 'node:crypto';
import { type Clock, sleep } from '../../../src/lib/clock.ts';
import type { Log } from '../../../src/lib/log.ts';
import { canonicalJson } from '../../../src/wire/digest.ts';
import { AgentError, saving } from '../domain/agent-error.ts';
import type { Config } from '../domain/config.ts';
import { errorText } from '../machine/log.ts';
import { type HardwareFingerprint, publicKeyObject } from '../state/identity.ts';
import type { OwnIdentity } from '../state/own-identity.ts';
import { signingKey } from '../state/token.ts';

/** Looks at the settings while the guard is off, ms. */
const IDLE_ROUND = 60_000;

export interface EdgeGuardDependencies {
  config: Pick<Config, 'edgeGuardFrequency'>;
  clock: Clock;
  log: Log;
  identity: OwnIdentity;
  /** what tells this machine from any other; empty where nothing does */
  hardware(): Readonly<Record<string, string>>;
  /** Whether the identity may be used is decided anew. */
  changed(): void;
}

type GuardState = 'off' | 'matching' | 'other machine' | 'unknown';

/**
 * Keeps an identity from being used on another machine, such as by a copy of the disk. Only the machine's own file switches it on. It
 * notes the hardware once, signed; where another one is found the agent does not speak with the controller. Containers run on.
 */
export class EdgeGuard {
  readonly #deps: EdgeGuardDependencies;
  #state: GuardState = 'off';
  #members: readonly string[] = [];
  #differing: readonly string[] = [];
  #problem = '';
  #wake = new AbortController();

  constructor(deps: EdgeGuardDependencies) {
    this.#deps = deps;
  }

  /** Why the identity is not used; undefined while it may be. */
  get refusal(): string | undefined {
    return this.#state === 'other machine' ? this.#problem : undefined;
  }

  get view(): { state: GuardState; members: readonly string[]; differing: readonly string[] } {
    return { state: this.#state, members: this.#members, differing: this.#differing };
  }

  get problems(): string[] {
    return this.#problem ? [`edge guard: ${this.#problem}`] : [];
  }

  /** Compares this machine with the noted machine, and notes it where none was. */
  check(): void {
    const before = this.refusal;
    this.#look();
    if (this.refusal === before) return;
    if (this.refusal !== undefined)
      this.#deps.log.error(
        { differing: this.#differing },
        'This is another machine than the one of the identity; the identity is not used',
      );
    else this.#deps.log.info({}, 'This is the machine of the identity; the identity is used again');
    this.#deps.changed();
  }

  /** Makes this machine the one of the identity. Throws AgentError where the guard does not refuse it. */
  accept(): void {
    const { identity, log } = this.#deps;
    this.check();
    const { node } = identity.current;
    if (!node || this.#state !== 'other machine')
      throw new AgentError(
        'CONFLICT',
        `there is nothing to accept: the edge guard is ${this.#state === 'off' ? 'off' : 'content with this machine'}`,
      );
    const members = this.#here();
    if (Object.keys(members).length === 0)
      throw new AgentError(
        'CONFLICT',
        'nothing tells this machine from any other; switch edgeGuardFrequency off instead',
      );
    saving('the former machine stays the one of the identity', () => this.#note(node.uuid, members));
    log.warn({ members: Object.keys(members) }, 'This machine was accepted as the one of the identity');
    this.check();
  }

  /** The settings, or the identity, may be others now. */
  settingsChanged(): void {
    this.check();
    this.#wake.abort();
  }

  async run(signal: AbortSignal): Promise<void> {
    const { config, clock } = this.#deps;
    while (!signal.aborted) {
      const pause = config.edgeGuardFrequency > 0 ? config.edgeGuardFrequency * 1000 : IDLE_ROUND;
      this.#wake = new AbortController();
      await sleep(pause, AbortSignal.any([signal, this.#wake.signal]), clock);
      if (!signal.aborted) this.check();
    }
  }

  #look(): void {
    const { config, identity, log } = this.#deps;
    const { node, fingerprint } = identity.current;
    this.#problem = '';
    this.#differing = [];
    if (config.edgeGuardFrequency === 0 || !node) {
      this.#state = 'off';
      this.#members = [];
      return;
    }
    const here = this.#here();
    this.#members = Object.keys(here);
    if (fingerprint?.node !== node.uuid) {
      this.#state = this.#members.length > 0 ? 'matching' : 'unknown';
      if (this.#state === 'unknown') this.#problem = 'nothing tells this machine from any other, so it is not watched';
      else {
        try {
          this.#note(node.uuid, here);
        } catch (error) {
          this.#problem = `what this machine is known by cannot be saved: ${errorText(error)}`;
          log.warn({ error: errorText(error) }, 'Cannot note the hardware of this machine');
        }
      }
      return;
    }
    this.#differing = differences(fingerprint, here, publicKeyObject(identity.current.localKey));
    this.#state = this.#differing.length === 0 ? 'matching' : 'other machine';
    if (this.#state === 'other machine')
      this.#problem = `this is another machine than the one of the identity (${this.#differing.join(', ')}), so the identity is not used; containers run on. If its hardware was changed: skerry-agent edge-guard accept`;
  }

  #here(): Record<string, string> {
    const hashed = Object.entries(this.#deps.hardware()).map(([name, text]) => [
      name,
      createHash('sha256').update(`${name}\0${text}`).digest('hex'),
    ]);
    return Object.fromEntries(hashed);
  }

  #note(node: string, members: Record<string, string>): void {
    const { identity } = this.#deps;
    const signature = sign(null, signed({ node, members }), signingKey(identity.current.localKey)).toString(
      'base64url',
    );
    identity.become({ ...identity.current, fingerprint: { node, members, signature } });
  }
}

const signed = ({ node, members }: Pick<HardwareFingerprint, 'node' | 'members'>) =>
  Buffer.from(canonicalJson({ tokenUse: 'edgeguard', node, members }));

/**
 * What differs between the machine that was noted and this one. A number that cannot be read any more counts only where nothing else is
 * the same. A note that this agent did not sign fits no machine.
 */
function differences(noted: HardwareFingerprint, here: Readonly<Record<string, string>>, key: KeyObject): string[] {
  if (!verify(null, signed(noted), key, Buffer.from(noted.signature, 'base64url'))) return ['signature'];
  const names = Object.keys(noted.members);
  const differing = names.filter((name) => here[name] !== undefined && here[name] !== noted.members[name]);
  const isSomeSame = names.some((name) => here[name] === noted.members[name]);
  return differing.length > 0 || isSomeSame ? differing : names;
}
