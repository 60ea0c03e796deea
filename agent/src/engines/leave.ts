import type { ConnectionPort } from '../engine-port/connection.ts';
import { isRunning } from '../engine-port/container.ts';
import type { ContainerPort } from '../engine-port/containers.ts';
import type { NetworkPort } from '../engine-port/networks.ts';

const GRACE_SECONDS = 10;

/**
 * Ends and removes the containers of this agent on an engine that it has left: they would run beside the ones on the engine
 * that it has now, with the same ports and volumes. Answers their names. Throws where one cannot be removed.
 */
export async function leaveEngine(
  engine: Pick<
    ConnectionPort & ContainerPort & NetworkPort,
    'connect' | 'containers' | 'stop' | 'remove' | 'removeNetwork'
  >,
  signal: AbortSignal,
): Promise<string[]> {
  await engine.connect(signal);
  const containers = await engine.containers(signal);
  await Promise.all(
    containers.map(async (container) => {
      if (isRunning(container)) await engine.stop(container.id, GRACE_SECONDS, signal);
      await engine.remove(container.id, signal);
    }),
  );
  await engine.removeNetwork(signal);
  return containers.map(({ name }) => name);
}
