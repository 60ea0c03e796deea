import type { IncomingMessage } from 'node:http';
import type { RequestOptions } from 'node:https';
import { Duplex } from 'node:stream';
import { TransportError } from '../../../src/kube/api-error.ts';
import { errorFrom } from '../../../src/kube/response.ts';
import { dial, type RawSocket } from '../../../src/lib/web-socket/handshake.ts';

/**
 * The subprotocol of the kubelet for ports: binary messages, of which the first byte is the channel, even for the data of a port and
 * odd for its errors. The first message of each channel has the port, in two bytes.
 */
const PROTOCOL = 'v4.channel.k8s.io';
const [DATA, ERRORS] = [0, 1];
const PORT_BYTES = 2;
/** Bytes of a message. The kubelet sends 32 KiB at once. */
const MESSAGE_BYTES = 2 ** 20;
/** ms for the API server to answer a close frame */
const CLOSE_MS = 30_000;
/** Bytes of the body of a refusal that are read, and characters of an error of the kubelet. */
const [REFUSAL_BYTES, ERROR_LENGTH] = [16 * 1024, 500];

/** A port-forward of one port of a pod, with the credentials of the user. */
export interface PortRequest {
  /** of the subresource, wss:// or ws:// */
  url: string;
  options: RequestOptions;
  signal: AbortSignal;
}

/**
 * A connection to a port of a pod through the API server. Rejects with an ApiError where the API server refuses it, with a
 * TransportError where it cannot be reached, and with the reason of the signal. It has no half-open state: its end closes it.
 */
export function openPort({ url, options, signal }: PortRequest): Promise<Duplex> {
  signal.throwIfAborted();
  const opened = Promise.withResolvers<Duplex>();
  const ws = dial(url, { ...options, protocols: [PROTOCOL], maxBytes: MESSAGE_BYTES, closeMs: CLOSE_MS });
  const abort = () => {
    opened.reject(signal.reason);
    ws.terminate();
  };
  signal.addEventListener('abort', abort, { once: true });
  let port: Port | undefined;
  ws.on('unexpected-response', (_request, response) => {
    void refusalOf(response).then((error) => {
      opened.reject(error);
      ws.terminate();
    });
  });
  ws.on('open', () => {
    // Whoever uses it sees its errors; until then there is nobody.
    port = new Port(ws).on('error', () => {});
    opened.resolve(port);
  });
  ws.on('error', (error) => {
    const lost = new TransportError('lost', `the connection to the API server failed: ${error.message}`, error);
    opened.reject(lost);
    port?.destroy(lost);
  });
  return opened.promise.finally(() => signal.removeEventListener('abort', abort));
}

async function refusalOf(response: IncomingMessage): Promise<Error> {
  let text = '';
  try {
    for await (const chunk of response) {
      text += String(chunk);
      if (text.length > REFUSAL_BYTES) break;
    }
  } catch {
    // The status alone is known.
  }
  return errorFrom({ statusCode: response.statusCode ?? 0, headers: response.headers }, text, 'forward a port');
}

/** The bytes of the port. A reader that is slow stops the reading from the API server, which stops the pod. */
class Port extends Duplex {
  readonly #ws: RawSocket;
  /** bytes of the port number that are still to come, by channel */
  readonly #head = new Map([
    [DATA, PORT_BYTES],
    [ERRORS, PORT_BYTES],
  ]);

  constructor(ws: RawSocket) {
    super({ allowHalfOpen: false });
    this.#ws = ws;
    ws.on('message', (message: Buffer) => this.#receive(message));
    ws.on('close', () => this.push(null));
  }

  #receive(message: Buffer): void {
    const channel = message[0] ?? DATA;
    const skipped = Math.min(this.#head.get(channel) ?? 0, message.length - 1);
    this.#head.set(channel, (this.#head.get(channel) ?? 0) - skipped);
    const data = message.subarray(1 + skipped);
    if (data.length === 0) return;
    if (channel === ERRORS) this.destroy(new TransportError('lost', data.toString('utf8', 0, ERROR_LENGTH)));
    else if (channel === DATA && !this.push(data)) this.#ws.pause();
  }

  override _read(): void {
    this.#ws.resume();
  }

  override _write(chunk: Buffer, _: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#ws.send(Buffer.concat([Buffer.of(DATA), chunk]), { binary: true }, done);
  }

  override _final(done: () => void): void {
    this.#ws.close();
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#ws.terminate();
    done(error);
  }
}
