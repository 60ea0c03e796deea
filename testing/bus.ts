import { randomBytes, sign } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createConnection } from 'node:net';
import { join } from 'node:path';
import { connect, credsAuthenticator, type NatsConnection } from 'nats';
import { freePort } from '../hack/ports.ts';
import { type Daemon, startDaemon } from '../hack/process.ts';
import { buildTool } from '../hack/tool.ts';
import { waitFor } from '../hack/wait.ts';
import type { BusAccountRuleSpec, BusUserRuleSpec } from '../src/api/v3/index.ts';
import { seedText } from '../src/rules/nkey-text.ts';
import { jwtWith, type Nkey, type NkeyKind, publicNkey, unsignedJwt } from '../src/signer/nkeys.ts';
import { RESERVED_ACCOUNT_RULES } from '../src/subjects/bus-rules/rules/reserved-rules.ts';
import { accountClaims, operatorClaims, userClaims } from '../src/subjects/bus-rules/rules/tokens/claims.ts';
import { credentials } from '../src/subjects/bus-rules/rules/tokens/credentials.ts';
import { type ServerConfigInput, serverConfig } from '../src/subjects/bus-servers/rules/server-config.ts';
import { atEnd } from './at-end.ts';
import { nowSeconds } from './bus-chain.ts';
import { temporaryFolder } from './temporary-folder.ts';

/** Operators, accounts and users of a bus, and real servers that trust them. */

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
  token(options?: { revocations?: Record<string, number>; iat?: number; rule?: BusAccountRuleSpec }): string;
  user(name: string, rule?: BusUserRuleSpec): TestUser;
}

export interface TestBus {
  /** the token of the operator */
  operator: string;
  system: TestAccount;
  /** a user of the system account */
  admin: TestUser;
  account(name: string): TestAccount;
}

/** A chain of trust with one operator and its system account, with the tokens of our encoder. */
export function makeBus(): TestBus {
  const operator = makeKey('operator');
  const account = (name: string): TestAccount => {
    const { publicKey, seed } = makeKey('account');
    let last = nowSeconds() - 1;
    // nats-server does not start when its system account may have streams.
    const limits = RESERVED_ACCOUNT_RULES.find((rule) => rule.name === 'default-account')?.spec;
    const allowed = name.startsWith('SYS') ? {} : limits;
    return {
      publicKey,
      token({ revocations = {}, iat = last + 1, rule = {} } = {}) {
        last = iat;
        const given = { operator: operator.publicKey, key: publicKey, name, revocations, iat };
        return signed(accountClaims({ ...given, rule: { ...allowed, ...rule } }), operator.seed);
      },
      user(of, rule = {}) {
        const user = makeKey('user');
        const claims = userClaims({ account: publicKey, key: user.publicKey, name: of, rule, iat: nowSeconds() });
        return { publicKey: user.publicKey, creds: credentials(signed(claims, seed), user.seed) };
      },
    };
  };
  const system = account('SYS');
  const claims = operatorClaims({ key: operator.publicKey, name: 'test-operator', iat: nowSeconds() });
  return { operator: signed(claims, operator.seed), system, admin: system.user('admin-hub'), account };
}

/** Tests make buses where they cannot wait; the product makes keys and signs in other threads. */
function makeKey(kind: NkeyKind): Nkey {
  const seed = seedText(kind, randomBytes(32));
  return { publicKey: publicNkey(seed), seed };
}

function signed(claims: object, seed: string): string {
  const { text, key } = unsignedJwt(claims, seed);
  return jwtWith(text, sign(null, Buffer.from(text), key));
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

/** What a server does when a client continues without TLS after the greeting: it answers in the protocol, or ends the connection. */
export async function withoutTls(port: number): Promise<'is answered' | 'is ended'> {
  const socket = createConnection(port, '127.0.0.1');
  atEnd(() => void socket.destroy());
  socket.setTimeout(10_000, () => socket.destroy(new Error(`the server at port ${port} says nothing`)));
  let text = '';
  for await (const chunk of socket) {
    const isGreeted = text.includes('\r\n');
    text += chunk;
    if (isGreeted) return 'is answered';
    if (text.includes('\r\n')) socket.write('CONNECT {"verbose":true}\r\nPING\r\n');
  }
  return 'is ended';
}

/** A client of the bus until the test ends. It never connects again. `ca`: text by which it knows a server with TLS. */
export async function busClient(url: string, { creds }: TestUser, ca?: string): Promise<NatsConnection> {
  const authenticator = credsAuthenticator(new TextEncoder().encode(creds));
  const client = await connect({
    servers: url,
    authenticator,
    reconnect: false,
    timeout: 5_000,
    ...(ca && { tls: { ca } }),
  });
  atEnd(() => client.close());
  return client;
}
