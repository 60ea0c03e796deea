import { Server, type ServerOptions } from 'node:http';
import type { Socket } from 'node:net';
import { type SecureContext, TLSSocket } from 'node:tls';

/** The first byte of a TLS connection: a record with a handshake. No HTTP request begins with it. */
const HANDSHAKE = 0x16;
/** For the first byte, and for the handshake, ms. */
const PATIENCE = 10_000;

/** A server of HTTP with and without TLS on one port: the first byte of a connection says which. */
export class PlainOrTlsServer extends Server {
  /** connections that HTTP does not know yet */
  readonly #early = new Set<Socket>();

  /** `context` is asked at each connection with TLS, so that a renewed certificate counts at once. */
  constructor(options: ServerOptions, context: () => SecureContext) {
    super(options);
    const serve = this.listeners('connection') as ((socket: Socket) => void)[];
    this.removeAllListeners('connection');
    const begin = (socket: Socket) => {
      for (const each of serve) each.call(this, socket);
      socket.resume();
    };
    this.on('connection', (socket: Socket) => {
      const stop = this.#awaited(socket);
      socket.once('data', (first: Buffer) => {
        socket.pause();
        socket.unshift(first);
        if (first[0] !== HANDSHAKE) {
          stop();
          return begin(socket);
        }
        const secure = new TLSSocket(socket, { isServer: true, secureContext: context() });
        secure
          .once('error', () => socket.destroy())
          .once('secure', () => {
            stop();
            begin(secure);
          });
      });
    });
  }

  override closeAllConnections(): void {
    super.closeAllConnections();
    for (const socket of this.#early) socket.destroy();
  }

  /** Disconnects a connection that does not begin in time; returns a function that ends the wait. */
  #awaited(socket: Socket): () => void {
    this.#early.add(socket);
    const destroy = () => socket.destroy();
    const timer = setTimeout(destroy, PATIENCE);
    const stop = () => {
      clearTimeout(timer);
      this.#early.delete(socket);
      socket.off('error', destroy).off('end', destroy);
    };
    socket.once('error', destroy).once('end', destroy).once('close', stop);
    return stop;
  }
}
