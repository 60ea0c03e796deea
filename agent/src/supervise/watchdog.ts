import type { Log } from '../../../src/lib/log.ts';
import type { EndPort } from '../engine-port/containers.ts';
import type { OwnershipPort } from '../engine-port/ownership.ts';
import { errorText } from '../machine/log.ts';

export interface WatchdogDependencies {
  engine: EndPort & OwnershipPort;
  log: Log;
}

/** Containers that one look removes, so that a report does not wait for many. */
const AT_ONCE = 8;
const GRACE_SECONDS = 5;

/**
 * The names of the foreign containers of the engine. With `removes`, which only the machine's own file can choose, those
 * that no agent made are removed; those of other agents have owners of their own and stay.
 */
export async function watch({ engine, log }: WatchdogDependencies, removes: boolean): Promise<string[]> {
  const foreign = await engine.foreignContainers();
  if (!removes || foreign.length === 0) return foreign;
  const others = new Set((await engine.containersOfOtherAgents()).map(({ name }) => name));
  const strangers = foreign.filter((name) => name !== '' && !others.has(name)).slice(0, AT_ONCE);
  const removed = new Set<string>();
  await Promise.all(
    strangers.map(async (name) => {
      try {
        await engine.stop(name, GRACE_SECONDS);
        await engine.remove(name);
        removed.add(name);
        log.warn({ container: name }, 'The watchdog removed a container that is not of this agent');
      } catch (error) {
        log.warn({ container: name, error: errorText(error) }, 'The watchdog could not remove a container');
      }
    }),
  );
  return foreign.filter((name) => !removed.has(name));
}
