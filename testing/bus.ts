import { createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { connect, credsAuthenticator, type NatsConnection } from 'nats';
import { createAccount, createOperator, createUser, type KeyPair } from 'nkeys.js';
import { freePort } from '../hack/ports.ts';
import { type Daemon, startDaemon } from '../hack/process.ts';
import { buildTool } from '../hack/tool.ts';
import { waitFor } from '../hack/wait.ts';
import { type ServerConfigInput, serverConfig } from '../src/subjects/bus-servers/rules/server-config.ts';
import { atEnd } from './at-end.ts';
import { temporaryFolder } from './temporary-folder.ts';

/** Operators, accounts and users of a bus, and real servers that trust them. */

const NO_LIMIT = -1;

/** A user of an account. */
export interface TestUser {
  publicKey: string;
  /** text of the credentials */
  creds: string;
}

/** An account: its tokens, each later than the one before, and its users. */
export interface TestAccount {
  publicKey: string;
  /** the token of now: with these revocations, and signed at that second, or one second after the last */
  token(options?: { revocations?: Record<string, number>; iat?: number; claims?: object }): string;
  user(name: string, claims?: object): TestUser;
}

export interface TestBus {
  /** the token of the operator */
  operator: string;
  system: TestAccount;
  /** a user of the system account */
  admin: TestUser;
  account(name: string): TestAccount;
}

/** A chain of trust with one operator and its system account. */
export function makeBus(): TestBus {
  const operator = createOperator();
  const account = (name: string): TestAccount => {
    const keys = createAccount();
    let last = Math.floor(Date.now() / 1000) - 1;
    const all = [
      'subs',
      'data',
      'payload',
      'imports',
      'exports',
      'conn',
      'leaf',
      'mem_storage',
      'disk_storage',
      'streams',
      'consumer',
    ];
    // nats-server does not start when its system account may have streams.
    const ours = name.startsWith('SYS') ? all.slice(0, 6) : all;
    return {
      publicKey: keys.getPublicKey(),
      token({ revocations, iat = last + 1, claims = {} } = {}) {
        last = iat;
        const limits = { ...Object.fromEntries(ours.map((key) => [key, NO_LIMIT])), wildcards: true };
        return token(operator, keys, { name, iat, claims: { type: 'account', limits, revocations, ...claims } });
      },
      user(of, claims = {}) {
        const user = createUser();
        const iat = Math.floor(Date.now() / 1000);
        const limits = { subs: NO_LIMIT, data: NO_LIMIT, payload: NO_LIMIT };
        const jwt = token(keys, user, { name: of, iat, claims: { type: 'user', ...limits, ...claims } });
        const section = (title: string, text: string) =>
          `-----BEGIN ${title}-----\n${text}\n------END ${title}------\n`;
        const seed = new TextDecoder().decode(user.getSeed());
        return {
          publicKey: user.getPublicKey(),
          creds: `${section('NATS USER JWT', jwt)}\n${section('USER NKEY SEED', seed)}`,
        };
      },
    };
  };
  const system = account('SYS');
  const iat = Math.floor(Date.now() / 1000);
  return {
    operator: token(operator, operator, { name: 'test-operator', iat, claims: { type: 'operator' } }),
    system,
    admin: system.user('admin-hub'),
    account,
  };
}

function token(
  issuer: KeyPair,
  subject: KeyPair,
  { name, iat, claims }: { name: string; iat: number; claims: object },
) {
  const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const body = { iat, iss: issuer.getPublicKey(), sub: subject.getPublicKey(), name, nats: { ...claims, version: 2 } };
  const jti = createHash('sha256').update(JSON.stringify(body)).digest('hex');
  const text = `${encoded({ typ: 'JWT', alg: 'ed25519-nkey' })}.${encoded({ jti, ...body })}`;
  return `${text}.${Buffer.from(issuer.sign(Buffer.from(text))).toString('base64url')}`;
}

/** The config of a test's server: what `ServerConfigInput` has, most of it by default. */
export type TestConfig = Partial<Omit<ServerConfigInput, 'resolver' | 'store'>> & {
  preload?: Readonly<Record<string, string>>;
  /** without streams */
  isStoreless?: boolean;
  domain?: string;
};

/** A server of the bus that runs until the test ends. */
export interface TestServer {
  url: string;
  serverPort: number;
  monitorPort: number;
  dir: string;
  configFile: string;
  /** Ends it as a crash would. */
  kill(): Promise<void>;
  /** Starts it again at the same ports with the files that it has. */
  start(): Promise<void>;
  /** SIGHUP, with another configuration where one is given. */
  reload(text?: string): void;
  /** its last lines */
  daemon(): Daemon;
}

/** The program, built once. */
export const natsServer = () => buildTool('nats', 'github.com/nats-io/nats-server/v2');

/** What a server trusts. */
type Trusted = Pick<TestBus, 'operator'> & { system: Pick<TestAccount, 'publicKey' | 'token'> };

/** Starts a real server with the text of the renderer. */
export async function startBusServer(
  bus: Trusted,
  { preload, isStoreless, domain = 'hub', ...given }: TestConfig = {},
): Promise<TestServer> {
  const dir = temporaryFolder();
  const serverPort = given.serverPort ?? (await freePort());
  const monitorPort = given.monitor?.port ?? (await freePort());
  const name = given.name ?? `server-${serverPort}`;
  const text = serverConfig({
    mode: 'hub',
    address: '127.0.0.1',
    operators: [bus.operator],
    systemAccount: bus.system.publicKey,
    ...given,
    ...{ name, serverPort, monitor: { address: '127.0.0.1', port: monitorPort } },
    resolver: { dir: join(dir, 'tokens'), preload: { [bus.system.publicKey]: bus.system.token(), ...preload } },
    ...(!isStoreless && { store: { dir: join(dir, 'store'), domain, memory: 2 ** 26, file: 2 ** 28 } }),
  });
  const configFile = join(dir, 'server.conf');
  mkdirSync(join(dir, 'tokens'));
  writeFileSync(configFile, text);
  const command = await natsServer();
  let daemon: Daemon;
  const start = async () => {
    daemon = await startDaemon({ name: `bus-${serverPort}`, dir, command, args: ['-c', configFile] });
    await waitFor(
      async () => {
        daemon.assertRunning();
        return (await fetch(`http://127.0.0.1:${monitorPort}/healthz?js-enabled-only=true`)).ok;
      },
      { what: `the bus server ${serverPort} to answer its probe` },
    );
  };
  await start();
  atEnd(() => daemon.stop());
  return {
    ...{ url: `nats://127.0.0.1:${serverPort}`, serverPort, monitorPort, dir, configFile, start },
    kill: () => daemon.kill(),
    reload(other) {
      if (other !== undefined) writeFileSync(configFile, other);
      daemon.signal('SIGHUP');
    },
    daemon: () => daemon,
  };
}

/** A client of the bus until the test ends. It never connects again. */
export async function busClient(url: string, { creds }: TestUser): Promise<NatsConnection> {
  const authenticator = credsAuthenticator(new TextEncoder().encode(creds));
  const client = await connect({ servers: url, authenticator, reconnect: false, timeout: 5_000 });
  atEnd(() => client.close());
  return client;
}
