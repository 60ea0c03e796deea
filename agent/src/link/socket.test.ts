import { generateKeyPairSync } from 'node:crypto';
import { readFileSync } from 'node:fs';
import http, { type RequestListener } from 'node:http';
import https from 'node:https';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { WebSocketServer } from 'ws';
import { openSocket, type SocketEnd } from '../../../src/session-client/socket.ts';
import { listenForTest } from '../../../testing/local-server.ts';
import { systemClock } from '../machine/clock.ts';
import { ControllerClient } from './client.ts';

/** WebSockets of the agent, over connections that its requests left. */

const read = (name: string) => readFileSync(join(import.meta.dirname, 'testdata', name), 'utf8');
const answer: RequestListener = (_incoming, outgoing) =>
  outgoing.end('{"status":"online","timestamp":1000,"uptimeSec":1}');
const SERVERS = {
  http: () => http.createServer(answer),
  https: () => https.createServer({ key: read('server.key'), cert: read('server.pem') + read('ca.pem') }, answer),
};

async function start(scheme: keyof typeof SERVERS) {
  const server = SERVERS[scheme]();
  const connections: Socket[] = [];
  const sockets = new WebSocketServer({ noServer: true });
  server.on(scheme === 'http' ? 'connection' : 'secureConnection', (socket: Socket) => connections.push(socket));
  server.on('upgrade', (request, socket, head) => sockets.handleUpgrade(request, socket, head, () => {}));
  const client = new ControllerClient({
    controllerUrl: `${scheme}://127.0.0.1:${await listenForTest(server)}`,
    ...{ instance: 'i', boot: 'b', clock: systemClock() },
    ...(scheme === 'https' && { ca: read('ca.pem') }),
    node: { uuid: 'node', key: generateKeyPairSync('ed25519').privateKey },
  });
  onTestFinished(() => {
    client.close();
    for (const socket of sockets.clients) socket.terminate();
  });
  return { client, connections };
}

/** Resolves with undefined once it is open. */
function open(client: ControllerClient, kept: boolean): Promise<SocketEnd | undefined> {
  return new Promise((resolve) => {
    const listener = { frame: () => {}, closed: resolve };
    const socket = openSocket(client.socket('/agent/exec', { kept }), listener, () => resolve(undefined));
    onTestFinished(() => socket.drop());
  });
}

test.each(['http', 'https'] as const)('a WebSocket takes a connection of %s that a request left', async (scheme) => {
  const { client, connections } = await start(scheme);
  await client.ping();
  expect(await open(client, true)).toBeUndefined();
  expect(connections).toHaveLength(1);
  // That connection is the session's now.
  await client.ping();
  expect(connections).toHaveLength(2);
});

test('a WebSocket makes a connection of its own where none waits, or none is to be trusted', async () => {
  const { client, connections } = await start('http');
  expect(await open(client, true)).toBeUndefined();
  expect(connections).toHaveLength(1);
  await client.ping();
  expect(await open(client, false)).toBeUndefined();
  expect(connections).toHaveLength(3);
});

test('a WebSocket over a kept connection that turns out to be closed ends, and the next one opens', async () => {
  const { client, connections } = await start('http');
  await client.ping();
  const [kept] = connections;
  const opening = open(client, true);
  kept?.destroy();
  expect(await opening).toMatchObject({ code: 1006 });
  expect(await open(client, false)).toBeUndefined();
});
