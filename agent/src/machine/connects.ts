import { connect, type NetConnectOpts } from 'node:net';

/**
 * Connects and closes the connection again: undefined once it stands, else the code of its error. `deadline`: ms without an
 * answer, after which the code is TIMEOUT.
 */
export function connectFailure(to: NetConnectOpts, deadline?: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect(to);
    const end = (code: string | undefined) => {
      socket.destroy();
      resolve(code);
    };
    if (deadline !== undefined) socket.setTimeout(deadline, () => end('TIMEOUT'));
    socket.once('connect', () => end(undefined));
    socket.once('error', ({ code = 'BROKEN' }: NodeJS.ErrnoException) => end(code));
  });
}
