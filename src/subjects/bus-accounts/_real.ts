import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { startBusServer, type TestServer } from '../../../testing/bus.ts';
import type { ChainUser } from '../../../testing/bus-chain.ts';
import { type ProtocolClient, pub, speakBus } from '../../../testing/bus-protocol.ts';
import type { InMemoryController } from '../../../testing/in-memory-controller.ts';
import { type BusConnection, connectBus } from '../../bus-client/connection.ts';
import { decodeData } from '../../datastore/keyed-text.ts';
import type { busOf } from './_fleet.ts';
import { PATTERNS, SUBJECTS } from './_model.ts';
import { trustedOperators } from './rules/operator.ts';
import { BUS_KEYS, operatorSecretName } from './rules/secret.ts';

const signal = () => AbortSignal.timeout(20_000);
/** From the push of a revocation until the server has ended the connection. */
const END_MS = 5_000;

/** A real server of the bus that has the tokens of a controller in memory. */
export class RealServer {
  readonly #fleet: InMemoryController;
  readonly #bus: ReturnType<typeof busOf>;
  #server: TestServer | undefined;
  #system: BusConnection | undefined;
  #systemToken = '';

  constructor(fleet: InMemoryController, bus: ReturnType<typeof busOf>) {
    this.#fleet = fleet;
    this.#bus = bus;
  }

  async start(): Promise<void> {
    this.#systemToken = this.#bus.accountTexts('SYS').token ?? '';
    this.#server = await startBusServer(
      {
        operator: this.#bus.texts(operatorSecretName()).token ?? '',
        system: { publicKey: this.#bus.accountToken('SYS')?.sub ?? '', token: () => this.#systemToken },
      } as never,
      { operators: this.#trusted() },
    );
    await this.#dial();
    this.remember();
  }

  /** Copies the files of tokens as they are now. */
  remember(): void {
    const { dir } = this.#present();
    rmSync(join(dir, 'remembered'), { recursive: true, force: true });
    cpSync(join(dir, 'tokens'), join(dir, 'remembered'), { recursive: true });
  }

  /** Starts it again with the configuration of now; with no tokens, or with the ones that were copied. */
  async restart(is: 'restarted' | 'emptied' | 'set back'): Promise<void> {
    const { dir, configFile, ...server } = this.#present();
    await this.#system?.close();
    await server.kill();
    const tokens = join(dir, 'tokens');
    if (is !== 'restarted') rmSync(tokens, { recursive: true });
    if (is === 'emptied') {
      mkdirSync(tokens);
      this.#forgetEnded(dir);
    }
    if (is === 'set back') cpSync(join(dir, 'remembered'), tokens, { recursive: true });
    const now = this.#bus.accountTexts('SYS').token ?? '';
    const operators = `operator: ${JSON.stringify(this.#trusted())}`;
    const text = readFileSync(configFile, 'utf8')
      .replace(/^operator: \[[^\]]*\]/m, operators)
      .replaceAll(this.#systemToken, now);
    this.#systemToken = now;
    writeFileSync(configFile, text);
    await server.start();
    await this.#dial();
  }

  /** A server that starts waits 2 s for each account with streams whose token it does not find. Streams of ended accounts stay. */
  #forgetEnded(dir: string): void {
    const present = new Set(this.#fleet.stores.busAccounts.list().map(({ status }) => status?.publicKey));
    const streams = join(dir, 'store', 'jetstream');
    for (const account of existsSync(streams) ? readdirSync(streams) : [])
      if (!present.has(account)) rmSync(join(streams, account), { recursive: true });
  }

  /** Sends it the token of each account, as the leader does. */
  async deliver(): Promise<void> {
    for (const { data } of this.#fleet.stores.secrets.byIndex('bus', 'account')) {
      const token = decodeData(data)[BUS_KEYS.token];
      if (token) await this.#system?.push(token, signal());
    }
  }

  /** Connects; undefined where the server refuses the credentials. On a busy machine it may end a connection that said nothing for 2 s. */
  async connect(as: ChainUser): Promise<ProtocolClient | undefined> {
    for (;;) {
      const client = await speakBus(this.#present().serverPort, { as });
      if (client.greeting.length === 0) return client;
      client.end();
      if (client.greeting.some((line) => /Authorization Violation|Revoked|Expired/.test(line))) return undefined;
      if (!client.greeting.some((line) => /Timeout/.test(line)))
        throw new Error(`the server said ${client.greeting.join()} to a client`);
    }
  }

  async close(): Promise<void> {
    await this.#system?.close();
  }

  async #dial(): Promise<void> {
    const creds = this.#bus.userTexts('SYS', 'admin-hub').creds ?? '';
    this.#system = await connectBus({ servers: [this.#present().url], creds, name: 'test', signal: signal() });
  }

  #trusted = () => [...trustedOperators(this.#bus.texts(operatorSecretName()))];

  #present(): TestServer {
    if (!this.#server) throw new Error('the server of the bus has not been started');
    return this.#server;
  }
}

/** Whether the server ends a connection soon. */
export async function isEnded(client: ProtocolClient): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => resolve(false), END_MS);
  void client.next('END').then(() => resolve(true));
  return promise.finally(() => clearTimeout(timer));
}

/** Whether a connection lasts. */
export const lasts = async (client: ProtocolClient): Promise<boolean> => !(await client.send()).includes('END');

/** What a client may do: the subjects that it publishes and subscribes to, its streams, and from whom it hears. */
export interface Does {
  publishes: string[];
  subscribes: string[];
  hasStreams: boolean;
  hears: string[];
}

/** Has all clients subscribe and publish everything, each with its name as the message. */
export async function tryAll(clients: ReadonlyMap<string, ProtocolClient>): Promise<Map<string, Does>> {
  const found = new Map<string, Does>();
  const isRefused = (lines: readonly string[]) => lines.some((line) => line.startsWith('-ERR'));
  /** Messages arrive between other lines. */
  const read = async (name: string, lines: Promise<readonly string[]>) => {
    const heard = (await lines).filter((line) => line.startsWith('from '));
    found.get(name)?.hears.push(...heard);
    return lines;
  };
  for (const [name, client] of clients) {
    const does: Does = { publishes: [], subscribes: [], hasStreams: false, hears: [] };
    found.set(name, does);
    for (const [sid, pattern] of PATTERNS.entries())
      if (!isRefused(await read(name, client.send(`SUB ${pattern} ${sid}`)))) does.subscribes.push(pattern);
  }
  for (const [name, client] of clients)
    for (const pattern of PATTERNS)
      if (!isRefused(await read(name, client.send(pub(SUBJECTS[pattern], `from ${name} ${pattern}`)))))
        found.get(name)?.publishes.push(pattern);
  for (const [name, client] of clients) {
    const does = found.get(name);
    if (!does) continue;
    const config = { name: 'STORED', subjects: ['stored.>'], storage: 'file', max_bytes: 1_024 };
    const subject = '$JS.API.STREAM.CREATE.STORED';
    const request = client.send('SUB _INBOX.x 9', pub(subject, JSON.stringify(config), '_INBOX.x'));
    const lines = [...(await read(name, request))];
    const isAnswer = (line: string) => /^H?MSG _INBOX\.x /.test(line);
    if (!isRefused(lines) && !lines.some(isAnswer)) lines.push(await client.next('MSG _INBOX.x'));
    lines.push(...(await read(name, client.send())));
    const answer = lines.find((line) => line.startsWith('{'));
    does.hasStreams = answer !== undefined && !('error' in JSON.parse(answer));
  }
  return found;
}
