import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer as createTcpServer, type Socket } from 'node:net';
import { createServer } from 'node:tls';
import rhea, { type EventContext, type Sender } from 'rhea';
import { describe, expect, onTestFinished, test } from 'vitest';
import { freePort } from '../../hack/ports.ts';
import { tlsFiles } from '../../testing/bus-tls.ts';
import { makeRouterTrust, startRouter } from '../../testing/router.ts';
import { connectRouter, RouterRefused } from './connection.ts';

const { signal } = new AbortController();
const ECHO = { kind: 'tcpListener', name: 'web-listener', attributes: { port: '9', address: 'web' } } as const;

describe('the management of a router', () => {
  test('makes, shows and deletes entities', async () => {
    const router = await startRouter(await makeRouterTrust(), { id: 'north' });
    const connection = await router.manage();
    expect(connection.router).toEqual({ id: 'north', version: expect.stringMatching(/^3\.4\./) });
    const port = String(await freePort());
    await connection.create({ ...ECHO, attributes: { port, address: 'web' } }, signal);
    const [found] = await connection.query('tcpListener', signal);
    expect(found).toMatchObject({
      ...ECHO,
      attributes: { name: 'web-listener', port, address: 'web', operStatus: 'down' },
    });
    await connection.update({ ...ECHO, attributes: { observer: 'none' } }, signal);
    expect((await connection.query('tcpListener', signal))[0]?.attributes.observer).toBe('none');
    await connection.delete(ECHO, signal);
    expect(await connection.query('tcpListener', signal)).toEqual([]);
    await connection.delete(ECHO, signal);
  });

  test.each<[string, Record<string, string>, number, RegExp]>([
    ['an attribute that does not exist', { port: '9', address: 'a', routeContainer: 'x' }, 400, /routeContainer/],
    ['no port', { address: 'a' }, 500, /port/],
    [
      'a profile that does not exist',
      { port: '9', address: 'a', sslProfile: 'none' },
      500,
      /sslProfile 'none' not found/,
    ],
  ])('refuses %s with its status and reason', async (_, attributes, status, reason) => {
    const router = await startRouter(await makeRouterTrust());
    const connection = await router.manage();
    const error = await connection.create({ ...ECHO, attributes }, signal).catch((refusal: unknown) => refusal);
    expect(error).toBeInstanceOf(RouterRefused);
    expect(error).toMatchObject({ status, message: expect.stringMatching(reason) });
    expect((error as Error).message).toContain('refuses CREATE of "web-listener"');
    await expect(connection.query('tcpListener', signal)).resolves.toEqual([]);
  });

  test('is refused to a client with a certificate of another authority, and to names that the router does not have', async () => {
    const [trust, other] = [await makeRouterTrust(), await makeRouterTrust()];
    const router = await startRouter(trust);
    const options = { host: '127.0.0.1', port: router.ports.messaging, servername: 'localhost', name: 'test', signal };
    await expect(connectRouter({ ...options, tls: other.agent })).rejects.toThrow(/certificate/);
    await expect(connectRouter({ ...options, tls: { ...other.agent, ca: trust.agent.ca } })).rejects.toThrow(/ended/);
    await expect(connectRouter({ ...options, tls: trust.agent, servername: 'other.example' })).rejects.toThrow(
      /altnames/,
    );
  });

  test('has 1,000 listeners of services, made and shown', { timeout: 60_000 }, async () => {
    const router = await startRouter(await makeRouterTrust());
    const connection = await router.manage();
    for (let i = 0; i < 1_000; i++)
      await connection.create(
        { kind: 'tcpListener', name: `s${i}-listener`, attributes: { port: String(20_000 + i), address: `s${i}` } },
        signal,
      );
    expect(await connection.query('tcpListener', signal)).toHaveLength(1_000);
  });
});

/** The other end of a connection that does what a test wants, with the certificate of a router. */
async function startFake(
  answer: (asked: { id: unknown; reply: Sender }) => void,
): Promise<() => Promise<Awaited<ReturnType<typeof connectRouter>>>> {
  const files = await tlsFiles();
  const tls = {
    ca: readFileSync(files.ca, 'utf8'),
    cert: readFileSync(files.cert, 'utf8'),
    key: readFileSync(files.key, 'utf8'),
  };
  const port = await freePort();
  const sockets: Socket[] = [];
  const server = createServer({ ...tls, requestCert: true }, (socket) => {
    sockets.push(socket.on('error', () => {}));
    const container = rhea.create_container({ id: 'fake' });
    for (const event of ['error', 'connection_error', 'protocol_error', 'session_error', 'disconnected'])
      container.on(event, () => {});
    container.sasl_server_mechanisms.enable_anonymous();
    const mechanisms = container.sasl_server_mechanisms as unknown as Record<string, unknown>;
    mechanisms.EXTERNAL = () => ({
      start(this: { outcome?: boolean }) {
        this.outcome = true;
      },
    });
    let reply: Sender | undefined;
    container.on('sender_open', ({ sender }: EventContext) => {
      reply = sender;
      sender?.set_source({ address: 'reply' });
    });
    container.on('message', ({ message }: EventContext) => reply && answer({ id: message?.correlation_id, reply }));
    container.create_connection({ container_id: 'fake' } as never).accept(socket);
  });
  await once(server.listen(port, '127.0.0.1'), 'listening');
  onTestFinished(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return async () => {
    const connection = await connectRouter({
      host: '127.0.0.1',
      port,
      servername: 'localhost',
      tls,
      name: 'test',
      signal,
    });
    onTestFinished(() => connection.close());
    return connection;
  };
}

/** A server that takes connections and says nothing; the port that it listens on. */
async function startSilent(): Promise<number> {
  const sockets: Socket[] = [];
  const server = createTcpServer((socket) => void sockets.push(socket.on('error', () => {})));
  const port = await freePort();
  await new Promise<void>((resolve) => void server.listen(port, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return port;
}

const OK = { statusCode: 200, statusDescription: 'OK' };

describe('a connection', () => {
  test('to a router that never says anything is given up', { timeout: 20_000 }, async () => {
    const port = await startSilent();
    const { agent } = await makeRouterTrust();
    await expect(
      connectRouter({ host: '127.0.0.1', port, tls: agent, servername: 'localhost', name: 'test', signal }),
    ).rejects.toThrow('it does not answer');
  });

  test('is given up with its signal while it is being made', async () => {
    const port = await startSilent();
    const { agent } = await makeRouterTrust();
    const abort = new AbortController();
    const made = connectRouter({
      host: '127.0.0.1',
      port,
      tls: agent,
      servername: 'localhost',
      name: 'test',
      signal: abort.signal,
    });
    abort.abort(new Error('enough'));
    await expect(made).rejects.toThrow('enough');
  });

  test('is refused at once where nothing listens', async () => {
    const { agent } = await makeRouterTrust();
    await expect(
      connectRouter({ host: '127.0.0.1', port: await freePort(), tls: agent, name: 'test', signal }),
    ).rejects.toThrow('ECONNREFUSED');
  });

  test('gives up an unanswered request with its signal, and takes further ones', async () => {
    let isSilent = true;
    const dial = await startFake(({ id, reply }) => {
      if (!isSilent)
        reply.send({
          correlation_id: id as string,
          application_properties: OK,
          body: { attributeNames: ['name'], results: [['a']] },
        });
    });
    const connection = await dial();
    const abort = new AbortController();
    const asked = connection.query('tcpListener', abort.signal);
    abort.abort(new Error('enough'));
    await expect(asked).rejects.toThrow('enough');
    isSilent = false;
    await expect(connection.query('tcpListener', signal)).resolves.toMatchObject([{ name: 'a' }]);
  });

  test('rejects what waits for an answer when it ends, and says so', async () => {
    const dial = await startFake(({ reply }) => reply.connection.close());
    const connection = await dial();
    await expect(connection.query('tcpListener', signal)).rejects.toThrow(/ended/);
    await connection.closed;
    await expect(connection.create(ECHO, signal)).rejects.toThrow(/ended/);
  });

  test.each<[string, unknown]>([
    ['nothing', undefined],
    ['a text', 'x'],
    ['rows without names', { results: [[1]] }],
    ['rows that are none', { attributeNames: ['name'], results: 5 }],
    [
      'more rows than a router may have',
      { attributeNames: ['name'], results: Array.from({ length: 20_001 }, () => []) },
    ],
  ])('rejects an answer to a query of %s', async (_, body) => {
    const dial = await startFake(
      ({ id, reply }) => void reply.send({ correlation_id: id as string, application_properties: OK, body }),
    );
    await expect((await dial()).query('tcpListener', signal)).rejects.toThrow(/does not answer a query/);
  });

  test('leaves out rows that name nothing, and cuts long reasons', async () => {
    const dial = await startFake(({ id, reply }) => {
      const isQuery = id === '0';
      const results = [['a', null], [null, 'x'], 'text', [7]];
      const properties = isQuery ? OK : { statusCode: 400, statusDescription: 'x'.repeat(10_000) };
      reply.send({
        correlation_id: id as string,
        application_properties: properties,
        body: { attributeNames: ['name', 'port'], results },
      });
    });
    const connection = await dial();
    expect(await connection.query('tcpListener', signal)).toEqual([
      { kind: 'tcpListener', name: 'a', attributes: { name: 'a' } },
    ]);
    const error = (await connection.create(ECHO, signal).catch((refusal: unknown) => refusal)) as Error;
    expect(error.message.length).toBeLessThan(400);
  });

  test('is ended by the client when a router sends an answer without end', { timeout: 60_000 }, async () => {
    const dial = await startFake(({ id, reply }) => {
      const body = { attributeNames: ['name'], results: Array.from({ length: 40 }, () => ['x'.repeat(2 ** 20)]) };
      reply.send({ correlation_id: id as string, application_properties: OK, body });
    });
    const connection = await dial();
    await expect(connection.query('tcpListener', signal)).rejects.toThrow(/sent more than \d+ bytes/);
    await connection.closed;
  });
});
