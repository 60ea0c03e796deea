import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { onTestFinished } from 'vitest';
import { WebSocket } from 'ws';
import { until } from '../engines/_contract.ts';

/** What a client of the local API has received as JSON, one value in each text message. */
export interface TextClient<T = Record<string, unknown>> {
  readonly ws: WebSocket;
  readonly messages: T[];
  /** the code with which it was closed */
  readonly closed: Promise<number>;
  /** Waits for a message. */
  until(what: string, is: (message: T) => boolean): Promise<T>;
}

interface Where {
  socket: string;
  token: string;
}

/** Opens a WebSocket of the local API on its unix socket. */
export async function openText<T = Record<string, unknown>>(
  { socket, token }: Where,
  path: string,
  headers: Record<string, string> = {},
): Promise<TextClient<T>> {
  const ws = new WebSocket(`ws://agent${path}`, {
    headers: { authorization: `Bearer ${token}`, ...headers },
    createConnection: () => connect(socket),
  });
  onTestFinished(() => ws.terminate());
  const messages: T[] = [];
  const closed = new Promise<number>((resolve) => ws.on('close', resolve));
  ws.on('message', (data, isBinary) => {
    if (isBinary) throw new Error('a binary message');
    messages.push(JSON.parse(String(data)));
  });
  await once(ws, 'open');
  return { ws, messages, closed, until: (what, is) => until(what, () => messages.find(is)) };
}

/** The status and the body of the answer to a handshake that is refused. */
export function refusalOf(
  { socket, token }: Where,
  path: string,
  headers: Record<string, string> = {},
): Promise<{ status: number | undefined; text: string }> {
  const ws = new WebSocket(`ws://agent${path}`, {
    headers: { authorization: `Bearer ${token}`, ...headers },
    createConnection: () => connect(socket),
  });
  return new Promise((resolve, reject) => {
    ws.on('open', () => reject(new Error('it was accepted')));
    ws.on('error', reject);
    ws.on('unexpected-response', async (_request, response) => {
      let text = '';
      for await (const piece of response) text += piece;
      resolve({ status: response.statusCode, text });
      ws.terminate();
    });
  });
}

/** A port of this machine that leads to a unix socket, for clients that know no such sockets. */
export function portOf(socket: string): Promise<number> {
  const server = createServer((near) => {
    const far = connect(socket);
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const)
      from.on('error', () => {}).on('close', () => to.destroy());
    near.pipe(far).pipe(near);
  });
  onTestFinished(() => void server.close());
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port));
  });
}
