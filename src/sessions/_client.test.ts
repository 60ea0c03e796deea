import { createServer } from 'node:net';
import { expect, test } from 'vitest';
import { freePort } from '../../hack/ports.ts';
import { openClient } from './_client.ts';

/** A server whose process ends while it handles a request, as seen by its client. */
async function served(answer: string): Promise<{ port: number } & AsyncDisposable> {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => socket.write(answer, () => socket.resetAndDestroy()));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  return { port, [Symbol.asyncDispose]: async () => void server.close() };
}

// What is rejected besides the awaited promise fails the run: nothing handles it.
test('a client whose connection is refused has one error, which its test awaits', async () => {
  await expect(openClient(`ws://127.0.0.1:${await freePort()}/`, {})).rejects.toThrow('ECONNREFUSED');
});

test.for([
  ['before the response', ''],
  ['in the head of the response', 'HTTP/1.1 401 Unauth'],
  ['in the body of a refusal', 'HTTP/1.1 401 Unauthorized\r\ncontent-length: 100\r\n\r\n{"code":'],
])('a client whose server is killed %s has one error, which its test awaits', async ([, answer = '']) => {
  await using server = await served(answer);
  await expect(openClient(`ws://127.0.0.1:${server.port}/`, {})).rejects.toThrow(
    /socket hang up|ECONNRESET|aborted|JSON/,
  );
});
