import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { WebSocket } from 'ws';
import { fill, keyOf, makeApplication, makeKey, makeNode, makeToken, startReplica } from '../agents/_util.ts';
import { HEADERS } from '../api/names.ts';
import type { AuditEvent } from '../domain/audit.ts';
import { type Log, silentLog, systemClock } from '../kube/mod.ts';
import { createMemoryDependencies } from '../rest/_memory.ts';
import { createRestServer } from '../rest/server.ts';
import { createLookups } from '../stores/lookups.ts';
import { decodeFrame, encodeFrame, FRAME_TYPES, type Frame, type FrameType } from '../wire/frames.ts';
import { createSessions } from './sessions.ts';
import { createUpgrades } from './upgrades.ts';

const WAIT_MS = 20_000;
const NAMES = Object.fromEntries(Object.entries(FRAME_TYPES).map(([name, type]) => [type, name]));

/** One end of a socket: the frames that have arrived, and how it was closed. */
export interface Client {
  readonly ws: WebSocket;
  readonly frames: Frame[];
  /** `STDOUT hello` */
  readonly seen: string[];
  readonly closed: Promise<{ code: number; reason: string }>;
  send(type: FrameType, data?: string | Uint8Array): void;
  /** Waits until a frame has this beginning in `seen`. */
  until(beginning: string): Promise<Frame>;
}

export type Opened = Client | { status: number; body: { code: string; message: string } };

function clientOf(ws: WebSocket): Client {
  const frames: Frame[] = [];
  const seen: string[] = [];
  const closed = once(ws, 'close').then(([code, reason]) => ({ code: code as number, reason: String(reason) }));
  ws.on('message', (data: Buffer) => {
    const frame = decodeFrame(data);
    if (!frame) return;
    frames.push(frame);
    seen.push(`${NAMES[frame.type]} ${Buffer.from(frame.data)}`.trim());
    ws.emit('frame');
  });
  return {
    ws,
    frames,
    seen,
    closed,
    send: (type, data = '') =>
      ws.send(encodeFrame({ type, data: typeof data === 'string' ? Buffer.from(data) : data })),
    async until(beginning) {
      const signal = AbortSignal.timeout(WAIT_MS);
      for (;;) {
        const at = seen.findIndex((one) => one.startsWith(beginning));
        if (at >= 0) return frames[at] as Frame;
        await once(ws, 'frame', { signal });
      }
    },
  };
}

async function open(url: string, headers: Record<string, string>): Promise<Opened> {
  const ws = new WebSocket(url, { headers });
  const client = clientOf(ws);
  return new Promise((resolve, reject) => {
    ws.once('open', () => resolve(client));
    ws.once('error', reject);
    ws.once('unexpected-response', (_, response) => {
      client.closed.catch(() => {});
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, body: JSON.parse(String(Buffer.concat(chunks))) }),
      );
    });
  });
}

/**
 * A controller with one node and its microservice `web`, which runs: REST with the tokens of the roles, agent routes, and
 * the sockets, over objects in memory.
 */
export async function startStack() {
  const logged: string[] = [];
  const events: Omit<AuditEvent, 'id' | 'timestamp'>[] = [];
  const log = new Proxy(silentLog, {
    get:
      () =>
      (...parts: unknown[]) =>
        void logged.push(JSON.stringify(parts)),
  }) as Log;
  const rest = createRestServer({ deps: createMemoryDependencies(), log });
  const sessions = createSessions({ clock: systemClock, log });
  const web = '11111111-1111-4111-8111-111111111111';
  const router = '22222222-2222-4222-8222-222222222222';
  const observed = [web, router].map((uuid) => ({ uuid, state: 'RUNNING', application: 'shop', name: 'web' }));
  const node = makeNode('edge-1');
  Object.assign(node, { status: { daemonStatus: 'RUNNING', microservices: observed } });
  const key = makeKey();
  const entry = { agent: { name: 'edge-1' }, images: { amd64: 'registry.example/web:1' } };
  const applications = [
    makeApplication('shop', [{ ...entry, name: 'web', uuid: web }]),
    makeApplication('system', [{ ...entry, name: 'router', uuid: router }]),
  ];
  Object.assign(applications[1]?.spec ?? {}, { isSystem: true });
  const replica = await startReplica({ sessions });
  fill(replica.stores, { nodes: [node], applications, secrets: [keyOf(node, key)] });
  const upgrades = createUpgrades({
    sessions,
    lookups: createLookups(replica.stores),
    admitUser: rest.admitSocket,
    admitAgent: replica.agents.routes.authenticate,
    addressOf: (request) => String(request.headers['x-address'] ?? '127.0.0.1'),
    audit: { record: (event) => void events.push(event), recordsAddresses: true },
    clock: systemClock,
    log,
  });
  rest.http.on('upgrade', upgrades.handle);
  await rest.listen({ port: 0, host: '127.0.0.1' });
  const base = `ws://127.0.0.1:${(rest.http.address() as AddressInfo).port}/api/v3`;
  const nodeUuid = node.spec.uuid ?? '';
  // The second before that in which the process began would be refused.
  const token = () => makeToken(nodeUuid, key, Date.now() + 1_000);
  const opened: Opened[] = [];
  const connect = async (path: string, headers: Record<string, string>) => {
    const client = await open(`${base}${path}`, headers);
    opened.push(client);
    return client;
  };
  return {
    ...{ sessions, replica, upgrades, node, nodeUuid, key, web, router, logged, events, connect, url: base },
    /** A socket that has to open, of a user. */
    async user(path: string, role = 'admin'): Promise<Client> {
      return socketOf(await connect(path, { authorization: `Bearer ${role}` }));
    },
    /** A socket that has to open, of the agent. */
    async agent(path: string): Promise<Client> {
      return socketOf(await connect(`/agent${path}`, { authorization: `Bearer ${token()}` }));
    },
    token,
    /** A request of the agent over HTTP. */
    asAgent: (path: string) =>
      replica.call('GET', path, { headers: { authorization: `Bearer ${token()}`, [HEADERS.agent]: '1.0.0' } }),
    async [Symbol.asyncDispose]() {
      upgrades.drain();
      for (const one of opened) if ('ws' in one) one.ws.terminate();
      await rest[Symbol.asyncDispose]();
      await replica[Symbol.asyncDispose]();
    },
  };
}

export function socketOf(opened: Opened): Client {
  if ('ws' in opened) return opened;
  throw new Error(`the socket was refused: ${opened.status} ${opened.body.message}`);
}
