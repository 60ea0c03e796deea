import { Pool } from 'undici';

/** A response of any status. */
export interface Answer {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  text: string;
}

interface Request {
  method: string;
  /** includes /api/v3 */
  path: string;
  headers?: Record<string, string>;
  body?: string;
  signal?: AbortSignal;
  /** The body is received and discarded, since only its arrival is measured. */
  discard?: boolean;
}

/** Sends requests to one server over connections that stay open. */
export interface Http extends AsyncDisposable {
  send(request: Request): Promise<Answer>;
}

/** At most `connections` are open at once; requests beyond them wait. `connect`: whom to trust. */
export function createHttp(
  origin: string,
  connections: number | null,
  connect?: { rejectUnauthorized: boolean },
): Http {
  const pool = new Pool(origin, { connections, pipelining: 1, keepAliveTimeout: 60_000, connect });
  return {
    async send({ discard = false, ...request }) {
      const { statusCode: status, headers, body } = await pool.request(request as Parameters<typeof pool.request>[0]);
      if (!discard || status >= 300) return { status, headers, text: await body.text() };
      for await (const _ of body);
      return { status, headers, text: '' };
    },
    [Symbol.asyncDispose]: () => pool.destroy(),
  };
}

/** The REST API as an admin. */
export interface Rest {
  /** JSON in, JSON out; rejects on every status from 400 on. */
  call<T = unknown>(method: string, path: string, body?: unknown): Promise<T>;
}

/** `token` is called for every request, since the token is renewed from time to time. */
export function createRest(http: Http, token: () => string): Rest {
  return {
    async call<T>(method: string, path: string, body?: unknown) {
      const { status, text } = await http.send({
        method,
        path: `/api/v3${path}`,
        headers: {
          authorization: `Bearer ${token()}`,
          ...(body !== undefined && { 'content-type': 'application/json' }),
        },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      if (status >= 400) throw new Error(`${method} ${path}: ${status} ${text}`);
      return (text === '' ? undefined : JSON.parse(text)) as T;
    },
  };
}
