import { copyFileSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { connect, type TLSSocket } from 'node:tls';
import { describe, expect, onTestFinished, test } from 'vitest';
import { freePort } from '../../../../hack/ports.ts';
import { busClient, makeBus, startBusServer, type TestServer, withoutTls } from '../../../../testing/bus.ts';
import { tlsFiles } from '../../../../testing/bus-tls.ts';
import { connectBus } from '../../../bus-client/connection.ts';
import { isSmallerStore, type ServerConfigInput, type ServerTls, serverConfig, startedWith } from './server-config.ts';

/** What a reload of a real server takes, and so what another configuration of the bus replaces or reloads. */
const bus = makeBus();
const pumps = bus.account('pumps');
const otherOperator = makeBus().operator;
const [site, next] = [await tlsFiles(), await tlsFiles()];
const ports = { leaf: await freePort(), mqtt: await freePort(), cluster: await freePort() };
const KEY = 'a'.repeat(43);

type Change = (input: ServerConfigInput) => Partial<ServerConfigInput>;
type Store = NonNullable<ServerConfigInput['store']>;
const store =
  (change: Partial<Store>): Change =>
  (input) => ({ store: { ...(input.store as Store), ...change } });
const cluster =
  (change: Partial<NonNullable<ServerConfigInput['cluster']>>): Change =>
  (input) => ({ cluster: { ...(input.cluster as NonNullable<ServerConfigInput['cluster']>), ...change } });
const remote = (denyImports: readonly string[] = []) => ({
  urls: ['tls://127.0.0.1:1'],
  account: pumps.publicKey,
  credentials: site.cert,
  denyImports,
  tls: site,
});
const MIB = 2 ** 20;

const CHANGES: readonly [what: string, takes: 'a reload' | 'a start', change: Change][] = [
  [
    'the tokens of accounts',
    'a reload',
    ({ resolver }) => ({
      resolver: { ...resolver, preload: { ...resolver.preload, [pumps.publicKey]: pumps.token() } },
    }),
  ],
  ['the link of a further account of a node', 'a reload', () => ({ remotes: [remote()] })],
  ['a further member', 'a reload', cluster({ routes: [`nats://127.0.0.1:${ports.cluster}`, 'nats://127.0.0.1:2'] })],
  ['a larger store on disk', 'a reload', store({ file: 512 * MIB })],
  ['a larger store in memory', 'a reload', store({ memory: 128 * MIB })],
  ['the tag', 'a reload', () => ({ tag: 'config:2' })],
  ['a smaller store on disk', 'a start', store({ file: 128 * MIB })],
  ['a smaller store in memory', 'a start', store({ memory: 32 * MIB })],
  ['another key of the store', 'a start', store({ key: 'b'.repeat(43), formerKey: KEY })],
  ['another domain', 'a start', store({ domain: 'elsewhere' })],
  ['another port of clients', 'a start', ({ serverPort }) => ({ serverPort: serverPort + 1 })],
  ['another port of monitoring', 'a start', ({ monitor }) => ({ monitor: { ...monitor, port: monitor.port + 1 } })],
  ['another port of the cluster', 'a start', cluster({ port: 3 })],
  ['no cluster', 'a start', () => ({ cluster: undefined as never })],
  ['another port of leafs', 'a start', () => ({ leafs: { port: ports.leaf + 1, tls: site } })],
  [
    'another address for leafs',
    'a start',
    () => ({ leafs: { port: ports.leaf, advertise: 'other.example:7422', tls: site } }),
  ],
  ['another port of devices', 'a start', () => ({ mqtt: { port: ports.mqtt + 1, tls: site } })],
  ['another operator', 'a start', () => ({ operators: [bus.operator, otherOperator] })],
  [
    'another system account',
    'a start',
    ({ resolver }) => ({
      systemAccount: pumps.publicKey,
      resolver: { ...resolver, preload: { ...resolver.preload, [pumps.publicKey]: pumps.token() } },
    }),
  ],
  ['another name', 'a start', () => ({ name: 'other' })],
];

/** A member with everything that one can have, and its configuration. */
async function startMember(mode: 'hub' | 'server' = 'hub'): Promise<{
  server: TestServer;
  input: ServerConfigInput;
  write(next: ServerConfigInput): void;
}> {
  const given = {
    name: 'member',
    tag: 'config:1',
    leafs: { port: ports.leaf, tls: site },
    mqtt: { port: ports.mqtt, tls: site },
    ...(mode === 'hub' && {
      cluster: { name: 'hub', port: ports.cluster, routes: [`nats://127.0.0.1:${ports.cluster}`], tls: site },
    }),
  } as const;
  const server = await startBusServer(bus, given);
  const input: ServerConfigInput = {
    ...{ mode, address: '127.0.0.1', operators: [bus.operator], systemAccount: bus.system.publicKey, ...given },
    ...{ serverPort: server.serverPort, monitor: { address: '127.0.0.1', port: server.monitorPort } },
    resolver: { dir: join(server.dir, 'tokens'), preload: { [bus.system.publicKey]: bus.system.token() } },
    store: { dir: join(server.dir, 'store'), domain: 'hub', memory: 64 * MIB, file: 256 * MIB, key: KEY },
  };
  const write = (config: ServerConfigInput) => writeFileSync(server.configFile, serverConfig(config));
  await server.kill();
  rmSync(join(server.dir, 'store'), { recursive: true, force: true });
  write(input);
  await server.start();
  return { server, input, write };
}

async function system({ url }: TestServer) {
  const connection = await connectBus({
    servers: [url],
    creds: bus.admin.creds,
    name: 'test',
    signal: AbortSignal.timeout(10_000),
  });
  onTestFinished(() => connection.close());
  return connection;
}

const never = () => new AbortController().signal;

describe('a running server', () => {
  test.each(CHANGES)('takes %s by %s', async (what, takes, change) => {
    const { server, input, write } = await startMember(what.includes('node') ? 'server' : 'hub');
    const connection = await system(server);
    const wanted = { ...input, ...change(input) };
    write(wanted);
    const answer = await connection.reload(never()).then(() => 'a reload', String);
    if (takes === 'a reload') expect(answer).toBe('a reload');
    else expect(answer).toMatch(/does not reload/);

    const isReplaced =
      serverConfig(startedWith(wanted)) !== serverConfig(startedWith(input)) ||
      isSmallerStore(wanted.store as Store, input.store as Store);
    expect(isReplaced).toBe(takes === 'a start');
  });

  test('is replaced for TLS of clients, since a reload would leave connections without it', async () => {
    const { server, input, write } = await startMember();
    const stays = await system(server);
    const wanted = { ...input, clientTls: site };
    write(wanted);
    await stays.reload(never());
    await stays.tags(never());
    expect(await withoutTls(server.serverPort)).toBe('is ended');
    expect(serverConfig(startedWith(wanted))).not.toBe(serverConfig(startedWith(input)));
  });

  test('says by its tag which configuration it has read', async () => {
    const { server, input, write } = await startMember();
    const connection = await system(server);
    expect(await connection.tags(never())).toEqual(['config:1']);
    write({ ...input, tag: 'config:2' });
    expect(await connection.tags(never())).toEqual(['config:1']);
    await connection.reload(never());
    expect(await connection.tags(never())).toEqual(['config:2']);
  });

  test('shows the next certificate to leafs, devices and members after a reload, and ends no connection of a client', async () => {
    const { server } = await startMember();
    const connection = await system(server);
    const client = await busClient(server.url, bus.admin);
    const before = await shown();
    const former = { cert: readFileSync(site.cert), key: readFileSync(site.key), ca: readFileSync(site.ca) };
    onTestFinished(() => {
      for (const name of ['cert', 'key', 'ca'] as const) writeFileSync(site[name], former[name]);
    });
    for (const name of ['cert', 'key', 'ca'] as const satisfies readonly (keyof ServerTls)[])
      copyFileSync(next[name], site[name]);
    await connection.reload(never());
    const after = await shown();
    expect(new Set(after).size).toBe(1);
    expect(after[0]).not.toBe(before[0]);
    await client.flush();
    expect(client.isClosed()).toBe(false);
  });
});

/** Fingerprints of the certificates that the ports of leafs, devices and members show. */
const shown = () => Promise.all([ports.leaf, ports.mqtt, ports.cluster].map(fingerprintAt));

function fingerprintAt(port: number): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const socket: TLSSocket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false }, () => {
    resolve(socket.getPeerCertificate().fingerprint256);
    socket.destroy();
  });
  socket.setTimeout(5_000, () => reject(new Error(`port ${port} does not begin with TLS`)));
  socket.once('error', reject);
  return promise;
}
