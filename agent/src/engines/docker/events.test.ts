import { createServer } from 'node:http';
import { expect, test } from 'vitest';
import { listenForTest } from '../../../../testing/local-server.ts';
import { DockerEngine } from './engine.ts';

test('an engine that ends in the middle of its events does not answer, in words that name it', async () => {
  const server = createServer((_, response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).write('{"Action":"start","id":"a"}\n');
    setImmediate(() => response.socket?.resetAndDestroy());
  });
  const url = `http://127.0.0.1:${await listenForTest(server)}`;
  const engine = new DockerEngine({ url, instance: 'a'.repeat(32) });
  const read = async () => {
    for await (const _ of engine.events(new AbortController().signal));
  };
  await expect(read()).rejects.toMatchObject({ code: 'Unavailable', message: expect.stringContaining(url) });
});
