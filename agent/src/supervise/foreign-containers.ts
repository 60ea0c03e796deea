import type { Engine } from '../domain/engine.ts';
import { errorText, type Log } from '../system/log.ts';

/** Names of the containers on the engine that are somebody else's; undefined where they cannot be listed. */
export async function listForeignContainers(
  engine: Pick<Engine, 'foreignContainers'>,
  log: Log,
): Promise<string[] | undefined> {
  try {
    return await engine.foreignContainers();
  } catch (error) {
    log.debug('Cannot list the containers of others', { error: errorText(error) });
    return undefined;
  }
}
