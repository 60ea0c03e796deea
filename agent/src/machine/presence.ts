import { createServer, type Server } from 'node:net';
import { connectFailure } from './connects.ts';
import { listenersOf } from './socket-owner.ts';

/** Shows other agents on this machine that the agent of an instance runs; the kernel closes the socket with the process. */
export function showAlive(instance: string): Server {
  const server = createServer((socket) => socket.destroy());
  // A second agent of the same instance was refused before it came here.
  server.on('error', () => {});
  return server.listen(socketOf(instance)).unref();
}

/**
 * Whether an agent of an instance runs in this network namespace. One that does not answer counts as running. Any user may
 * listen on the name of an instance; only root and the user of this agent can be agents.
 */
export async function isAlive(instance: string): Promise<boolean> {
  // Only a refusal proves that no agent listens. A full queue, or a rule of the machine, proves nothing.
  if ((await connectFailure({ path: socketOf(instance) })) === 'ECONNREFUSED') return false;
  const users = await listenersOf(nameOf(instance)).catch(() => undefined);
  return users === undefined || (users.length > 0 && users.every((uid) => uid === 0 || uid === process.getuid?.()));
}

/** In the kernel's own namespace of sockets: no file is left behind. */
const socketOf = (instance: string) => `\0${nameOf(instance)}`;

const nameOf = (instance: string) => `skerry-agent/${instance}`;
