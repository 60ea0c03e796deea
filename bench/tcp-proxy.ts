import { connect, createServer } from 'node:net';
import { serveCalls } from './child.ts';

/** A plain TCP proxy as a process of its own: what connections over routers are compared with. */
const calls = {
  /** Passes connections to a port of this machine; resolves with the port that it listens on. */
  listen({ to }: { to: number }): Promise<number> {
    const server = createServer({ noDelay: true }, (near) => {
      const far = connect({ host: '127.0.0.1', port: to, noDelay: true });
      near.pipe(far);
      far.pipe(near);
      near.on('error', () => far.destroy());
      far.on('error', () => near.destroy());
    });
    return new Promise((resolve, reject) => {
      server.once('error', reject).listen(0, '127.0.0.1', () => {
        const at = server.address();
        resolve(typeof at === 'object' && at ? at.port : 0);
      });
    });
  },
};

export type TcpProxyCalls = typeof calls;
serveCalls(calls);
