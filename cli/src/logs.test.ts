import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import type { KubeClient } from '../../src/kube/mod.ts';
import { encodeFrame, FRAME_TYPES } from '../../src/wire/frames.ts';
import { storedApplication } from '../../testing/stored.ts';
import { createPlugin } from './_plugin.ts';

/** `logs` beside a controller that ends sessions as the test says, one request after the other. */
let server: Server | undefined;
afterEach(() => server?.close());

type Answer = ((ws: WebSocket) => void) | 'too many';

async function logs(args: readonly string[], ...answers: Answer[]) {
  const open = createServer().listen(0, '127.0.0.1');
  server = open;
  await once(open, 'listening');
  const sockets = new WebSocketServer({ noServer: true });
  open.on('upgrade', (request, socket, head) => {
    const answer = answers.shift();
    if (answer === 'too many') socket.end(TOO_MANY);
    else sockets.handleUpgrade(request, socket, head, (ws) => answer?.(ws));
  });
  const shop = storedApplication('shop', [
    { name: 'web', uuid: '7faa827a-4355-4898-8705-10cb8a4c9efa', agent: { name: 'edge-1' }, images: { amd64: 'x' } },
  ]);
  const { port } = open.address() as AddressInfo;
  return createPlugin({ find: async () => shop } as unknown as KubeClient, 'skerry', {
    env: { SKERRY_CONTROLLER: `http://127.0.0.1:${port}`, SKERRY_TOKEN: 'admin' },
  })('logs', 'shop/web', ...args);
}

const TOO_MANY = 'HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n';
const say = (ws: WebSocket, type: keyof typeof FRAME_TYPES, text = '', timestamp = 0) =>
  ws.send(encodeFrame({ type: FRAME_TYPES[type], data: Buffer.from(text), timestamp }));
const drained = (ws: WebSocket) => {
  say(ws, 'LOG_LINE', 'one', 1_000);
  say(ws, 'LOG_ERROR', 'the controller shuts down');
  ws.close(1001, 'the controller shuts down');
};

test('a log that is followed goes on at another replica when one shuts down, with each line once', async () => {
  const shown = await logs(['-f'], drained, (ws) => {
    say(ws, 'LOG_LINE', 'one', 1_000);
    say(ws, 'LOG_LINE', 'two', 2_000);
    say(ws, 'LOG_STOP');
    ws.close(1000);
  });
  expect(shown).toMatchObject({ code: 0, out: 'one\ntwo\n', err: expect.stringContaining('it is opened again') });
});

test('a log that is not followed fails when the replica shuts down', async () => {
  expect(await logs([], drained)).toMatchObject({ code: 1, out: 'one\n', err: expect.stringMatching(/shut/) });
});

test('a log that is followed ends with what the controller refuses', async () => {
  const shown = await logs(['-f'], (ws) => {
    say(ws, 'LOG_ERROR', 'the microservice is gone');
    ws.close(1008, 'the microservice is gone');
  });
  expect(shown).toMatchObject({ code: 1, out: '', err: expect.stringContaining('the microservice is gone') });
});

test('a log that may not be opened yet is waited for, also when it is not followed', async () => {
  const shown = await logs([], 'too many', (ws) => {
    say(ws, 'LOG_LINE', 'one', 1_000);
    say(ws, 'LOG_STOP');
    ws.close(1000);
  });
  expect(shown).toMatchObject({ code: 0, out: 'one\n' });
});

test('a log out of which lines were left is a failure, though its last line came', async () => {
  const shown = await logs([], (ws) => {
    say(ws, 'LOG_LINE', 'one', 1_000);
    say(ws, 'LOG_ERROR', 'lines are left out');
    say(ws, 'LOG_LINE', 'nine', 9_000);
    say(ws, 'LOG_STOP');
    ws.close(1000);
  });
  expect(shown).toMatchObject({ code: 1, out: 'one\nnine\n', err: expect.stringContaining('lines are left out') });
});

test('the log of a former run is not that of the present one, of a controller that does not know it', async () => {
  const shown = await logs(['-p'], (ws) => {
    say(ws, 'LOG_START', '{"sessionId":"s","tailConfig":{"lines":100,"follow":false}}');
    say(ws, 'LOG_LINE', 'of the present run', 1_000);
    say(ws, 'LOG_STOP');
  });
  expect(shown).toMatchObject({
    code: 1,
    out: '',
    err: expect.stringContaining('does not know --previous: update it'),
  });
});

test('the log of a former run has its lines', async () => {
  const shown = await logs(['-p'], (ws) => {
    say(ws, 'LOG_START', '{"sessionId":"s","tailConfig":{"lines":100,"follow":false,"previous":true}}');
    say(ws, 'LOG_LINE', 'panic', 1_000);
    say(ws, 'LOG_STOP');
    ws.close(1000);
  });
  expect(shown).toMatchObject({ code: 0, out: 'panic\n' });
});
