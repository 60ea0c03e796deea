import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, onTestFinished, test } from 'vitest';
import { freePort } from '../../../hack/ports.ts';
import { systemClock } from '../../../src/lib/clock.ts';
import { silentLog } from '../../../src/lib/log.ts';
import { tokensFile } from '../../../src/wire/bus.ts';
import { busClient, makeBus, startBusServer, type TestAccount, type TestConfig } from '../../../testing/bus.ts';
import { tlsFiles } from '../../../testing/bus-tls.ts';
import type { Sent } from '../domain/desired.ts';
import { makeView } from '../supervise/plan/_util.ts';
import { BusServer } from './bus-server.ts';

const bus = makeBus();
const now = () => Math.floor(Date.now() / 1_000);

/** An agent's part, with the files of a machine in memory. */
function machine(port: number) {
  const sets = new Map<string, Map<string, Uint8Array>>();
  let changes = 0;
  const part = new BusServer({
    clock: systemClock,
    random: () => 0.5,
    log: silentLog,
    read: (set) => sets.get(set),
    changedAt: () => changes,
    changed: () => {},
  });
  const abort = new AbortController();
  const ended = part.run(abort.signal);
  onTestFinished(async () => {
    abort.abort();
    await ended;
  });
  const view = makeView({
    isBus: true,
    isSystem: true,
    portMappings: [{ internal: port, external: port, protocol: 'tcp' }],
  });
  const look = (views = [view]) =>
    part.look({ microservices: { views: new Map(views.map((one) => [one.uuid, one])) } } as unknown as Pick<
      Sent,
      'microservices'
    >);
  return {
    part,
    look,
    /** Changes files of a set, as the system's files do. */
    write(set: string, files: Readonly<Record<string, string>>) {
      changes++;
      sets.set(
        set,
        new Map([
          ...(sets.get(set) ?? []),
          ...Object.entries(files).map(([path, text]) => [path, Buffer.from(text)] as const),
        ]),
      );
    },
  };
}

async function started(...accounts: readonly TestAccount[]) {
  return startedWith({}, ...accounts);
}

async function startedWith(config: TestConfig, ...accounts: readonly TestAccount[]) {
  const server = await startBusServer(bus, {
    ...config,
    preload: Object.fromEntries(accounts.map((one) => [one.publicKey, one.token()])),
  });
  const agent = machine(server.serverPort);
  agent.write('bus-system', { 'system.creds': bus.admin.creds });
  agent.write('bus-config', { 'server.conf': 'a' });
  const setToken = (account: TestAccount, token: string) =>
    agent.write('bus-config', { [tokensFile(account.publicKey)]: `${account.publicKey}: "${token}"\n` });
  return { server, ...agent, setToken };
}

describe('the server on the machine', () => {
  test('is reported as current once it has every token, and as behind from a changed file until it has that token', async () => {
    const pumps = bus.account('pumps');
    const { server, part, look, setToken } = await started();
    expect(part.report()).toEqual({});
    setToken(pumps, pumps.token());
    look();
    expect(part.report()).toEqual({ busServer: { isCurrent: false } });
    const isCurrent = () => expect.poll(() => part.report()).toEqual({ busServer: { isCurrent: true } });
    await isCurrent();
    await busClient(server.url, pumps.user('a'));
    setToken(pumps, pumps.token());
    look();
    expect(part.report()).toEqual({ busServer: { isCurrent: false } });
    await isCurrent();
    await server.kill();
    await expect.poll(() => part.report()).toEqual({ busServer: { isCurrent: false } });
    await server.start();
    await isCurrent();
  });

  test('is sent its tokens by TLS once the certificates by which it is known are here', async () => {
    const pumps = bus.account('pumps');
    const files = await tlsFiles();
    const { server, part, look, setToken, write } = await startedWith({ clientTls: files });
    setToken(pumps, pumps.token());
    write('bus-system', { 'ca.crt': readFileSync((await tlsFiles()).ca, 'utf8') });
    look();
    await expect.poll(() => readFileSync(server.daemon().logFile, 'utf8')).toMatch(/TLS handshake error/);
    expect(part.report()).toEqual({ busServer: { isCurrent: false } });
    const ca = readFileSync(files.ca, 'utf8');
    write('bus-system', { 'ca.crt': ca });
    look();
    await expect.poll(() => part.report()).toEqual({ busServer: { isCurrent: true } });
    await busClient(server.url, pumps.user('a'), ca);
  });

  test('ends the connection of a user within 5 s of the file that revokes it, and refuses the user from then on', async () => {
    const pumps = bus.account('pumps');
    const { server, look, setToken } = await started(pumps);
    const [revoked, other] = [pumps.user('north'), pumps.user('south')];
    const [ends, stays] = [await busClient(server.url, revoked), await busClient(server.url, other)];
    setToken(pumps, pumps.token());
    look();
    const began = performance.now();
    setToken(pumps, pumps.token({ revocations: { [revoked.publicKey]: now() + 1 } }));
    look();
    await ends.closed();
    expect(performance.now() - began).toBeLessThan(5_000);
    await expect(busClient(server.url, revoked)).rejects.toThrow('Authorization');
    await stays.flush();
  });

  test('gets a token that it lacks, whenever it starts', async () => {
    const pumps = bus.account('pumps');
    const { server, look, setToken } = await started();
    await server.kill();
    setToken(pumps, pumps.token());
    look();
    await server.start();
    await expect.poll(() => busClient(server.url, pumps.user('a')).catch(() => undefined)).toBeDefined();
  });

  test('keeps a token that was signed later than the one in the files', async () => {
    const pumps = bus.account('pumps');
    const user = pumps.user('north');
    const older = pumps.token();
    const { server, look, setToken } = await started(pumps);
    const marker = bus.account('fans');
    setToken(pumps, older);
    setToken(marker, marker.token());
    const client = await busClient(server.url, user);
    look();
    await expect.poll(() => busClient(server.url, marker.user('a')).catch(() => undefined)).toBeDefined();
    await client.flush();
  });

  test('reads another configuration, which ends no connection', async () => {
    const pumps = bus.account('pumps');
    const { server, look, write } = await started(pumps);
    const client = await busClient(server.url, pumps.user('a'));
    look();
    const fans = bus.account('fans');
    const text = readFileSync(server.configFile, 'utf8');
    writeFileSync(
      server.configFile,
      text.replace('resolver_preload: {', `resolver_preload: {\n  ${fans.publicKey}: "${fans.token()}"`),
    );
    write('bus-config', { 'server.conf': 'b' });
    look();
    await expect.poll(() => busClient(server.url, fans.user('b')).catch(() => undefined)).toBeDefined();
    await client.flush();
    expect(client.isClosed()).toBe(false);
  });

  test('receives nothing more once the node has no server', async () => {
    const pumps = bus.account('pumps');
    const { server, look, setToken } = await started();
    look();
    look([]);
    setToken(pumps, pumps.token());
    look([]);
    const marker = await started();
    await expect(busClient(server.url, pumps.user('a'))).rejects.toThrow('Authorization');
    expect(marker.part.problems).toEqual([]);
  });

  test('is no problem of the machine while it is away', async () => {
    const agent = machine(await freePort());
    agent.write('bus-system', { 'system.creds': bus.admin.creds });
    agent.write('bus-config', { 'server.conf': 'a' });
    agent.look();
    expect(agent.part.problems).toEqual([]);
  });

  test('is named among the problems of the machine when it refuses a token', async () => {
    const pumps = bus.account('pumps');
    const { part, look, setToken } = await started();
    const [head, body] = pumps.token().split('.');
    setToken(pumps, `${head}.${body}.${'A'.repeat(86)}`);
    look();
    await expect
      .poll(() => part.problems)
      .toEqual(['the server of the message bus: it refuses the tokens of 1 accounts']);
  });
});
