import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { freePort } from '../hack/ports.ts';
import { type Daemon, startDaemon } from '../hack/process.ts';
import { ROUTER_PROGRAM, routerCommand, routerPairsHere } from '../hack/router.ts';
import { waitFor } from '../hack/wait.ts';
import { connectRouter, type RouterConnection } from '../src/router-client/connection.ts';
import { createSigner, type SignedPair } from '../src/signer/signer.ts';
import { type RouterConfigInput, routerPairs } from '../src/subjects/routers/rules/config.ts';
import { ROUTER_FILES, ROUTER_SETS, type RouterPair } from '../src/wire/router.ts';
import { atEnd } from './at-end.ts';
import { temporaryFolder } from './temporary-folder.ts';

const HOUR_MS = 3_600_000;
/** Whether a real router runs. */
export const isRealRouter = ROUTER_PROGRAM !== undefined;

const PROFILES = { [ROUTER_SETS.site]: 'site', [ROUTER_SETS.local]: 'local' } as const;

/** The authorities of a network of routers on this machine. */
export interface RouterTrust {
  /** texts for clients that may command routers */
  agent: { ca: string; cert: string; key: string };
  /** Writes the files of a router, each set with a new key. */
  write(dir: string, sets?: readonly (keyof typeof PROFILES)[]): Promise<void>;
}

export async function makeRouterTrust(): Promise<RouterTrust> {
  const signer = createSigner();
  const now = Date.now();
  const request = { algorithm: 'ECDSA', notBefore: now - HOUR_MS, notAfter: now + HOUR_MS } as const;
  const authority = (subject: string) => signer.issue({ ...request, subject, names: [], isAuthority: true });
  const authorities = { site: await authority('router-site-ca'), local: await authority('default-router-local-ca') };
  const names = [
    { type: 'dns', value: 'localhost' },
    { type: 'dns', value: '127.0.0.1' },
    { type: 'ip', value: '127.0.0.1' },
  ] as const;
  const signed = (by: SignedPair) => signer.issue({ ...request, subject: 'router', names, isAuthority: false }, by);
  const agent = await signed(authorities.local);
  return {
    agent: { ca: authorities.local.cert, ...agent },
    async write(dir, sets = [ROUTER_SETS.site, ROUTER_SETS.local]) {
      for (const set of sets) {
        const by = authorities[PROFILES[set]];
        const { cert, key } = await signed(by);
        mkdirSync(join(dir, set), { recursive: true });
        for (const [file, text] of Object.entries({ 'ca.crt': by.cert, 'tls.crt': cert, 'tls.key': key }))
          writeFileSync(join(dir, set, file), text, { mode: 0o600 });
      }
    },
  };
}

/** A router that runs until the test ends. */
export interface TestRouter {
  id: string;
  ports: RouterConfigInput['ports'];
  /** folder of its certificates */
  certificates: string;
  /** its configuration, as the product makes it */
  pairs: readonly RouterPair[];
  /** The pairs that its configuration becomes on this machine. */
  local(pairs: readonly RouterPair[]): RouterPair[];
  /** Connects to its management until the test ends. */
  manage(): Promise<RouterConnection>;
  /** Ends it as a crash would. */
  kill(): Promise<void>;
  /** Starts it again, with other pairs where some are given, and waits until it takes clients. */
  start(pairs?: readonly RouterPair[]): Promise<void>;
}

/** Starts a router with the configuration that the product makes; all members have a default. */
export async function startRouter(trust: RouterTrust, given: Partial<RouterConfigInput> = {}): Promise<TestRouter> {
  const dir = temporaryFolder();
  const certificates = join(dir, 'certificates');
  await trust.write(certificates);
  const ports = given.ports ?? { messaging: await freePort(), edge: await freePort(), interRouter: await freePort() };
  const probes = await freePort();
  const id = given.id ?? `router-${ports.messaging}`;
  const input: RouterConfigInput = {
    ...{ id, mode: 'interior', place: 'node', site: { platform: 'docker' }, upstreams: [] },
    bridges: { listeners: [], connectors: [] },
    ...given,
    ports,
  };
  const local = (pairs: readonly RouterPair[]) => routerPairsHere(pairs, { certificates, probes });
  let daemon: Daemon | undefined;
  const start = async (pairs: readonly RouterPair[] = routerPairs(input)) => {
    const file = join(dir, ROUTER_FILES.config);
    writeFileSync(file, JSON.stringify(local(pairs)));
    daemon = await startDaemon({ name: `router-${ports.messaging}`, dir, ...routerCommand(file) });
    await waitFor(
      async () => {
        daemon?.assertRunning();
        const { mode } = input;
        const taken = mode === 'interior' ? Object.values(ports) : [ports.messaging];
        for (const port of taken) (await tcpClient(port)).destroy();
        return true;
      },
      { what: `the router ${id} to take clients` },
    );
  };
  await start();
  atEnd(() => daemon?.kill());
  const manage = async () => {
    const { signal } = new AbortController();
    const options = { host: '127.0.0.1', port: ports.messaging, servername: 'localhost' };
    const connection = await connectRouter({ ...options, tls: trust.agent, name: 'test', signal });
    atEnd(() => connection.close());
    return connection;
  };
  return { id, ports, certificates, pairs: routerPairs(input), local, manage, kill: async () => daemon?.kill(), start };
}

/** A server that answers each line with its name and the line, until the test ends; the port that it listens on. */
export async function echoServer(name: string, port?: number): Promise<number> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {}).on('data', (chunk) => void socket.write(`${name}: ${chunk}`));
  });
  const at = port ?? (await freePort());
  await new Promise<void>((resolve, reject) => void server.on('error', reject).listen(at, '127.0.0.1', resolve));
  atEnd(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return at;
}

/** A connection to a port, of this machine unless a host is given; rejects when it is refused. */
export function tcpClient(port: number, host = '127.0.0.1'): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, host, () => resolve(socket));
    socket.once('error', reject);
  });
}

/** Sends a line over a connection and resolves with what comes back. */
export async function said(socket: Socket, line: string): Promise<string> {
  const over = new AbortController();
  const { signal } = over;
  try {
    const answer = once(socket, 'data', { signal });
    const closed = once(socket, 'close', { signal }).then(() => Promise.reject(new Error('the connection was closed')));
    socket.write(line);
    const [chunk] = await Promise.race([answer, closed]);
    return String(chunk);
  } finally {
    over.abort();
  }
}
