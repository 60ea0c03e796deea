import { once } from 'node:events';
import { Agent, type IncomingHttpHeaders, request } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import { createRest } from '../../assembly/rest.ts';
import { certificateOfLocalhost } from '../_certificate.ts';
import { createMemoryDependencies } from '../_memory.ts';
import { DEFAULT_LIMITS } from '../contract/limits.ts';
import type { RestServerOptions } from './server.ts';

const CONNECTIONS = { all: 16, strangers: 8, address: 4, graceMs: 0, caller: 8 };

/** A server, an attacker at 127.0.0.1 that sends nothing, and clients at other addresses. */
async function start(options: Partial<RestServerOptions> & { tls?: ReturnType<typeof certificateOfLocalhost> } = {}) {
  const server = createRest({
    deps: createMemoryDependencies(),
    ...options,
    limits: { connections: CONNECTIONS, ...options.limits },
  });
  onTestFinished(() => server[Symbol.asyncDispose]());
  const { port } = await server.listen({ port: 0, host: '127.0.0.1' });
  const silent: Socket[] = [];
  onTestFinished(() => silent.forEach((socket) => void socket.destroy()));
  const tls = options.tls && { ca: options.tls.ca, servername: 'localhost' };
  return {
    server,
    async attack(count: number) {
      for (let i = 0; i < count; i++) {
        const socket = connect(port, '127.0.0.1').on('error', () => {});
        silent.push(socket);
        await once(socket, 'connect');
      }
    },
    silent,
    /** A client with one connection, which stays open. */
    client(localAddress: string) {
      const agent = tls
        ? new HttpsAgent({ keepAlive: true, maxSockets: 1 })
        : new Agent({ keepAlive: true, maxSockets: 1 });
      onTestFinished(() => agent.destroy());
      return async (path: string, headers: Record<string, string> = {}) => {
        const sent = (tls ? httpsRequest : request)({
          host: '127.0.0.1',
          port,
          localAddress,
          path: `/api/v3${path}`,
          agent,
          headers,
          ...tls,
        });
        const [response] = (await once(sent.end(), 'response')) as [
          NodeJS.ReadableStream & { statusCode: number; headers: IncomingHttpHeaders },
        ];
        await text(response);
        return { status: response.statusCode, isKept: sent.reusedSocket };
      };
    },
  };
}

const ADMIN = { authorization: 'Bearer admin' };

test('an address that opens connections without an end keeps nobody else out', async () => {
  const { attack, client, silent } = await start();
  await attack(40);
  expect(await client('127.0.0.2')('/live')).toMatchObject({ status: 200 });
  await expect.poll(() => silent.filter(({ closed }) => !closed).length).toBeLessThanOrEqual(CONNECTIONS.address);
});

test('a client behind the address of an attacker authenticates, and its connection stays', async () => {
  const { attack, client } = await start();
  await attack(20);
  const user = client('127.0.0.1');
  expect(await user('/iofog-list', ADMIN)).toEqual({ status: 200, isKept: false });
  await attack(20);
  expect(await user('/iofog-list', ADMIN)).toEqual({ status: 200, isKept: true });
});

test('behind a trusted proxy all its connections share the half of strangers, and no address has a bound', async () => {
  const { attack, silent } = await start({ trustProxy: true });
  await attack(CONNECTIONS.strangers);
  expect(silent.filter(({ closed }) => closed)).toEqual([]);
  await attack(4);
  await expect.poll(() => silent.filter(({ closed }) => closed)).toEqual(silent.slice(0, 4));
});

test('a connection of TLS stays once a request on it was authenticated', async () => {
  const { attack, client } = await start({ tls: certificateOfLocalhost() });
  await attack(20);
  const user = client('127.0.0.1');
  expect(await user('/iofog-list', ADMIN)).toEqual({ status: 200, isKept: false });
  await attack(20);
  expect(await user('/iofog-list', ADMIN)).toEqual({ status: 200, isKept: true });
});

test('a connection without a handshake of TLS is closed after 10 s', async () => {
  expect(DEFAULT_LIMITS.handshakeMs).toBe(10_000);
  const { attack, silent } = await start({ tls: certificateOfLocalhost(), limits: { handshakeMs: 200 } });
  await attack(1);
  await once(silent[0] as Socket, 'close');
});
