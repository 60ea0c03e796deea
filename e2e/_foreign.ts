import { createPrivateKey, type JsonWebKey, type KeyObject, randomBytes, sign } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * A third-party agent: written from the description of the agent channel alone, sharing no code with our agent. It sends
 * no `wait`, no `have`, no revision, no public key and none of our headers.
 */

const API = '/api/v3';
const ISSUER = 'https://skerry-agent.default.svc.bridge.local';
const SECOND = 1000;

export interface ForeignIdentity {
  uuid: string;
  key: KeyObject;
}

export interface ForeignReply {
  status: number;
  // biome-ignore lint/suspicious/noExplicitAny: tests look at what they expect
  body: any;
  retryAfter: string | null;
}

/** How a token differs from a valid one. */
export interface TokenChanges {
  header?: Record<string, unknown>;
  claims?: Record<string, unknown>;
  /** signs instead of the node's key */
  key?: KeyObject;
  /** puts something else after the last dot */
  signature?: string;
}

/** A node token; times are seconds since 1970. */
export function foreignToken({ uuid, key }: ForeignIdentity, audience: string, changes: TokenChanges = {}): string {
  const now = Math.floor(Date.now() / SECOND);
  const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const header = { alg: 'EdDSA', typ: 'JWT', ...changes.header };
  const claims = {
    sub: uuid,
    iss: ISSUER,
    aud: [audience],
    iat: now,
    nbf: now,
    exp: now + 600,
    jti: randomBytes(20).toString('hex').toUpperCase(),
    tokenUse: 'controller',
    ...changes.claims,
  };
  const signed = `${encode(header)}.${encode(claims)}`;
  const signature = changes.signature ?? sign(null, Buffer.from(signed), changes.key ?? key).toString('base64url');
  return `${signed}.${signature}`;
}

export async function foreignCall(
  url: string,
  method: string,
  path: string,
  { token, body }: { token?: string; body?: unknown } = {},
): Promise<ForeignReply> {
  const reply = await fetch(`${url}${API}${path}`, {
    method,
    headers: {
      'Content-Type': 'application/json',
      'Request-Id': String(process.hrtime.bigint()),
      ...(token !== undefined && { Authorization: `Bearer ${token}` }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(30 * SECOND),
  });
  const text = await reply.text();
  return {
    status: reply.status,
    body: /json/.test(reply.headers.get('content-type') ?? '') && text ? JSON.parse(text) : text,
    retryAfter: reply.headers.get('retry-after'),
  };
}

/** Provisions an agent with the key of a node; the controller makes the key pair. */
export async function foreignProvision(url: string, key: string): Promise<ForeignIdentity> {
  const { status, body } = await foreignCall(url, 'POST', '/agent/provision', {
    body: { key, type: 1, engine: 'engine_a' },
  });
  if (status !== 200) throw new Error(`provision: ${status} ${JSON.stringify(body)}`);
  const jwk = JSON.parse(Buffer.from(body.privateKey, 'base64').toString('utf8')) as JsonWebKey;
  return { uuid: body.uuid, key: createPrivateKey({ key: jwk, format: 'jwk' }) };
}

interface Item {
  imageId: string;
  containerId: string;
  startTime: number;
}

/** What a v3 agent compares to know whether the container of a listed microservice is the right one. */
interface Wanted {
  uuid: string;
  imageId: string;
  env: unknown;
  portMappings: unknown;
  rebuild?: boolean;
  delete?: boolean;
}

/**
 * The machine of such an agent. Its containers are simulated: a specification and a start time. Each call goes to the
 * replica that `next` names, as behind a load balancer.
 */
export class ForeignAgent {
  readonly identity: ForeignIdentity;
  readonly containers = new Map<string, Item & { form: string }>();
  /** the image of every container that was created, in order */
  readonly made: string[] = [];
  /** flags that the last poll had set */
  flags: string[] = [];
  config: Record<string, unknown> = {};
  registries: unknown[] = [];
  left = false;
  /** its clock minus ours, ms */
  skew = 0;
  /** set after the first full reload */
  #initial = true;
  readonly #next: () => string;

  constructor(identity: ForeignIdentity, next: () => string) {
    this.identity = identity;
    this.#next = next;
  }

  call(method: string, path: string, body?: unknown): Promise<ForeignReply> {
    const url = this.#next();
    return foreignCall(url, method, path, { token: foreignToken(this.identity, url), body });
  }

  async #ok(method: string, path: string, body?: unknown): Promise<ForeignReply['body']> {
    let reply = await this.call(method, path, body);
    for (let again = 0; reply.status === 503 && again < 3; again++) {
      await sleep(2 ** again * SECOND);
      reply = await this.call(method, path, body);
    }
    if (reply.status >= 300) throw new Error(`${method} ${path}: ${reply.status} ${JSON.stringify(reply.body)}`);
    return reply.body;
  }

  /** One cycle: poll, read the flagged sections, act on them, acknowledge. Returns whether anything was flagged. */
  async poll({ acknowledge = true } = {}): Promise<boolean> {
    const { lastUpdated, ...flags } = await this.#ok('GET', '/agent/changes');
    this.flags = Object.keys(flags).filter((flag) => flags[flag] === true);
    const up = (...names: string[]) => names.some((name) => flags[name] === true);
    if (up('deleteNode')) {
      await this.#ok('DELETE', '/agent/delete-node');
      this.containers.clear();
      this.left = true;
      return true;
    }
    if (up('config')) this.config = await this.#ok('GET', '/agent/config');
    if (up('registries') || this.#initial) this.registries = (await this.#ok('GET', '/agent/registries')).registries;
    if (up('microserviceList', 'microserviceConfig', 'microserviceModels', 'microserviceKnowledge') || this.#initial)
      this.#run((await this.#ok('GET', '/agent/microservices')).microservices);
    for (const [flag, path] of Object.entries(OTHERS)) if (up(flag)) await this.#ok('GET', path);
    if (acknowledge) await this.#ok('PATCH', '/agent/changes', { lastUpdated });
    this.#initial = false;
    return this.flags.length > 0;
  }

  /** An absent microservice is stopped; a difference in more than the config makes a new container. */
  #run(wanted: readonly Wanted[]): void {
    const uuids = new Set(wanted.map(({ uuid }) => uuid));
    for (const uuid of this.containers.keys()) if (!uuids.has(uuid)) this.containers.delete(uuid);
    for (const { uuid, imageId, env, portMappings, rebuild, delete: gone } of wanted) {
      const form = JSON.stringify([imageId, env, portMappings]);
      if (gone) this.containers.delete(uuid);
      else if (this.containers.get(uuid)?.form !== form || rebuild) this.start(uuid, imageId, form);
    }
  }

  start(uuid: string, imageId: string, form = this.containers.get(uuid)?.form ?? ''): void {
    const containerId = randomBytes(32).toString('hex');
    this.containers.set(uuid, { imageId, form, containerId, startTime: Date.now() + this.skew });
    this.made.push(imageId);
  }

  /** The status report: nested lists as JSON text, numbers of usage as text, no revision. */
  async report(more: Record<string, unknown> = {}): Promise<void> {
    const now = Date.now() + this.skew;
    await this.#ok('PUT', '/agent/status', {
      daemonStatus: 'RUNNING',
      warningMessage: 'HEALTHY',
      daemonOperatingDuration: 60_000,
      daemonLastStart: now - 60_000,
      memoryUsage: 12.5,
      cpuUsage: 1.5,
      systemTime: now,
      lastStatusTime: now,
      ipAddress: '198.51.100.7',
      version: '3.8.0',
      isReadyToUpgrade: true,
      isReadyToRollback: false,
      repositoryCount: this.registries.length,
      repositoryStatus: JSON.stringify([{ id: 1, linkStatus: 'connected' }]),
      microserviceMessageCounts: '[]',
      tunnelStatus: '{}',
      somethingNew: { of: 'a later version' },
      microserviceStatus: JSON.stringify(
        [...this.containers].map(([id, { containerId, startTime }]) => ({
          id,
          status: 'RUNNING',
          containerId,
          startTime,
          operatingDuration: now - startTime,
          cpuUsage: '0.25',
          memoryUsage: '1048576',
        })),
      ),
      ...more,
    });
  }
}

/** Sections that our agent does not request, and their routes. */
const OTHERS: Record<string, string> = {
  models: '/agent/models',
  knowledge: '/agent/knowledge',
  runtimeClasses: '/agent/runtimeClasses',
  volumeMounts: '/agent/volumeMounts',
  execSessions: '/agent/exec/sessions',
  microserviceLogs: '/agent/logs/sessions',
};
