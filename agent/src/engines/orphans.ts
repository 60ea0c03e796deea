import { connect, createServer, type Server } from 'node:net';
import type { Engine, OtherAgentContainer } from '../domain/engine.ts';

/**
 * Containers that an agent has made which is no more: its data was lost, or its program removed. Those of the very node
 * that we are now are adopted, by taking their instance id, as long as there is nothing of our own. All others are shown
 * to people, who decide.
 */

/** Shows other agents of this machine that the one of an instance lives; the kernel ends it with the process. */
export function showAlive(instance: string): Server {
  const server = createServer((socket) => socket.destroy());
  // A second one of the same instance has been told by then.
  server.on('error', () => {});
  return server.listen(socketOf(instance)).unref();
}

/** Whether an agent of an instance runs in this network namespace, or may: one that cannot be asked counts as one. */
export function isAlive(instance: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(socketOf(instance));
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    // Refused is who is not there. A full queue, or a rule of the machine, says nothing.
    socket.once('error', ({ code }: NodeJS.ErrnoException) => resolve(code !== 'ECONNREFUSED'));
  });
}

/** In the kernel's own namespace of sockets: no file is left behind. */
const socketOf = (instance: string) => `\0skerry-agent/${instance}`;

/** The containers of other agents that do not run any more. */
export async function findOrphans(
  engine: Pick<Engine, 'containersOfOtherAgents'>,
  alive: (instance: string) => Promise<boolean>,
  signal?: AbortSignal,
): Promise<OtherAgentContainer[]> {
  const all = await engine.containersOfOtherAgents(signal);
  const instances = [...new Set(all.map(({ instance }) => instance))];
  const living = new Set<string>();
  for (const instance of instances) if (await alive(instance)) living.add(instance);
  return all.filter(({ instance }) => !living.has(instance));
}

/** The instance whose containers are those of a node: of several the one that runs most. Pure. */
export function instanceOf(orphans: readonly OtherAgentContainer[], nodeUuid: string): string | undefined {
  const weights = new Map<string, number>();
  for (const { instance, nodeUuid: node, running } of orphans)
    if (node === nodeUuid && /^[0-9a-f]{32}$/.test(instance))
      weights.set(instance, (weights.get(instance) ?? 0) + (running ? 1000 : 1));
  return [...weights].sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1))[0]?.[0];
}

/** What people are told of containers that run beside those of this node, and are meant to be the same. */
export function orphanProblem(
  orphans: readonly OtherAgentContainer[],
  nodeUuid: string | undefined,
): string | undefined {
  const own = orphans.filter((each) => each.nodeUuid === nodeUuid).map(({ name }) => name);
  if (own.length === 0) return undefined;
  const more = own.length > 5 ? ` and ${own.length - 5} more` : '';
  return `containers of an earlier installation of this node are here as well: ${own.slice(0, 5).join(', ')}${more}; skerry-agent orphans shows and removes them`;
}
