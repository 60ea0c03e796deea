import { readFileSync } from 'node:fs';
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTcpServer, type Server, type Socket } from 'node:net';
import {
  connect as connectTls,
  createServer as createTlsServer,
  type TLSSocket,
  type Server as TlsServer,
} from 'node:tls';
import rhea, { type Connection, type Sender } from 'rhea';
import { startProblems } from '../../src/router-schema/check.ts';
import { type EntityKind, isEntityKind } from '../../src/router-schema/schema.ts';
import { Refusal, type StandInEntity, StandInManagement } from './management.ts';
import { Messages } from './messages.ts';
import { Network } from './network.ts';

const VERSION = '3.4.2';
const RETRY_MS = 300;
const MANAGEMENT = '$management';
const CREDIT = 250;
const NAMED_PORTS: Readonly<Record<string, number>> = { amqp: 5672, amqps: 5671 };

/**
 * A router of ours for tests: the behaviour of the program skupper-router with its configuration and its management, as far as we rely on it, and
 * nothing more. It refuses all that the schema does. Real routers do not connect to it.
 */
export class StandInRouter {
  readonly #management: StandInManagement;
  readonly #network: Network;
  readonly #id: string;
  readonly #servers = new Map<string, { server: Server; profile?: string }>();
  readonly #files = new Map<string, Files>();
  readonly #links = new Map<
    string,
    { socket?: TLSSocket; isUp: boolean; message: string; timer?: NodeJS.Timeout; isEnded: boolean }
  >();
  readonly #clients = new Set<Socket>();
  readonly #messages = new Messages();

  /** Throws the first problem of the configuration. */
  constructor(pairs: unknown) {
    const [problem] = startProblems(pairs);
    if (problem) throw new Error(`Cannot load configuration file: ${problem}`);
    const all = pairs as [EntityKind, Record<string, unknown>][];
    this.#id = String(all.find(([kind]) => kind === 'router')?.[1].id ?? 'router');
    this.#network = new Network(this.#id);
    this.#management = new StandInManagement({
      made: (entity) => this.#made(entity),
      updated: (entity) => this.#updated(entity),
      ended: (entity) => this.#ended(entity),
      statusOf: (entity) => this.#statusOf(entity),
    });
    // As the program does: connections to others come last.
    const order = ['router', 'sslProfile', 'tcpListener', 'tcpConnector', 'connector', 'listener'];
    const place = (kind: string) => (order.includes(kind) ? order.indexOf(kind) : 1);
    for (const [kind, attributes] of [...all].sort(([a], [b]) => place(a) - place(b)))
      if (isEntityKind(kind)) this.#management.start(kind, { ...attributes });
  }

  close(): void {
    this.#network.close();
    for (const { server } of this.#servers.values()) server.close();
    for (const name of this.#links.keys()) this.#unlink(name);
    for (const client of this.#clients) client.destroy();
  }

  #made(entity: StandInEntity): void {
    const { kind, name, attributes } = entity;
    if (kind === 'tcpListener') this.#network.addListener(name, ends(attributes));
    else if (kind === 'tcpConnector')
      this.#network.addConnector(name, { ...ends(attributes), host: String(attributes.host) });
    else if (kind === 'listener') this.#listen(entity);
    else if (kind === 'connector') this.#link(entity);
  }

  #updated({ kind, name }: StandInEntity): void {
    if (kind !== 'sslProfile') return;
    const users = [...this.#servers.values()].filter(({ profile }) => profile === name);
    const isRead = this.#files.delete(name);
    if (users.length === 0 && !isRead) return;
    const files = this.#filesOf(name);
    for (const { server } of users) (server as unknown as TlsServer).setSecureContext(files);
  }

  #ended({ kind, name }: StandInEntity): void {
    if (kind === 'tcpListener' || kind === 'tcpConnector') this.#network.remove(name);
    else if (kind === 'listener') {
      this.#servers.get(name)?.server.close();
      this.#servers.delete(name);
    } else if (kind === 'connector') this.#unlink(name);
  }

  #statusOf({ kind, name }: StandInEntity): Record<string, unknown> {
    if (kind === 'tcpListener' || kind === 'tcpConnector') return this.#network.statusOf(name);
    const link = this.#links.get(name);
    if (kind !== 'connector' || !link) return {};
    return { connectionStatus: link.isUp ? 'SUCCESS' : 'CONNECTING', connectionMsg: link.message };
  }

  /** The files of a profile as they were when it was first used, or updated: other content of them is not noticed. */
  #filesOf(name: string): Files {
    const known = this.#files.get(name);
    if (known) return known;
    const attributes = this.#management.named(name)?.attributes ?? {};
    const read = (of: string) => {
      try {
        return readFileSync(String(attributes[of]));
      } catch {
        throw new Refusal(500, `CError: TLS configuration of sslProfile '${name}' failed`);
      }
    };
    const files = { ca: read('caCertFile'), cert: read('certFile'), key: read('privateKeyFile') };
    this.#files.set(name, files);
    return files;
  }

  #listen({ name, attributes }: StandInEntity): void {
    const { sslProfile, role, http } = attributes;
    if (http) return void this.#open(name, attributes, createHttpServer(answerProbe));
    const accept =
      role === 'normal'
        ? (socket: Socket) => this.#serve(socket)
        : (socket: Socket) => void this.#network.join(socket, false);
    const keep = (socket: Socket) => {
      this.#clients.add(socket);
      socket.on('close', () => this.#clients.delete(socket)).on('error', () => {});
      accept(socket);
    };
    const profile = sslProfile === undefined ? undefined : String(sslProfile);
    const isCertain = attributes.authenticatePeer === true;
    const server = profile
      ? (createTlsServer(
          { ...this.#filesOf(profile), requestCert: isCertain, rejectUnauthorized: isCertain },
          keep,
        ) as unknown as Server)
      : createTcpServer(keep);
    this.#open(name, attributes, server, profile);
  }

  #open(name: string, { host, port }: Record<string, unknown>, server: Server, profile?: string): void {
    server.on('error', () => server.close());
    this.#servers.set(name, { server, ...(profile !== undefined && { profile }) });
    // A configuration that is refused as a whole opens no port.
    queueMicrotask(() => {
      if (this.#servers.get(name)?.server === server)
        server.listen({ port: portNumber(port), ...(host ? { host: String(host) } : {}) });
    });
  }

  /** A client of the management, and of addresses. */
  #serve(socket: Socket): void {
    const container = rhea.create_container({
      id: this.#id,
      receiver_options: { credit_window: 0, autoaccept: false },
      sender_options: { autosettle: false },
    });
    for (const event of [
      'error',
      'connection_error',
      'session_error',
      'sender_error',
      'receiver_error',
      'protocol_error',
      'disconnected',
    ])
      container.on(event, () => {});
    container.sasl_server_mechanisms.enable_anonymous();
    const mechanisms = container.sasl_server_mechanisms as unknown as Record<string, unknown>;
    mechanisms.EXTERNAL = () => ({
      outcome: undefined,
      start(this: { outcome?: boolean }) {
        this.outcome = true;
      },
    });
    const repliesTo = new Map<string, Sender>();
    let count = 0;
    container.on('sender_open', ({ sender }) => {
      if (!sender) return;
      const isReply = sender.source?.dynamic;
      const address = isReply ? `amqp:/_topo/0/${this.#id}/temp.${count++}` : String(sender.source?.address);
      sender.set_source({ address });
      if (isReply) repliesTo.set(address, sender);
      else this.#messages.consume(address, sender);
    });
    container.on('receiver_open', ({ receiver }) => {
      const address = String(receiver?.target?.address);
      receiver?.set_target({ address });
      if (receiver && address === MANAGEMENT) receiver.add_credit(CREDIT);
      else if (receiver) this.#messages.produce(address, receiver);
    });
    container.on('message', ({ message, receiver }) => {
      if (!message || receiver?.target?.address !== MANAGEMENT) return;
      receiver.add_credit(1);
      const { status, description, body } = this.#management.answer({
        properties: message.application_properties ?? {},
        body: message.body,
      });
      repliesTo.get(String(message.reply_to))?.send({
        ...{ correlation_id: message.correlation_id, body },
        application_properties: { statusCode: status, statusDescription: description },
      });
    });
    const connection = container.create_connection({
      container_id: this.#id,
      properties: { product: 'skupper-router', version: VERSION },
    } as never) as unknown as Acceptor;
    connection.accept(socket);
  }

  #link({ name, attributes }: StandInEntity): void {
    const link = { isUp: false, message: '', isEnded: false };
    this.#links.set(name, link);
    this.#dial(name, attributes);
  }

  #dial(name: string, attributes: Record<string, unknown>): void {
    const link = this.#links.get(name);
    if (!link || link.isEnded) return;
    const [host, port] = [String(attributes.host), portNumber(attributes.port)];
    const files = this.#filesOf(String(attributes.sslProfile));
    const socket = connectTls({ ...files, host, port, servername: isAddress(host) ? '' : host });
    link.socket = socket;
    socket.on('secureConnect', async () => {
      const id = await this.#network.join(socket, true);
      link.isUp = true;
      link.message = `Connection Opened: dir=out host=${host}:${port} container_id=${id}`;
    });
    socket.on('error', (error) => {
      link.message = `Connection to ${host}:${port} failed: ${error.message}`.slice(0, 200);
    });
    socket.on('close', () => {
      link.isUp = false;
      if (!link.isEnded) link.timer = setTimeout(() => this.#dial(name, attributes), RETRY_MS);
    });
  }

  #unlink(name: string): void {
    const link = this.#links.get(name);
    if (!link) return;
    link.isEnded = true;
    clearTimeout(link.timer);
    link.socket?.destroy();
    this.#links.delete(name);
  }
}

interface Files {
  ca: Buffer;
  cert: Buffer;
  key: Buffer;
}

interface Acceptor {
  accept(socket: Socket): Connection;
}

/** What a kubelet asks for. */
function answerProbe({ url }: IncomingMessage, response: ServerResponse): void {
  response.statusCode = url === '/healthz' ? 200 : 404;
  response.end();
}

const isAddress = (host: string) => /^[\d.]+$|:/.test(host);
const portNumber = (port: unknown) => NAMED_PORTS[String(port)] ?? Number(port);
const ends = ({ port, address }: Record<string, unknown>) => ({ port: String(port), address: String(address) });
