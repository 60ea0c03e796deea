import { createSocket } from 'node:dgram';
import { createServer } from 'node:net';
import { expect, test } from 'vitest';
import { freePort } from '../../../hack/ports.ts';
import { isPortTaken } from './port-probe.ts';

const listenTcp = (host: string, port: number) =>
  new Promise<{ close: () => Promise<void> }>((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen({ port, host }, () => resolve({ close: () => new Promise((done) => server.close(() => done())) }));
  });

const listenUdp = (address: string, port: number) =>
  new Promise<{ close: () => Promise<void> }>((resolve, reject) => {
    const socket = createSocket(address.includes(':') ? 'udp6' : 'udp4');
    socket.once('error', reject);
    socket.bind({ port, address }, () => resolve({ close: () => new Promise((done) => socket.close(() => done())) }));
  });

for (const [protocol, listen] of [
  ['tcp', listenTcp],
  ['udp', listenUdp],
] as const)
  for (const host of ['127.0.0.1', '0.0.0.0', '::1', '::'])
    test(`a ${protocol} port on ${host} is taken while a socket is bound to it, and free afterwards`, async () => {
      // In the kernel's ephemeral range, an outgoing connection of the other protocol could have the same number.
      const port = await freePort();
      const { close } = await listen(host, port);
      const mapping = { internal: 1, external: port, protocol };
      expect(await isPortTaken(mapping)).toBe(true);
      expect(await isPortTaken({ ...mapping, protocol: protocol === 'tcp' ? 'udp' : 'tcp' })).toBe(false);
      await close();
      expect(await isPortTaken(mapping)).toBe(false);
    });
