import { once } from 'node:events';
import { request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { Registry } from 'prom-client';
import { expect, onTestFinished, test } from 'vitest';
import { admitConnections } from '../http/admit-connections.ts';
import { systemClock } from '../lib/clock.ts';
import { createOpsServer } from './ops-server.ts';

test('probes are answered while one address holds 300 connections to their port', async () => {
  await using server = createOpsServer({
    registry: new Registry(),
    ready: async () => undefined,
    bound: (http, limits) => void admitConnections(http, { limits, clock: systemClock }),
  });
  const { port } = await server.listen({ port: 0, host: '127.0.0.1' });
  const silent: Socket[] = [];
  onTestFinished(() => silent.forEach((socket) => void socket.destroy()));
  for (let i = 0; i < 300; i++) {
    const socket = connect(port, '127.0.0.1').on('error', () => {});
    silent.push(socket);
    await once(socket, 'connect');
  }
  const probe = request({ host: '127.0.0.1', port, localAddress: '127.0.0.2', path: '/healthz', agent: false }).end();
  const [response] = await once(probe, 'response');
  expect(response.statusCode).toBe(200);
  response.resume();
});
