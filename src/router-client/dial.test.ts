import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { describe, expect, test } from 'vitest';
import { freePort } from '../../hack/ports.ts';
import { atEnd } from '../../testing/at-end.ts';
import { type DialOptions, type DialResult, dialPort } from './dial.ts';

const dial = (port: number, more: Partial<DialOptions> = {}) =>
  dialPort({
    ...{ host: '127.0.0.1', port, connectMs: 2_000, staysMs: 300, signal: new AbortController().signal },
    ...more,
  });

/** A server that does this with each client; resolves with its port and the sockets that clients have open. */
async function serve(each: (socket: Socket) => void): Promise<{ port: number; open: Set<Socket> }> {
  const open = new Set<Socket>();
  const server = createServer((socket) => {
    open.add(socket);
    socket.on('error', () => {}).on('close', () => open.delete(socket));
    each(socket.resume());
  });
  const port = await freePort();
  await new Promise<void>((resolve) => void server.listen(port, '127.0.0.1', resolve));
  atEnd(() => {
    server.close();
    for (const socket of open) socket.destroy();
  });
  return { port, open };
}

/** The port of a process that accepts no client, and whose queue of clients is full. */
async function fullServer(): Promise<number> {
  const program = `const s=require('net').createServer().listen({port:0,host:'127.0.0.1',backlog:1},()=>console.log(s.address().port))`;
  const server = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'inherit'] });
  atEnd(() => server.kill('SIGKILL'));
  const [line] = await once(server.stdout, 'data');
  const port = Number(String(line));
  server.kill('SIGSTOP');
  const waiting = Array.from({ length: 4 }, () => connect(port, '127.0.0.1').on('error', () => {}));
  atEnd(() => waiting.map((socket) => socket.destroy()));
  await once(waiting[0] as Socket, 'connect');
  return port;
}

describe('a dial of a port', () => {
  test.each<[string, (socket: Socket) => void, DialResult['is']]>([
    ['waits for its client', () => {}, 'open'],
    ['greets its client and closes', (socket) => socket.end('SSH-2.0\r\n'), 'open'],
    ['closes at once', (socket) => socket.end(), 'closed'],
    ['resets at once', (socket) => socket.resetAndDestroy(), 'closed'],
  ])('finds a server that %s', async (_, each, is) => {
    const { port, open } = await serve(each);
    expect(await dial(port)).toEqual({ is });
    await expect.poll(() => open.size).toBe(0);
  });

  test('is refused where nothing listens', async () => {
    expect(await dial(await freePort())).toEqual({ is: 'refused' });
  });

  test('ends by its deadline where nothing answers', async () => {
    expect(await dial(await fullServer(), { connectMs: 200 })).toEqual({ is: 'timeout' });
  });

  test('has the word of the system for a host that does not exist', async () => {
    expect(await dial(80, { host: 'none.invalid' })).toEqual({ is: 'failed', message: expect.stringMatching(/^E/) });
  });

  test('ends with its signal, and leaves no connection', async () => {
    const { port, open } = await serve(() => {});
    const abort = new AbortController();
    const dialing = dial(port, { signal: abort.signal, staysMs: 60_000 });
    await expect.poll(() => open.size).toBe(1);
    abort.abort(new Error('over'));
    await expect(dialing).rejects.toThrow('over');
    await expect.poll(() => open.size).toBe(0);
    await expect(async () => dial(port, { signal: abort.signal })).rejects.toThrow('over');
  });
});
