import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { freePort } from '../../hack/ports.ts';
import { busClient, makeBus, startBusServer, type TestBus, withoutTls } from '../../testing/bus.ts';
import { tlsFiles } from '../../testing/bus-tls.ts';
import { type BusConnection, connectBus } from './connection.ts';

const { signal } = new AbortController();

async function connected(bus: TestBus, url: string): Promise<BusConnection> {
  const connection = await connectBus({ servers: [url], creds: bus.admin.creds, name: 'test', signal });
  onTestFinished(() => connection.close());
  return connection;
}

describe('a server of the bus', () => {
  test('lets in the users of an account once its token was pushed', async () => {
    const bus = makeBus();
    const server = await startBusServer(bus);
    const pumps = bus.account('pumps');
    const user = pumps.user('north');
    await expect(busClient(server.url, user)).rejects.toThrow('Authorization');
    const connection = await connected(bus, server.url);
    const token = pumps.token();
    await connection.push(token, signal);
    await busClient(server.url, user);
    const fans = bus.account('fans').publicKey;
    expect(await connection.tokens([fans], signal)).toEqual(
      new Map([
        [fans, [undefined]],
        [bus.system.publicKey, [expect.any(String)]],
        [pumps.publicKey, [token]],
      ]),
    );
  });

  test('ends the open connection of a revoked user within 5 s of the push, and refuses it from then on', async () => {
    const bus = makeBus();
    const pumps = bus.account('pumps');
    const server = await startBusServer(bus, { preload: { [pumps.publicKey]: pumps.token() } });
    const [revoked, other] = [pumps.user('north'), pumps.user('south')];
    const client = await busClient(server.url, revoked);
    const stays = await busClient(server.url, other);
    const connection = await connected(bus, server.url);
    const began = performance.now();
    await connection.push(pumps.token({ revocations: { [revoked.publicKey]: Math.ceil(Date.now() / 1000) } }), signal);
    await client.closed();
    expect(performance.now() - began).toBeLessThan(5_000);
    await expect(busClient(server.url, revoked)).rejects.toThrow('Authorization');
    await stays.flush();
    expect(stays.isClosed()).toBe(false);
  });

  test('keeps the newer of its own token and a preloaded one when it starts', async () => {
    const bus = makeBus();
    const pumps = bus.account('pumps');
    const [old, newer] = [pumps.token(), pumps.token()];
    const server = await startBusServer(bus, { preload: { [pumps.publicKey]: old } });
    const connection = await connected(bus, server.url);
    await connection.push(newer, signal);
    await server.kill();
    await server.start();
    expect((await (await connected(bus, server.url)).tokens([], signal)).get(pumps.publicKey)).toEqual([newer]);
  });
});

test('a push is confirmed by the server at the other end, and reaches every server of its cluster', async () => {
  const bus = makeBus();
  const [a, b] = [await freePort(), await freePort()];
  const routes = [a, b].map((port) => `nats://127.0.0.1:${port}`);
  const tls = await tlsFiles();
  const member = (port: number) =>
    startBusServer(bus, { cluster: { name: 'hub', port, routes, tls }, isStoreless: true });
  const [one, two] = await Promise.all([member(a), member(b)]);
  const [first, second] = [await connected(bus, one.url), await connected(bus, two.url)];
  expect(first.server.id).not.toBe(second.server.id);
  const pumps = bus.account('pumps');
  let token = '';
  await expect
    .poll(async () => {
      token = pumps.token();
      await first.push(token, signal);
      return (await second.tokens([], signal)).get(pumps.publicKey);
    })
    .toEqual([expect.any(String), expect.any(String)]);
  await expect.poll(async () => (await first.tokens([], signal)).get(pumps.publicKey)).toEqual([token, token]);
  await two.kill();
  const fans = bus.account('fans');
  const other = fans.token();
  await first.push(other, signal);
  await two.start();
  const again = await connected(bus, two.url);
  const texts = async () => new Set((await again.tokens([], signal)).get(fans.publicKey));
  await expect.poll(texts).toEqual(new Set([other, undefined]));
  await again.push(other, signal);
  expect(await texts()).toEqual(new Set([other]));
});

describe('a connection', () => {
  test('rejects a push with the reason of the server', async () => {
    const bus = makeBus();
    const server = await startBusServer(bus);
    const connection = await connected(bus, server.url);
    await expect(connection.push('no.token.atall', signal)).rejects.toThrow(
      /^The bus server "server-\d+" refuses a token: .*\(500\)$/,
    );
  });

  test('says when it has ended, and rejects what waits for a reply', async () => {
    const bus = makeBus();
    const server = await startBusServer(bus);
    const connection = await connected(bus, server.url);
    await server.kill();
    await connection.closed;
    await expect(connection.tokens([], signal)).rejects.toThrow();
  });

  test('is refused to a user whom the server does not know', async () => {
    const bus = makeBus();
    const server = await startBusServer(bus);
    const options = { servers: [server.url], creds: makeBus().admin.creds, name: 'test', signal };
    await expect(connectBus(options)).rejects.toThrow('Authorization');
  });

  describe('a server with TLS for clients', () => {
    test.each([
      ['an address', '127.0.0.1'],
      ['a name', 'localhost'],
    ])('is reached by %s that its certificate has', async (_, host) => {
      const bus = makeBus();
      const files = await tlsFiles();
      const { serverPort } = await startBusServer(bus, { clientTls: files });
      const connection = await connectBus({
        servers: [`tls://${host}:${serverPort}`],
        tls: { ca: readFileSync(files.ca, 'utf8') },
        ...{ creds: bus.admin.creds, name: 'test', signal },
      });
      onTestFinished(() => connection.close());
      const pumps = bus.account('pumps');
      await connection.push(pumps.token(), signal);
    });

    test.each([
      ['with a certificate of another authority', '127.0.0.1', false],
      ['under an address that its certificate does not have', '127.0.0.2', true],
    ])('%s is not reached', async (_, host, isKnown) => {
      const bus = makeBus();
      const files = await tlsFiles();
      const { serverPort } = await startBusServer(bus, { clientTls: files, address: '0.0.0.0' });
      const ca = readFileSync((isKnown ? files : await tlsFiles()).ca, 'utf8');
      const servers = [`tls://${host}:${serverPort}`];
      const made = connectBus({ servers, tls: { ca }, creds: bus.admin.creds, name: 'test', signal });
      await expect(made).rejects.toThrow(isKnown ? /does not match certificate/ : /certificate/);
    });

    test('ends the connection of a client that continues without TLS', async () => {
      const { serverPort } = await startBusServer(makeBus(), { clientTls: await tlsFiles() });
      expect(await withoutTls(serverPort)).toBe('is ended');
      expect(await withoutTls((await startBusServer(makeBus())).serverPort)).toBe('is answered');
    });
  });

  test('ends with its signal while it is being made', async () => {
    const sockets: { destroyed: boolean }[] = [];
    const silent = createServer((socket) => void sockets.push(socket.on('error', () => {})));
    const port = await freePort();
    await new Promise<void>((resolve) => silent.listen(port, '127.0.0.1', resolve));
    onTestFinished(() => void silent.close());
    const abort = new AbortController();
    const { creds } = makeBus().admin;
    const made = connectBus({ servers: [`nats://127.0.0.1:${port}`], creds, name: 'test', signal: abort.signal });
    await expect.poll(() => sockets.length).toBe(1);
    abort.abort(new Error('enough'));
    await expect(made).rejects.toThrow('enough');
  });
});
