import { connect } from 'node:net';

/**
 * Whether an agent takes connections at its socket. Tests that wait for an agent ask this first: to run its command line
 * again and again costs as much as the start that they wait for.
 */
export function listens(socket: string): Promise<boolean> {
  return new Promise((resolve) => {
    const connection = connect(socket);
    connection.once('connect', () => {
      connection.destroy();
      resolve(true);
    });
    connection.once('error', () => resolve(false));
  });
}
