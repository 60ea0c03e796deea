import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/**
 * Passes connections on to the first of several ports of a host that takes them, as a Service does for pods, and can be cut like a
 * cable. In the process of the test, so that the test sees the first contact after a cut.
 */
export class Relay implements AsyncDisposable {
  readonly #server: Server;
  readonly #pairs = new Set<readonly Socket[]>();
  readonly #upstream: { host: string; ports: readonly number[] };
  #isCut = false;
  #isSilent = false;
  #contact = Promise.withResolvers<void>();

  private constructor(server: Server, upstream: { host: string; ports: readonly number[] }) {
    this.#server = server;
    this.#upstream = upstream;
    server.on('connection', (socket) => void this.#pass(socket));
  }

  static async start(upstream: { host: string; ports: readonly number[] }, host = '127.0.0.1'): Promise<Relay> {
    const server = createServer({ pauseOnConnect: true }).listen(0, host);
    await once(server, 'listening');
    return new Relay(server, upstream);
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Ends all connections and new ones, or lets them wait without a word. */
  cut(how: 'closed' | 'silent'): void {
    this.#isCut = true;
    this.#isSilent = how === 'silent';
    for (const pair of this.#pairs) for (const socket of pair) this.#isSilent ? socket.pause() : socket.destroy();
  }

  /** Resolves at the first connection or byte of a client that passes again. */
  heal(): Promise<void> {
    this.#isCut = false;
    this.#contact = Promise.withResolvers();
    for (const pair of this.#pairs) for (const socket of pair) socket.resume();
    return this.#contact.promise;
  }

  async #pass(client: Socket): Promise<void> {
    client.on('error', () => {});
    if (this.#isCut && !this.#isSilent) return void client.destroy();
    const server = await this.#dial();
    if (!server) return void client.destroy();
    const pair = [client, server];
    this.#pairs.add(pair);
    for (const [from, to] of [
      [client, server],
      [server, client],
    ] as const) {
      from.on('data', (data) => {
        if (from === client) this.#contact.resolve();
        if (!to.write(data)) from.pause();
      });
      to.on('drain', () => this.#isCut || from.resume());
      from.on('close', () => {
        this.#pairs.delete(pair);
        to.destroy();
      });
    }
    if (!this.#isCut) for (const socket of pair) socket.resume();
  }

  async #dial(): Promise<Socket | undefined> {
    for (const port of this.#upstream.ports) {
      const socket = connect({ port, host: this.#upstream.host, noDelay: true });
      const isOpen = await once(socket, 'connect').then(
        () => true,
        () => false,
      );
      socket.on('error', () => {});
      if (isOpen) return socket.pause();
    }
    return undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const pair of this.#pairs) for (const socket of pair) socket.destroy();
    this.#server.close();
  }
}
