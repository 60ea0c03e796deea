import { Agent, request } from 'node:http';
import { connect, type Socket } from 'node:net';

export interface Sent {
  method: string;
  /** as written in the request line */
  path: string;
  headers?: Record<string, string | string[]>;
  body?: string | Buffer | undefined;
}

export interface Heard {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  text: string;
  ms: number;
}

/** Where requests go: an origin, or a unix socket. */
export type Where = { origin: string } | { socketPath: string };

export interface Sender extends Disposable {
  (sent: Sent): Promise<Heard>;
}

/** Sends requests as they are, `at once` of them in parallel; rejects when there is no response within 30 seconds. */
export function createSender(where: Where, atOnce = 8): Sender {
  const agent = new Agent({ keepAlive: true, maxSockets: atOnce });
  const target =
    'origin' in where
      ? { host: new URL(where.origin).hostname, port: new URL(where.origin).port }
      : { socketPath: where.socketPath };
  const once = ({ method, path, headers = {}, body }: Sent): Promise<Heard> =>
    new Promise((resolve, reject) => {
      const began = performance.now();
      const req = request({ ...target, agent, method, path, headers: { ...headers, ...lengthOf(body) } }, (res) => {
        const chunks: Buffer[] = [];
        res.on('data', (chunk: Buffer) => chunks.push(chunk));
        res.on('end', () => {
          clearTimeout(timer);
          const text = Buffer.concat(chunks).toString();
          resolve({ status: res.statusCode ?? 0, headers: res.headers, text, ms: performance.now() - began });
          // The server may respond before it has read the whole body.
          if (!req.writableFinished) req.destroy();
        });
        res.on('error', reject);
      });
      const timer = setTimeout(() => req.destroy(new Error(`${method} ${path.slice(0, 80)}: no answer`)), 30_000);
      req.on('error', (error: Error & { code?: string }) => {
        clearTimeout(timer);
        reject(error);
      });
      req.end(body);
    });
  // Sends once more: the server may have closed an idle connection, or one whose body it refuses.
  const send = (sent: Sent) =>
    once(sent).catch((error: Error & { code?: string }) => {
      if (error.code === 'ECONNRESET' || error.code === 'EPIPE') return once(sent);
      throw error;
    });
  return Object.assign(send, { [Symbol.dispose]: () => agent.destroy() });
}

const lengthOf = (body: string | Buffer | undefined) =>
  body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) };

/** Runs jobs, `width` of them in parallel. */
export async function forEach<T>(items: readonly T[], width: number, job: (item: T) => Promise<void>): Promise<void> {
  let next = 0;
  await Promise.all(
    Array.from({ length: width }, async () => {
      while (next < items.length) await job(items[next++] as T);
    }),
  );
}

/** A raw connection, on which the test writes HTTP itself. */
export function dial(origin: string): Promise<Socket> {
  const { hostname, port } = new URL(origin);
  return new Promise((resolve, reject) => {
    const socket = connect({ host: hostname, port: Number(port) }, () => {
      socket.off('error', reject);
      socket.on('error', () => {});
      resolve(socket);
    });
    socket.once('error', reject);
  });
}

/** The text received until it matches, the server closes the connection, or the time is over. */
export function hear(socket: Socket, ms: number, until?: RegExp): Promise<{ text: string; closed: boolean }> {
  return new Promise((resolve) => {
    let text = '';
    const done = (closed: boolean) => {
      clearTimeout(timer);
      resolve({ text, closed });
    };
    const timer = setTimeout(() => done(false), ms);
    socket.on('data', (chunk: Buffer) => {
      if (text.length < 1_000_000) text += chunk.toString('latin1');
      if (until?.test(text)) done(false);
    });
    socket.once('close', () => done(true));
  });
}
