import { type Clock, sleep, systemClock } from '../lib/clock.ts';
import { readIfThere } from './files.ts';
import { keyFile, type Layout } from './layout.ts';

/** Certificates are looked at so often, ms. */
const KEYS_EVERY = 24 * 3600 * 1000;
/** The clock is looked at so often, ms: a machine without a clock of its own sets it after its start. */
const CLOCK_EVERY = 60_000;
/** A clock that was set by more may have made the certificates invalid, ms. */
const CLOCK_SET = 3600 * 1000;

export interface RenewalDependencies {
  layout: Layout;
  /** Runs this program with another command, and rejects when it fails. */
  command(name: 'keys' | 'install'): Promise<void>;
  say(event: string, fields?: Record<string, unknown>): void;
}

/** Keeps the keys until the signal fires. Rejects when the authority is another: all programs have to start again with it. */
export async function renewKeys(
  { layout, command, say }: RenewalDependencies,
  signal: AbortSignal,
  clock: Clock = systemClock,
): Promise<void> {
  const authority = () => readIfThere(keyFile(layout, 'authority.crt'));
  const offset = () => clock.wall() - clock.now();
  const first = authority();
  let looked = { at: clock.now(), offset: offset() };
  while (!signal.aborted) {
    await sleep(CLOCK_EVERY, signal, clock);
    const wasSet = Math.abs(offset() - looked.offset) > CLOCK_SET;
    if (signal.aborted || (!wasSet && clock.now() - looked.at < KEYS_EVERY)) continue;
    looked = { at: clock.now(), offset: offset() };
    try {
      await command('keys');
    } catch (error) {
      // The present certificates last for weeks.
      say('The keys were not looked at', { error: (error as Error).message });
    }
    if (authority() !== first) throw new Error('the authority of the API server was made again');
  }
}
