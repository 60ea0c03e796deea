import { createSocket } from 'node:dgram';
import { createServer } from 'node:net';
import type { PortMapping } from '../../../src/api/container/index.ts';

/**
 * Whether some program of this machine listens at a port, on whatever address. It is found out by taking the port for a
 * moment; where the machine lacks an address family, no program listens on it.
 */
export async function isPortTaken({ external, protocol }: PortMapping): Promise<boolean> {
  const bind = protocol === 'udp' ? bindUdp : bindTcp;
  return !((await bind(external, '0.0.0.0')) && (await bind(external, '::')));
}

function bindTcp(port: number, host: string): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', (error) => resolve(!isInUse(error)));
    server.listen({ port, host, ipv6Only: true, exclusive: true }, () => server.close(() => resolve(true)));
  });
}

function bindUdp(port: number, address: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = address.includes(':') ? createSocket({ type: 'udp6', ipv6Only: true }) : createSocket('udp4');
    socket.once('error', (error) => {
      socket.close();
      resolve(!isInUse(error));
    });
    socket.bind({ port, address, exclusive: true }, () => socket.close(() => resolve(true)));
  });
}

function isInUse(error: Error): boolean {
  return (error as NodeJS.ErrnoException).code === 'EADDRINUSE';
}
