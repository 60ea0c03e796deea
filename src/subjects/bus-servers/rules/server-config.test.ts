import { execFile } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { freePort } from '../../../../hack/ports.ts';
import { busClient, makeBus, natsServer, startBusServer, type TestAccount } from '../../../../testing/bus.ts';
import { tlsFiles } from '../../../../testing/bus-tls.ts';
import { temporaryFolder } from '../../../../testing/temporary-folder.ts';
import { type ServerConfigInput, serverConfig } from './server-config.ts';
import { serverName } from './server-names.ts';

const run = promisify(execFile);
const bus = makeBus();
const pumps = bus.account('pumps');
const folder = temporaryFolder();
const tls = tlsFiles();

async function base(): Promise<ServerConfigInput> {
  return {
    mode: 'hub',
    name: 'bus-0',
    serverPort: await freePort(),
    monitor: { port: await freePort() },
    operators: [bus.operator],
    systemAccount: bus.system.publicKey,
    resolver: { dir: join(folder, 'tokens') },
    store: { dir: join(folder, 'store'), domain: 'skerry', memory: 2 ** 30, file: 10 * 2 ** 30 },
  };
}

/** What each server of the bus may have; the server checks a file for each. */
const INPUTS: Readonly<Record<string, () => Promise<Partial<ServerConfigInput>>>> = {
  'a hub of one member': async () => ({ leafs: { port: 7422, tls: await tls }, mqtt: { port: 8883, tls: await tls } }),
  'a hub of three members': async () => ({
    name: { variable: 'POD_NAME' },
    cluster: {
      name: serverName('Wärmepumpen, Halle 3'),
      port: 6222,
      routes: [0, 1, 2].map((n) => `nats://bus-${n}.bus-headless.skerry.svc:6222`),
      tls: await tls,
    },
    leafs: { port: 7422, advertise: 'bus.example:7422', tls: await tls },
    mqtt: { port: 8883, tls: await tls },
  }),
  'a hub without streams': async () => ({ mqtt: { port: 8883 }, leafs: { port: 7422, tls: await tls } }),
  'a server that trusts two operators': async () => ({ operators: [bus.operator, makeBus().operator] }),
  'a server with keys of its streams that look like numbers': async () => {
    const store = (await base()).store as NonNullable<ServerConfigInput['store']>;
    const key = `2E6${'0'.repeat(40)}=`;
    return { store: { ...store, key, formerKey: `1${key}` } };
  },
  'a server with tokens': async () => ({
    resolver: { dir: join(folder, 'tokens'), preload: { [bus.system.publicKey]: bus.system.token() } },
  }),
  'a server of a node': async () => ({
    mode: 'server',
    name: serverName('pump "7" / north'),
    leafs: { port: 7422, advertise: '10.0.0.7', tls: await tls },
    remotes: [
      {
        urls: ['tls://hub.example:7422', 'tls://[2001:db8::5]:7422'],
        account: pumps.publicKey,
        credentials: '/etc/nats/creds/pumps/leaf-pump.creds',
        tls: await tls,
        denyImports: ['sensors.>'],
        denyExports: ['sensors.>'],
      },
    ],
    pidFile: join(folder, 'nats.pid'),
  }),
  'a leaf': async () => ({
    mode: 'leaf',
    remotes: [{ urls: ['tls://hub.example:7422'], account: pumps.publicKey, credentials: '/creds', tls: await tls }],
    mqtt: { port: 8883, tls: await tls },
  }),
  'a server with TLS for clients': async () => ({ clientTls: await tls }),
  'a leaf without accounts': async () => ({ mode: 'leaf' }),
};

describe('nats-server accepts the file of', () => {
  test.each(Object.entries(INPUTS))('%s', async (_, input) => {
    const text = serverConfig({ ...(await base()), ...(await input()) });
    const file = join(mkdtempSync(join(folder, 'check-')), 'server.conf');
    writeFileSync(file, text);
    const checked = await run(await natsServer(), ['-t', '-c', file], { env: { POD_NAME: '2E6' } });
    expect(checked.stderr).toContain('configuration file');
  });
});

test('no server of a node is a member of the cluster of the hub, and no leaf takes leafs', async () => {
  const cluster = { name: 'hub', port: 6222, routes: [], tls: await tls };
  for (const mode of ['server', 'leaf'] as const) {
    const input = { ...(await base()), mode, cluster };
    expect(() => serverConfig(input)).toThrow('no member of the cluster');
  }
  const leaf = { ...(await base()), mode: 'leaf', leafs: { port: 7422, tls: await tls } } as const;
  expect(() => serverConfig(leaf)).toThrow('takes no leaf links');
});

test('monitoring listens where the machine alone reaches it, unless an address is named', async () => {
  const input = await base();
  expect(serverConfig(input)).toContain(`http: "127.0.0.1:${input.monitor.port}"`);
  const open = serverConfig({ ...input, monitor: { address: '0.0.0.0', port: 8222 } });
  expect(open).toContain('http: "0.0.0.0:8222"');
});

describe('servers', () => {
  /** A hub that takes leafs, and a leaf server whose links to it have these accounts. */
  async function linked(accounts: readonly TestAccount[], mode: 'server' | 'leaf' = 'leaf') {
    const preload = Object.fromEntries(accounts.map((one) => [one.publicKey, one.token()]));
    const port = await freePort();
    const hub = await startBusServer(bus, { preload, leafs: { port, tls: await tls } });
    const own = bus.account('SYS-leaf-pump');
    const remotes = await Promise.all(
      accounts.map(async (one) => {
        const credentials = join(folder, `${one.publicKey}.creds`);
        writeFileSync(credentials, one.user('leaf-pump', { allowedConnectionTypes: ['LEAFNODE', 'WEBSOCKET'] }).creds);
        return { urls: [`tls://127.0.0.1:${port}`], account: one.publicKey, credentials, tls: await tls };
      }),
    );
    const leaf = await startBusServer(bus, {
      mode,
      name: serverName('Pumpe 7/Süd'),
      systemAccount: own.publicKey,
      preload: { ...preload, [own.publicKey]: own.token() },
      domain: serverName('Pumpe 7/Süd', ['hub']),
      remotes,
    });
    return { hub, leaf };
  }

  test.each(['leaf', 'server'] as const)(
    'carry messages of an account between the hub and a %s, both ways',
    async (mode) => {
      const account = bus.account('fans');
      const { hub, leaf } = await linked([account], mode);
      const [there, here] = [await busClient(hub.url, account.user('a')), await busClient(leaf.url, account.user('b'))];
      for (const [from, to] of [
        [there, here],
        [here, there],
      ] as const) {
        const got = to.subscribe('speed', { max: 1 });
        await to.flush();
        const reply = (async () => {
          for await (const message of got) return message.string();
        })();
        let isHere = false;
        void reply.then(() => {
          isHere = true;
        });
        await expect
          .poll(async () => {
            from.publish('speed', 'fast');
            await from.flush();
            return isHere;
          })
          .toBe(true);
        expect(await reply).toBe('fast');
      }
    },
  );

  test('make and write a stream of the hub while no server of a node runs, and a leaf makes streams of its own', async () => {
    const account = bus.account('boilers');
    const { hub, leaf } = await linked([account]);
    const here = await busClient(leaf.url, account.user('b'));
    await here.jetstreamManager().then((streams) => streams.streams.add({ name: 'own', subjects: ['own.>'] }));
    await leaf.kill();
    const there = await busClient(hub.url, account.user('a'));
    const streams = await there.jetstreamManager();
    await streams.streams.add({ name: 'all', subjects: ['all.>'] });
    expect(await there.jetstream().publish('all.1', 'x')).toMatchObject({ stream: 'all', seq: 1, domain: 'hub' });
    await expect(streams.streams.info('own')).rejects.toThrow('stream not found');
  });
});

describe('the name of a server', () => {
  test.each([
    ['pump-7', 'pump-7'],
    ['Pump7', 'Pump7'],
    ['pump 7', /^pump-7-[0-9a-f]{12}$/],
    ['pump.7', /^pump-7-[0-9a-f]{12}$/],
    ['*.>', /^bus-[0-9a-f]{12}$/],
    ['泵', /^bus-[0-9a-f]{12}$/],
    ['-pump', /^pump-[0-9a-f]{12}$/],
    ['x'.repeat(64), /^x{48}-[0-9a-f]{12}$/],
  ])('%s becomes %s', (name, expected) => expect(serverName(name)).toMatch(expected));

  test('is replaced by another one where a server has it already', () => {
    expect(serverName('skerry', ['skerry'])).toMatch(/^skerry-[0-9a-f]{12}$/);
    expect(serverName('skerry', ['skerry'])).toBe(serverName('skerry', ['skerry']));
  });

  test('differs from all others, although servers do not accept what it differs in', () => {
    const names = ['a b', 'a.b', 'A b', 'a-b', 'a_b'];
    expect(new Set(names.map((name) => serverName(name))).size).toBe(names.length);
  });
});

test('a member that starts with former tokens has the tokens of the others within 15 s, while nobody pushes any', async () => {
  const ports = [await freePort(), await freePort()] as const;
  const routes = ports.map((port) => `nats://127.0.0.1:${port}`);
  const user = pumps.user('north');
  const former = { [pumps.publicKey]: pumps.token() };
  const start = async (index: 0 | 1) =>
    startBusServer(bus, {
      ...{ isStoreless: true, preload: former },
      cluster: { name: 'hub', port: ports[index], routes, tls: await tls },
    });
  const [stays, away] = [await start(0), await start(1)];
  const admin = await busClient(stays.url, bus.admin);
  await away.kill();
  const revocations = { [user.publicKey]: Math.floor(Date.now() / 1_000) + 1 };
  const pushed = await admin.request('$SYS.REQ.CLAIMS.UPDATE', pumps.token({ revocations }), { timeout: 5_000 });
  expect(pushed.json()).not.toHaveProperty('error');
  await away.start();
  const began = performance.now();
  const answer = () =>
    busClient(away.url, user).then(async (client) => {
      await client.close();
      return 'in';
    }, String);
  expect(await answer()).toBe('in');
  await expect.poll(answer, { timeout: 30_000, interval: 250 }).toContain('Authorization');
  expect(performance.now() - began).toBeLessThan(15_000);
}, 60_000);
