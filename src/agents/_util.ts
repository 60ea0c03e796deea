import { generateKeyPairSync, type KeyObject, randomUUID, sign } from 'node:crypto';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { atEnd } from '../../testing/at-end.ts';
import { NAMESPACE, nextVersion, stored, storedApplication, storedNode, storedRegistry } from '../../testing/stored.ts';
import { HEADERS, NODE_TOKEN_ISSUER } from '../api/names.ts';
import type { Secret } from '../api/resources.ts';
import type { Application, EdgeNode } from '../api/v3/index.ts';
import { provisioningKeyData, provisioningKeyName } from '../datastore/provisioning-key.ts';
import { createStores, type ReadStores } from '../datastore/stores.ts';
import { createVirtualClock } from '../kube/_util.ts';
import type { KubeClient } from '../kube/mod.ts';
import { ownerReference } from '../kube/object.ts';
import type { Clock } from '../lib/clock.ts';
import { silentLog } from '../lib/log.ts';
import type { LeaderState } from '../replicas/channel.ts';
import { ESSENTIAL_BUS_KINDS, ESSENTIAL_KINDS } from '../subjects/kinds.ts';
import type { PublicKey } from '../wire/agent.ts';
import { NODE_TOKEN } from '../wire/node-token.ts';
import { type AgentsOptions, createAgents } from './agents.ts';
import { type NodeKey, nodeKeySecret } from './channel/node-key.ts';

/** A clock that only the test advances. */
export const makeClock = () => createVirtualClock(Date.parse('2026-01-01T00:00:00Z'));

/** The Secret of a provisioning key of a node, valid for a minute of real time. */
export function provisioningKeyOf(node: EdgeNode, key: string): Secret {
  const data = provisioningKeyData({ nodeUuid: node.spec.uuid ?? '', expiresAt: Date.now() + 60_000 });
  const ownerReferences = [ownerReference(node)];
  const metadata = { name: provisioningKeyName(key) };
  return stored({ apiVersion: 'v1', kind: 'Secret', metadata, data }, { ownerReferences });
}

/** A client of an API server that holds no object and accepts every write. `find` is called with each name that is looked up. */
export const makeEmptyClient = (find: (name: string) => void = () => {}) =>
  ({
    find: async (_: unknown, { name }: { name: string }) => void find(name),
    create: async (_: unknown, object: object) => object,
    replace: async (_: unknown, object: object) => object,
  }) as unknown as KubeClient;

export const makeStores = () => createStores({ namespace: NAMESPACE }) satisfies ReadStores;

export type TestStores = ReturnType<typeof makeStores>;

/** Fills all stores with these objects, so that they are complete. */
export function fill(
  stores: TestStores,
  objects: { nodes?: EdgeNode[]; applications?: Application[]; secrets?: Secret[] },
) {
  stores.nodes.swap(objects.nodes ?? [], nextVersion());
  stores.applications.swap(objects.applications ?? [], nextVersion());
  stores.registries.swap([storedRegistry('remote', 1), storedRegistry('local', 2)], nextVersion());
  stores.secrets.swap(objects.secrets ?? [], nextVersion());
  stores.configMaps.swap([], nextVersion());
  stores.roles.swap([], nextVersion());
  for (const key of [...ESSENTIAL_KINDS, ...ESSENTIAL_BUS_KINDS])
    if (!stores[key].synced) stores[key].swap([], nextVersion());
}

export interface TestKey {
  publicKey: PublicKey;
  privateKey: KeyObject;
}

export function makeKey(): TestKey {
  const { privateKey } = generateKeyPairSync('ed25519');
  const { x = '' } = privateKey.export({ format: 'jwk' });
  return { publicKey: { kty: 'OKP', crv: 'Ed25519', x }, privateKey };
}

/** The Secret with the key of the node. */
export function keyOf(node: EdgeNode, { publicKey }: TestKey, extra: Partial<NodeKey> = {}): Secret {
  const record = {
    nodeUuid: node.spec.uuid ?? '',
    publicKey,
    archId: 1,
    provisionedAt: 0,
    keyExpiresAt: 0,
    keyIssuedAt: 0,
    ...extra,
  };
  const secret = nodeKeySecret(node, record);
  return stored(secret, secret.metadata);
}

export interface TokenChanges {
  header?: object;
  claims?: object;
  now?: number;
}

/** A node token as our agent signs it at `now` (Unix ms). */
export function makeToken(
  uuid: string,
  key: TestKey,
  now: number,
  { header = {}, claims = {} }: TokenChanges = {},
): string {
  const iat = Math.floor(now / 1000);
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const signed = `${encode({ alg: 'EdDSA', typ: 'JWT', ...header })}.${encode({
    sub: uuid,
    iss: NODE_TOKEN_ISSUER,
    aud: ['http://controller'],
    iat,
    nbf: iat,
    exp: iat + NODE_TOKEN.lifetime,
    jti: randomUUID(),
    tokenUse: 'controller',
    ...claims,
  })}`;
  return `${signed}.${sign(null, Buffer.from(signed), key.privateKey).toString('base64url')}`;
}

export interface Answer {
  status: number;
  headers: NodeJS.Dict<string | string[]>;
  // biome-ignore lint/suspicious/noExplicitAny: tests read any member
  body: any;
  text: string;
}

/** A client that rejects every call, for tests that expect none. */
const noClient = new Proxy({}, { get: (_, name) => () => Promise.reject(new Error(`unexpected ${String(name)}`)) });

export interface Replica extends AsyncDisposable {
  agents: ReturnType<typeof createAgents>;
  stores: TestStores;
  url: string;
  leadership: { isLeading: boolean; leaderAddress: string | undefined };
  call(method: string, path: string, options?: CallOptions): Promise<Answer>;
  /** A request of our agent, or of a third-party agent, with a new token. */
  as(node: EdgeNode, key: TestKey, method: string, path: string, options?: CallOptions): Promise<Answer>;
}

interface CallOptions {
  body?: unknown;
  headers?: Record<string, string>;
  thirdParty?: boolean;
  signal?: AbortSignal;
}

export interface ReplicaOptions extends Partial<AgentsOptions> {
  stores?: TestStores;
  clock?: Clock;
}

/** One replica with a listener of its own. By default it is the leader. */
export async function startReplica(options: ReplicaOptions = {}): Promise<Replica> {
  const stores = options.stores ?? makeStores();
  const leadership: LeaderState & Replica['leadership'] = { isLeading: true, leaderAddress: undefined };
  const clock = options.clock;
  const agents = createAgents({
    client: noClient as KubeClient,
    versionKeys: { issueForVersion: async () => true },
    credentials: { token: async () => 'replica', verify: async (token) => token === 'replica' },
    namespace: NAMESPACE,
    identity: randomUUID(),
    log: silentLog,
    ...options,
    leadership: options.leadership ?? leadership,
    stores,
  });
  const http = createServer((req, res) => {
    if (!agents.routes.handle(req, res)) res.writeHead(418).end();
  });
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
  const call: Replica['call'] = (method, path, { body, headers = {}, signal } = {}) =>
    new Promise((resolve, reject) => {
      const payload = body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body);
      const req = request(`${url}/api/v3/agent${path}`, { method, headers, ...(signal && { signal }) }, (res) => {
        const chunks: Buffer[] = [];
        res.on('data', (chunk) => chunks.push(chunk));
        res.on('error', reject);
        res.on('end', () => {
          const text = Buffer.concat(chunks).toString();
          const isJson = res.headers['content-type']?.startsWith('application/json');
          resolve({
            status: res.statusCode ?? 0,
            headers: res.headers,
            body: isJson ? JSON.parse(text) : undefined,
            text,
          });
        });
      });
      req.on('error', reject);
      req.end(payload);
    });
  return {
    agents,
    stores,
    url,
    leadership,
    call,
    as: (node, key, method, path, { headers = {}, thirdParty = false, ...rest } = {}) =>
      call(method, path, {
        ...rest,
        headers: {
          authorization: `Bearer ${makeToken(node.spec.uuid ?? '', key, clock?.wall() ?? Date.now())}`,
          ...(!thirdParty && { [HEADERS.agent]: '1.0.0', [HEADERS.instance]: 'i-1', [HEADERS.boot]: 'b-1' }),
          ...headers,
        },
      }),
    async [Symbol.asyncDispose]() {
      await agents[Symbol.asyncDispose]();
      http.closeAllConnections();
      await new Promise<void>((resolve) => {
        http.close(() => resolve());
      });
    },
  };
}

/** A node with its key, an application with one entry for it, and a replica with these objects in its stores, until the test ends. */
export async function startWithNode(options: ReplicaOptions = {}) {
  const clock = makeClock();
  const node = storedNode('edge-1');
  const key = makeKey();
  const application = storedApplication('shop', [
    { name: 'web', agent: { name: 'edge-1' }, images: { amd64: 'registry.example/web:1' }, isActivated: true },
  ]);
  const replica = await startReplica({ clock, ...options });
  atEnd(() => replica[Symbol.asyncDispose]());
  fill(replica.stores, { nodes: [node], applications: [application], secrets: [keyOf(node, key)] });
  await clock.advance(1_000, { timers: 0 });
  return { clock, node, key, application, replica };
}
