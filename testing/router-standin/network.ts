import { connect as connectTcp, createServer, type Server, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';

/**
 * The network of stand-ins: which router reaches which address, and streams of bytes between them. Two stand-ins share one connection; what
 * they say over it is their own, no AMQP.
 */

/** What passes over a connection: a length of four bytes, a type, the number of a stream, and content. */
const TYPES = { hello: 0, addresses: 1, open: 2, data: 3, end: 4, reset: 5, alive: 6 } as const;
const HEADER = 9;
const MOST_HOPS = 8;
/** A connection without a sign of life for as long as the program waits is lost. */
const IDLE_MS = 16_000;

/** A connection between two stand-ins. */
interface Peer {
  socket: Duplex;
  id: string;
  /** what it reaches, without us: distance by address */
  addresses: ReadonlyMap<string, number>;
  /** by number; the side that dialled has odd ones */
  streams: Map<number, Socket>;
  next: number;
}

/** The end of a service that clients connect to. */
interface Listening {
  port: string;
  address: string;
  server?: Server;
  message: string;
  clients: Set<Socket>;
}

interface Connecting {
  host: string;
  port: string;
  address: string;
  sockets: Set<Socket>;
  opened: number;
}

export class Network {
  readonly #id: string;
  readonly #peers = new Set<Peer>();
  readonly #listeners = new Map<string, Listening>();
  readonly #connectors = new Map<string, Connecting>();

  constructor(id: string) {
    this.#id = id;
  }

  addListener(name: string, { port, address }: { port: string; address: string }): void {
    this.#listeners.set(name, { port, address, message: '', clients: new Set() });
    this.#follow();
  }

  addConnector(name: string, { host, port, address }: { host: string; port: string; address: string }): void {
    this.#connectors.set(name, { host, port, address, sockets: new Set(), opened: 0 });
    this.#changed();
  }

  /** Its open connections end with it. */
  remove(name: string): void {
    const [listener, connector] = [this.#listeners.get(name), this.#connectors.get(name)];
    this.#listeners.delete(name);
    this.#connectors.delete(name);
    listener?.server?.close();
    for (const socket of [...(listener?.clients ?? []), ...(connector?.sockets ?? [])]) socket.destroy();
    this.#changed();
  }

  /** What management shows of an end of a service besides what was asked for. */
  statusOf(name: string): Record<string, unknown> {
    const listener = this.#listeners.get(name);
    if (listener) return { operStatus: listener.server?.listening ? 'up' : 'down', connectionMsg: listener.message };
    return { connectionsOpened: this.#connectors.get(name)?.opened ?? 0 };
  }

  /** Takes a connection to another stand-in. Resolves with its id once it has said hello; `isDialler`: this one has dialled. */
  join(socket: Duplex, isDialler: boolean): Promise<string> {
    const peer: Peer = { socket, id: '', addresses: new Map(), streams: new Map(), next: isDialler ? 1 : 2 };
    let heard = performance.now();
    const alive = setInterval(() => {
      if (performance.now() - heard > IDLE_MS && !socket.isPaused()) socket.destroy();
      else send(socket, TYPES.alive, 0);
    }, IDLE_MS / 4);
    const left = () => {
      clearInterval(alive);
      if (!this.#peers.delete(peer)) return;
      for (const stream of peer.streams.values()) stream.destroy();
      this.#changed();
    };
    socket.on('error', left).on('close', left);
    return new Promise((resolve) => {
      readFrames(socket, (type, stream, content) => {
        heard = performance.now();
        if (type === TYPES.hello) {
          peer.id = content.toString();
          this.#peers.add(peer);
          resolve(peer.id);
          this.#changed();
        } else this.#take(peer, type, stream, content);
      });
      send(socket, TYPES.hello, 0, Buffer.from(this.#id));
    });
  }

  close(): void {
    for (const name of [...this.#listeners.keys(), ...this.#connectors.keys()]) this.remove(name);
    for (const { socket } of this.#peers) socket.destroy();
  }

  #take(peer: Peer, type: number, number: number, content: Buffer): void {
    if (type === TYPES.alive) return;
    const stream = peer.streams.get(number);
    if (type === TYPES.addresses) {
      peer.addresses = new Map(JSON.parse(content.toString()) as [string, number][]);
      this.#changed();
    } else if (type === TYPES.open) this.#openFor(peer, number, content.toString());
    else if (type === TYPES.data) {
      if (stream && !stream.write(content)) {
        peer.socket.pause();
        stream.once('drain', () => peer.socket.resume());
        stream.once('close', () => peer.socket.resume());
      }
    } else if (type === TYPES.end) stream?.end();
    else stream?.destroy();
  }

  /** A peer wants to reach an address: the backend, or the next router on the way. */
  #openFor(peer: Peer, number: number, address: string): void {
    const local = [...this.#connectors.values()].find((one) => one.address === address);
    if (local) {
      const backend = dialled(local);
      local.opened++;
      local.sockets.add(backend);
      backend.on('close', () => local.sockets.delete(backend));
      carry(peer, number, backend);
      return;
    }
    const next = this.#nearest(address, peer);
    if (!next) {
      send(peer.socket, TYPES.reset, number);
      return;
    }
    // Between two connections, through a pair of sockets of this machine.
    const relay = createServer({ allowHalfOpen: true }, (there) => {
      relay.close();
      this.#open(next, address, there);
    });
    relay.listen(0, '127.0.0.1', () =>
      carry(peer, number, dialled({ host: '127.0.0.1', port: (relay.address() as { port: number }).port })),
    );
  }

  #open(peer: Peer, address: string, socket: Socket): void {
    const number = peer.next;
    peer.next += 2;
    send(peer.socket, TYPES.open, number, Buffer.from(address));
    carry(peer, number, socket);
  }

  #nearest(address: string, except?: Peer): Peer | undefined {
    const ways = [...this.#peers].filter((peer) => peer !== except && peer.addresses.has(address));
    return ways.sort((a, b) => (a.addresses.get(address) ?? 0) - (b.addresses.get(address) ?? 0))[0];
  }

  #accept(listening: Listening, client: Socket): void {
    listening.clients.add(client);
    client.on('close', () => listening.clients.delete(client)).on('error', () => {});
    const { address } = listening;
    const local = [...this.#connectors.values()].find((one) => one.address === address);
    const peer = this.#nearest(address);
    if (local) {
      const backend = dialled(local);
      local.opened++;
      local.sockets.add(backend);
      backend.on('close', () => {
        local.sockets.delete(backend);
        client.destroy();
      });
      backend.on('error', () => client.destroy());
      client.on('close', () => backend.destroy());
      client.pipe(backend).pipe(client);
    } else if (peer) this.#open(peer, address, client);
    else client.destroy();
  }

  /** Other addresses are reached: the peers get them, and listeners begin or end. */
  #changed(): void {
    for (const peer of this.#peers) {
      const reached = new Map<string, number>();
      for (const other of this.#peers)
        if (other !== peer)
          for (const [address, hops] of other.addresses) if (hops < MOST_HOPS) reached.set(address, hops + 1);
      for (const { address } of this.#connectors.values()) reached.set(address, 0);
      const text = JSON.stringify([...reached].sort());
      if (sentTo.get(peer) === text) continue;
      sentTo.set(peer, text);
      send(peer.socket, TYPES.addresses, 0, Buffer.from(text));
    }
    this.#follow();
  }

  /** A listener admits clients only while a connector of its address exists somewhere. A listener that failed never tries again. */
  #follow(): void {
    const own = new Set([...this.#connectors.values()].map(({ address }) => address));
    for (const listening of this.#listeners.values()) {
      const isReached = own.has(listening.address) || this.#nearest(listening.address) !== undefined;
      if (!isReached) {
        listening.server?.close();
        delete listening.server;
      } else if (!listening.server && listening.message === '') {
        const server = createServer({ allowHalfOpen: true }, (client) => this.#accept(listening, client));
        listening.server = server;
        server.on('error', (error: NodeJS.ErrnoException) => {
          delete listening.server;
          const text = error.code === 'EADDRINUSE' ? 'Address already in use' : String(error.code);
          listening.message = `${text} - listen on :${listening.port}`;
        });
        server.listen(Number(listening.port));
      }
    }
  }
}

/** Either side may end what it sends before the other does. */
const dialled = ({ host, port }: { host: string; port: string | number }): Socket =>
  connectTcp({ host, port: Number(port), allowHalfOpen: true });

const sentTo = new WeakMap<Peer, string>();

/** Carries the bytes of a socket as a stream of a connection. */
function carry(peer: Peer, number: number, socket: Socket): void {
  const { socket: to } = peer;
  peer.streams.set(number, socket);
  socket.on('data', (chunk: Buffer) => {
    if (send(to, TYPES.data, number, chunk)) return;
    socket.pause();
    to.once('drain', () => socket.resume());
  });
  socket.on('end', () => send(to, TYPES.end, number));
  socket.on('error', () => {});
  socket.on('close', () => {
    peer.streams.delete(number);
    send(to, TYPES.reset, number);
  });
}

function send(to: Duplex, type: number, stream: number, content: Buffer = Buffer.alloc(0)): boolean {
  if (to.destroyed) return true;
  const header = Buffer.alloc(HEADER);
  header.writeUInt32BE(content.length, 0);
  header.writeUInt8(type, 4);
  header.writeUInt32BE(stream, 5);
  to.write(header);
  return to.write(content);
}

function readFrames(socket: Duplex, take: (type: number, stream: number, content: Buffer) => void): void {
  let rest = Buffer.alloc(0);
  socket.on('data', (chunk: Buffer) => {
    rest = Buffer.concat([rest, chunk]);
    while (rest.length >= HEADER) {
      const length = rest.readUInt32BE(0);
      if (rest.length < HEADER + length) return;
      take(rest.readUInt8(4), rest.readUInt32BE(5), rest.subarray(HEADER, HEADER + length));
      rest = rest.subarray(HEADER + length);
    }
  });
}
