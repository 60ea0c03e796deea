import type { Config } from '../domain/config.ts';
import type { Engine } from '../domain/engine.ts';
import { errorText, type Log } from '../system/log.ts';

/** of a refused setting in a report */
const REASON_LENGTH = 256;

/** Whether it was asked for, here or by the controller. */
export function isWatching(config: Pick<Config, 'watchdogEnabled'>, wanted: { watchdogEnabled?: boolean }): boolean {
  return wanted.watchdogEnabled === true || config.watchdogEnabled;
}

/** Names of the containers on the engine that are somebody else's; undefined where they cannot be listed. */
export async function lookForStrangers(engine: Pick<Engine, 'strangers'>, log: Log): Promise<string[] | undefined> {
  try {
    return await engine.strangers();
  } catch (error) {
    log.debug('Cannot list the containers of others', { error: errorText(error) });
    return undefined;
  }
}

/**
 * What the watchdog has seen, as long as the wire lets it be. Whose containers these are it cannot know, so it removes
 * none.
 */
export function watchdogReport(strangers: readonly string[]): string {
  const reason = 'this agent never removes containers that are not its own';
  if (strangers.length === 0) return reason;
  const text = `${reason}; there ${strangers.length === 1 ? 'is 1' : `are ${strangers.length}`}: ${strangers.join(', ')}`;
  return text.length <= REASON_LENGTH ? text : `${text.slice(0, REASON_LENGTH - 4)} ...`;
}
