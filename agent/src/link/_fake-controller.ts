import { createPublicKey, hash, type JsonWebKey, randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { HEADERS } from '../../../src/api/names.ts';
import {
  deprovisionRequestSchema,
  type MicroserviceHold,
  type MicroserviceStatus,
  type MicroserviceView,
  type PublicKey,
  provisionRequestSchema,
  type RetainUnlisted,
  type StatusReport,
  statusReportSchema,
  type VersionReply,
} from '../../../src/wire/agent.ts';
import { digestOf } from '../../../src/wire/digest.ts';
import { parseKnown, withoutKnown } from '../../../src/wire/known-folders.ts';
import { formatJoinString } from '../../../src/wire/node-token.ts';
import {
  type Digests,
  flagsOf,
  formatHave,
  parseHave,
  RESPONSES,
  type SavedName,
  type Section,
} from '../../../src/wire/sections.ts';
import type { SystemFileSetView } from '../../../src/wire/system-files.ts';
import type { TunnelView } from '../../../src/wire/tunnel.ts';
import { verifyToken } from '../state/token.ts';

/** A view as a test writes it; absent members get the defaults of the wire schema. */
export type View = Partial<MicroserviceView> & { uuid: string };

/** A set of the system's files, as a test writes it: texts by path. */
export interface FileSetTexts {
  name: string;
  files: Readonly<Record<string, string>>;
}

interface Answer {
  status: number;
  body?: unknown;
  headers?: Record<string, string>;
}

/** A small controller that speaks src/wire: one node, with its desired state and its reports in variables. */
export class FakeController {
  nodeUuid: string = randomUUID();
  key = 'key-0123456789';
  publicKey: PublicKey | undefined;
  microservices: (View | MicroserviceHold)[] = [];
  registries: unknown[] = [];
  models: unknown[] = [];
  knowledge: unknown[] = [];
  runtimeClasses: unknown[] = [];
  tunnel: Partial<TunnelView> | undefined;
  volumeMounts: unknown[] = [];
  systemFiles: FileSetTexts[] = [];
  /** instead of the list made from `systemFiles` */
  systemFileList: unknown[] | undefined;
  /** the agent retains what the list does not name */
  retainUnlisted: RetainUnlisted | undefined;
  /** sent with every response unless something is retained */
  epochPosition = '';
  config: Record<string, unknown> = {};
  /** digests of sections without a document */
  flags: Digests = {};
  actions: Record<string, number> = {};
  /** the requested version */
  version: VersionReply | undefined;
  /** all reports, merged */
  said: StatusReport = {};
  reports: StatusReport[] = [];
  requests: { method: string; path: string; have?: string; notOlderThan?: string; query: URLSearchParams }[] = [];
  /** sent as Skerry-Not-Older-Than */
  notOlderThan: string | undefined;
  deleted = false;
  /** the microservices that the agent named for removal when it deprovisioned */
  removing: string[] | undefined;
  /** the next report is answered as by a replica that has received no report before */
  forgetful = false;
  /** responses that replace the real ones */
  fault: ((method: string, path: string) => Answer | 'hang' | 'cut' | undefined) | undefined;
  #jtis = new Set<string>();
  #server = createServer((incoming, outgoing) => void this.#answer(incoming, outgoing));
  #waiting = new Set<() => void>();
  #port = 0;

  async listen(port = this.#port): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(port, '127.0.0.1', resolve));
    this.#port = (this.#server.address() as AddressInfo).port;
    return this;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  get joinString(): string {
    return formatJoinString({ controllerUrl: this.url, key: this.key });
  }

  /** Changes the desired state and wakes long polls. */
  change(state: Partial<this>): void {
    Object.assign(this, state);
    for (const wake of [...this.#waiting]) wake();
  }

  microservice(uuid: string): MicroserviceStatus | undefined {
    return this.said.microserviceStatus?.find(({ id }) => id === uuid);
  }

  /** Breaks all connections and stops listening. */
  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#server = createServer((incoming, outgoing) => void this.#answer(incoming, outgoing));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  get due(): Digests {
    const views = this.microservices.map((item) => ('hold' in item ? item : { ...item, config: undefined }));
    return {
      config: digestOf(this.config),
      microserviceList: digestOf(this.retainUnlisted ? { views, retainUnlisted: this.retainUnlisted } : views),
      microserviceConfig: digestOf(this.microservices.map((item) => ('hold' in item ? '' : item.config))),
      registries: digestOf(this.registries),
      models: digestOf(this.models),
      knowledge: digestOf(this.knowledge),
      ...(this.tunnel && { tunnel: digestOf(this.tunnel) }),
      ...(this.runtimeClasses.length > 0 && { runtimeClasses: digestOf(this.runtimeClasses) }),
      volumeMounts: digestOf(this.volumeMounts),
      ...(this.#fileList.length > 0 && { systemFiles: digestOf(this.#fileList) }),
      ...this.flags,
    };
  }

  get #fileList(): unknown[] {
    return this.systemFileList ?? this.systemFiles.map(fileSetView);
  }

  /** The list of files for an agent that names folders which it has. */
  #listFor(known: string): unknown[] {
    return this.systemFileList ?? this.systemFiles.map((set) => withoutKnown(fileSetView(set), parseKnown(known)));
  }

  async #answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const url = new URL(incoming.url ?? '/', this.url);
    const method = incoming.method ?? 'GET';
    const path = url.pathname.replace('/api/v3', '');
    const notOlderThan = incoming.headers[HEADERS.notOlderThan]?.toString();
    const query = url.searchParams;
    this.requests.push({ method, path, have: query.get('have') ?? undefined, notOlderThan, query });
    const text = await readText(incoming);
    const fault = this.fault?.(method, path);
    if (fault === 'hang') return;
    if (fault === 'cut') return void incoming.socket.destroy();
    const answer = fault ?? (await this.#route(method, path, url, text, incoming, outgoing));
    const position =
      this.retainUnlisted || this.epochPosition === '' ? {} : { [HEADERS.epochPosition]: this.epochPosition };
    const bound = this.notOlderThan && { [HEADERS.notOlderThan]: this.notOlderThan };
    outgoing.writeHead(answer.status, { 'content-type': 'application/json', ...position, ...bound, ...answer.headers });
    outgoing.end(answer.body === undefined ? undefined : JSON.stringify(answer.body));
  }

  async #route(
    method: string,
    path: string,
    url: URL,
    text: string,
    incoming: IncomingMessage,
    outgoing: ServerResponse,
  ): Promise<Answer> {
    if (path === '/status') return { status: 200, body: { status: 'online', timestamp: Date.now(), uptimeSec: 1 } };
    if (path === '/agent/provision') return this.#provision(text);
    const refused = this.#authenticate(incoming);
    if (refused) return refused;
    const { config, microservices, retainUnlisted, registries, models, knowledge, runtimeClasses, volumeMounts } = this;
    const bodies: Record<SavedName, unknown> = {
      ...{ config, microservices: { microservices, retainUnlisted }, registries: { registries } },
      ...{ models: { models }, knowledge: { knowledge }, runtimeClasses: { runtimeClasses } },
      volumeMounts: { volumeMounts },
      systemFiles: { systemFiles: this.#listFor(url.searchParams.get('known') ?? '') },
      tunnel: { tunnel: this.tunnel },
    };
    for (const [name, body] of Object.entries(bodies)) {
      const response = RESPONSES[name as SavedName];
      if (name === 'tunnel' && !this.tunnel) continue;
      if (method === 'GET' && path === response.path) return this.#document(body, response.sections);
    }
    switch (`${method} ${path}`) {
      case 'GET /agent/changes':
        return this.#changes(url, outgoing);
      case 'GET /agent/systemFiles/content':
        return { status: 200, body: { contents: this.#contents(url.searchParams.get('digests') ?? '') } };
      case 'PUT /agent/status': {
        const report = statusReportSchema.parse(JSON.parse(text));
        this.reports.push(report);
        this.said = { ...this.said, ...report };
        if (!this.forgetful) return { status: 204 };
        this.forgetful = false;
        return { status: 204, headers: { 'report-wanted': 'full' } };
      }
      case 'GET /agent/version':
        return this.version ? { status: 200, body: this.version } : failure(404, 'VERSION_COMMAND_NOT_FOUND');
      case 'PATCH /agent/changes':
        return { status: 200, body: {} };
      case 'POST /agent/deprovision':
        this.removing = deprovisionRequestSchema.parse(JSON.parse(text)).microserviceUuids;
        this.deleted = true;
        this.publicKey = undefined;
        return { status: 204 };
      case 'DELETE /agent/delete-node':
        this.deleted = true;
        this.publicKey = undefined;
        return { status: 204 };
      default:
        return { status: 404, body: { code: 'NOT_FOUND', error: 'NotFound', message: path, retryable: false } };
    }
  }

  #contents(asked: string): Record<string, string> {
    const texts = this.systemFiles.flatMap(({ files }) => Object.values(files));
    const byDigest = texts.map((text) => [sha256(text), Buffer.from(text).toString('base64')] as const);
    return Object.fromEntries(byDigest.filter(([digest]) => asked.split(',').includes(digest)));
  }

  #provision(text: string): Answer {
    const { key, publicKey } = provisionRequestSchema.parse(JSON.parse(text));
    if (key !== this.key) return failure(404, 'AGENT_KEY_UNKNOWN');
    if (this.publicKey && this.publicKey.x !== publicKey?.x) return failure(404, 'AGENT_KEY_USED');
    this.publicKey = publicKey;
    return { status: 200, body: { uuid: this.nodeUuid, namespace: 'skerry', name: 'fake' } };
  }

  #authenticate({ headers }: IncomingMessage): Answer | undefined {
    const token = /^Bearer (.+)$/.exec(headers.authorization ?? '')?.[1] ?? '';
    if (!this.publicKey) return failure(401, 'AGENT_NODE_NOT_FOUND');
    const key = createPublicKey({ key: this.publicKey as JsonWebKey, format: 'jwk' });
    const claims = verifyToken(token, key, Math.floor(Date.now() / 1000));
    if (!claims || claims.sub !== this.nodeUuid || claims.tokenUse !== 'controller')
      return failure(401, 'AGENT_JWT_SIGNATURE_INVALID');
    if (claims.exp - claims.iat > 60 || this.#jtis.has(claims.jti)) return failure(401, 'AGENT_JWT_ALREADY_USED');
    this.#jtis.add(claims.jti);
    return undefined;
  }

  async #changes(url: URL, outgoing: ServerResponse): Promise<Answer> {
    const held = parseHave(url.searchParams.get('have') ?? undefined);
    const end = Date.now() + Number(url.searchParams.get('wait') ?? 0) * 1000;
    while (!Object.values(flagsOf(this.due, held)).some(Boolean) && Date.now() < end && !outgoing.destroyed)
      await new Promise<void>((resolve) => {
        const wake = () => {
          clearTimeout(timer);
          this.#waiting.delete(wake);
          resolve();
        };
        const timer = setTimeout(wake, Math.min(500, end - Date.now()));
        this.#waiting.add(wake);
      });
    const flags = flagsOf(this.due, held);
    const body = { ...flags, lastUpdated: new Date().toISOString(), due: formatHave(this.due), actions: this.actions };
    return { status: 200, body };
  }

  #document(body: unknown, sections: readonly Section[]): Answer {
    const { due } = this;
    const digests = Object.fromEntries(sections.map((section) => [section, due[section]]));
    return { status: 200, body, headers: { etag: `"${formatHave(digests)}"` } };
  }
}

/** A set of the system's files as the controller lists it. */
export function fileSetView({ name, files }: FileSetTexts): SystemFileSetView {
  return {
    name,
    files: Object.entries(files).map(([path, text]) => ({ path, digest: sha256(text), size: Buffer.byteLength(text) })),
  };
}

const sha256 = (text: string) => hash('sha256', text);

/** An error response of the agent routes. */
export function failure(status: number, code: string, headers?: Record<string, string>): Answer {
  return { status, headers, body: { error: code, code, message: code, retryable: status >= 500 } };
}

async function readText(incoming: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = [];
  for await (const piece of incoming as AsyncIterable<Buffer>) pieces.push(piece);
  return Buffer.concat(pieces).toString('utf8');
}
