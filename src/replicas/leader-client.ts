import { Agent, type IncomingMessage, request } from 'node:http';
import type { InternalCredentials, LeaderState } from './channel.ts';
import { LeaderError } from './leader-error.ts';

/** The client of a follower for the leader. One attempt per call; the caller decides whether to retry. */
export interface LeaderClient extends Disposable {
  /** Any request that the leader has a handler for. Rejects with LeaderError. */
  call<T>(path: string, body: unknown, signal: AbortSignal): Promise<T>;
}

/** Statuses that refuse a message because of its content. */
const REFUSALS: ReadonlySet<number> = new Set([400, 413]);

const ANSWER_BYTES = 64 * 2 ** 20;

/** One is held by the request that waits for changes of sessions. */
const MOST_SOCKETS = 8;

export function createLeaderClient(options: {
  leadership: LeaderState;
  credentials: Pick<InternalCredentials, 'token'>;
}): LeaderClient {
  const { leadership, credentials } = options;
  const agent = new Agent({ keepAlive: true, maxSockets: MOST_SOCKETS, timeout: 30_000 });

  async function call<T>(path: string, body: unknown, signal: AbortSignal): Promise<T> {
    const address = leadership.leaderAddress;
    if (address === undefined) throw new LeaderError('NO_LEADER', 'no replica leads at present');
    const token = await credentials.token(signal);
    const { status, text } = await post(agent, `http://${address}${path}`, token, JSON.stringify(body), signal);
    if (status === 409) throw new LeaderError('NOT_LEADER', `${address} does not lead`);
    if (status !== 200)
      throw new LeaderError(REFUSALS.has(status) ? 'REFUSED' : 'UNREACHABLE', `${address} answered ${status}`);
    return JSON.parse(text) as T;
  }

  return { call, [Symbol.dispose]: () => agent.destroy() };
}

function post(agent: Agent, url: string, token: string, body: string, signal: AbortSignal) {
  return new Promise<{ status: number; text: string }>((resolve, reject) => {
    const fail = (cause: unknown) => reject(new LeaderError('UNREACHABLE', 'the leader does not answer', cause));
    const req = request(
      url,
      {
        method: 'POST',
        agent,
        signal,
        headers: {
          Authorization: `Bearer ${token}`,
          'Content-Type': 'application/json',
          'Content-Length': Buffer.byteLength(body),
        },
      },
      (res) => read(res, ANSWER_BYTES).then((text) => resolve({ status: res.statusCode ?? 0, text }), fail),
    );
    req.on('error', fail);
    req.end(body);
  });
}

async function read(res: IncomingMessage, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of res as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > maxBytes) throw new RangeError(`the answer exceeds ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
