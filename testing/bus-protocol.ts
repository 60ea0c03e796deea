import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { fromSeed } from 'nkeys.js';
import { atEnd } from './at-end.ts';
import type { ChainUser } from './bus-chain.ts';

/**
 * The protocol of the message bus as its servers speak it, without what a client library hides: each refusal in the server's words.
 */

/** What carries the protocol: TCP, or a WebSocket. */
interface Carrier {
  write(text: string | Uint8Array): void;
  end(): void;
  onText(listener: (text: string) => void): void;
  /** resolves when the server has ended the connection */
  closed: Promise<void>;
}

export interface ProtocolClient {
  /** Sends lines, and resolves with the lines of the server until it has read them all; the end of the connection is the line `END`. */
  send(...lines: readonly string[]): Promise<readonly string[]>;
  /** Resolves with the next line that has the text, which may be there already. */
  next(text: string): Promise<string>;
  end(): void;
}

interface Options {
  as: ChainUser;
  /** with a signature of the nonce by the key of the user; a bearer token needs none */
  isSigned?: boolean;
  carrier?: 'tcp' | 'ws';
  /** of a WebSocket */
  path?: string;
  /** members of CONNECT besides */
  connect?: object;
}

/** Connects, and resolves with the client and what the server said to the token; without a client where it refused. */
export async function speakBus(
  port: number,
  options: Options,
): Promise<ProtocolClient & { greeting: readonly string[] }> {
  const { as, isSigned = true, carrier = 'tcp' } = options;
  const wire = carrier === 'tcp' ? await overTcp(port) : await overWebSocket(port, options.path);
  const lines: string[] = [];
  const waiting = new Set<() => void>();
  let rest = '';
  const add = (...more: string[]) => {
    lines.push(...more);
    for (const wake of waiting) wake();
  };
  wire.onText((text) => {
    const parts = `${rest}${text}`.split('\r\n');
    rest = parts.pop() ?? '';
    add(...parts);
  });
  void wire.closed.then(() => add('END'));
  let read = 0;
  async function until(isDone: (line: string) => boolean): Promise<readonly string[]> {
    for (;;) {
      const at = lines.findIndex((line, index) => index >= read && (isDone(line) || line === 'END'));
      if (at >= 0) {
        const found = lines.slice(read, at + 1);
        read = lines[at] === 'END' ? at : at + 1;
        return found;
      }
      const { promise, resolve } = Promise.withResolvers<void>();
      waiting.add(resolve);
      await promise;
      waiting.delete(resolve);
    }
  }
  const [info = ''] = await until((line) => line.startsWith('INFO '));
  const { nonce = '' } = JSON.parse(info.slice('INFO '.length)) as { nonce?: string };
  const pair = fromSeed(new TextEncoder().encode(as.seed));
  const sig = Buffer.from(pair.sign(Buffer.from(nonce))).toString('base64url');
  const body = {
    ...{ verbose: false, pedantic: false, protocol: 1, headers: true, no_responders: true, jwt: as.token },
    ...(isSigned && { sig }),
    ...options.connect,
  };
  const send = async (...sent: readonly string[]) => {
    wire.write([...sent, 'PING', ''].join('\r\n'));
    const answer = await until((line) => line === 'PONG');
    return answer.filter((line) => line !== 'PONG' && line !== 'PING' && !line.startsWith('INFO '));
  };
  const greeting = await send(`CONNECT ${JSON.stringify(body)}`);
  const next = async (text: string) => (await until((line) => line.includes(text))).at(-1) ?? '';
  return { greeting, send, next, end: () => wire.end() };
}

/** A message to publish, as two lines. */
export const pub = (subject: string, text = '', reply?: string): string =>
  `PUB ${subject} ${reply === undefined ? '' : `${reply} `}${Buffer.byteLength(text)}\r\n${text}`;

async function overTcp(port: number, encoding: BufferEncoding = 'utf8'): Promise<Carrier> {
  const socket: Socket = connect({ port, host: '127.0.0.1', noDelay: true });
  socket.setEncoding(encoding);
  // The server ends a connection that it refuses, and may reset it.
  socket.on('error', () => {});
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  atEnd(() => socket.destroy());
  await once(socket, 'connect');
  return {
    write: (text) => void socket.write(text),
    end: () => void socket.destroy(),
    onText: (listener) => void socket.on('data', listener),
    closed,
  };
}

/**
 * Connects a device by MQTT 3.1.1 with its token as the password; resolves with the return code of the server, or `END` where it closes
 * the connection without a word. It has closed the connection then.
 */
export async function speakMqtt(port: number, as: ChainUser, carrier: 'tcp' | 'ws' = 'tcp'): Promise<number | 'END'> {
  const wire = carrier === 'tcp' ? await overTcp(port, 'latin1') : await overWebSocket(port, '/mqtt', ['mqtt']);
  const text = (value: string) =>
    Buffer.concat([Buffer.from([value.length >> 8, value.length & 0xff]), Buffer.from(value)]);
  // Version 4, a clean session, user name and password, 60 s.
  const body = Buffer.concat([
    text('MQTT'),
    Buffer.from([4, 0b1100_0010, 0, 60]),
    text('device'),
    text('any'),
    text(as.token),
  ]);
  const length: number[] = [];
  for (let rest = body.length; rest > 0; rest >>= 7) length.push((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0));
  const { promise, resolve } = Promise.withResolvers<number | 'END'>();
  let read = '';
  wire.onText((more) => {
    read += more;
    if (read.length >= 4) resolve(read.charCodeAt(3));
  });
  void wire.closed.then(() => resolve('END'));
  wire.write(Buffer.concat([Buffer.from([0x10, ...length]), body]));
  return promise.finally(() => wire.end());
}

async function overWebSocket(port: number, path = '/', protocols: string[] = []): Promise<Carrier> {
  const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`, protocols);
  socket.binaryType = 'arraybuffer';
  const closed = new Promise<void>((resolve) => socket.addEventListener('close', () => resolve()));
  atEnd(() => socket.close());
  const early: string[] = [];
  let listener: ((text: string) => void) | undefined;
  socket.addEventListener('message', ({ data }) => {
    const text = Buffer.from(data as ArrayBuffer).toString();
    if (listener) listener(text);
    else early.push(text);
  });
  await new Promise((resolve) => socket.addEventListener('open', resolve));
  return {
    write: (text) => socket.send(typeof text === 'string' ? text : Buffer.from(text)),
    end: () => socket.close(),
    onText(added) {
      listener = added;
      for (const text of early.splice(0)) added(text);
    },
    closed,
  };
}
