import { Agent, type IncomingMessage } from 'node:http';
import { EngineError } from '../../engine-port/error.ts';
import { exchange, type HttpRequest, open, readAll, type Target, type Upgraded, upgrade } from '../../machine/http.ts';
import { parseAnswer, type VersionAnswer } from './answers.ts';
import { engineUnavailable, errorOf } from './errors.ts';

const SECOND = 1000;
/** The newest version of the API that this adapter was written for, and the oldest it can use. */
const NEWEST_API = [1, 47] as const;
const OLDEST_API = [1, 40] as const;
/** Of podman's own API, which every podman since 4.0 speaks. */
const LIBPOD_VERSION = '/v4.0.0';
const BODY_LIMIT = 16 * 1024 * 1024;
const JSON_BODY = { 'content-type': 'application/json' };

export interface DockerCallOptions {
  query?: Record<string, string>;
  headers?: Record<string, string>;
  body?: unknown;
  /** a body that is sent piece by piece, in place of `body` */
  stream?: AsyncIterable<Uint8Array>;
  deadline?: number;
  signal?: AbortSignal;
  /** over a connection of its own: an engine that shuts down still answers on open ones and accepts no new ones */
  newConnection?: boolean;
  /** statuses that are an empty answer rather than an error */
  tolerate?: readonly number[];
}

/** Calls of the Docker API at one address, in a version that both sides speak. */
export class DockerApi {
  readonly url: string;
  readonly #target: Target;
  readonly #connections: Agent;
  #version = '';

  constructor(url: string) {
    this.url = url;
    this.#target = engineTarget(url);
    this.#connections = new Agent({ keepAlive: true, maxSockets: 8 });
  }

  /** Agrees with the engine on the version of what follows. */
  async agree(signal?: AbortSignal): Promise<{ answer: VersionAnswer; version: Version }> {
    this.#version = '';
    const answer = await this.call<VersionAnswer>('GET', '/version', { signal });
    const version = lower(parseVersion(answer.ApiVersion), NEWEST_API);
    if (compareApiVersions(version, OLDEST_API) < 0)
      throw new EngineError(
        'Failed',
        `the engine at ${this.url} speaks API ${answer.ApiVersion}, at least 1.40 is needed`,
      );
    this.#version = `/v${version.join('.')}`;
    return { answer, version };
  }

  /** Sends a request and reads the answer; an answer that is an error is thrown as EngineError. */
  async call<T>(method: string, path: string, options: DockerCallOptions = {}): Promise<T> {
    const { tolerate = [] } = options;
    try {
      const connections = options.newConnection ? undefined : this.#connections;
      const request = { ...this.#request(method, path, options), connections };
      const { status, body: text } = await exchange(request, BODY_LIMIT);
      if (tolerate.includes(status)) return undefined as T;
      if (status >= 400 || status < 200) throw errorOf(method, path, status, text);
      return (text ? parseAnswer(text) : undefined) as T;
    } catch (error) {
      throw engineUnavailable(error, this.url);
    }
  }

  /** Sends a request whose answer comes bit by bit, whatever its status. */
  async open(method: string, path: string, options: DockerCallOptions): Promise<IncomingMessage> {
    try {
      return await open(this.#request(method, path, options));
    } catch (error) {
      throw engineUnavailable(error, this.url);
    }
  }

  /** Sends a request whose answer is a connection that carries bytes both ways. */
  async upgrade(method: string, path: string, options: DockerCallOptions): Promise<Upgraded> {
    try {
      const answer = await upgrade(this.#request(method, path, options));
      if ('socket' in answer && 'head' in answer) return answer;
      throw errorOf(method, path, answer.statusCode ?? 0, await readTextOf(answer));
    } catch (error) {
      throw engineUnavailable(error, this.url);
    }
  }

  #request(method: string, path: string, options: DockerCallOptions): HttpRequest {
    const { query = {}, headers, body, stream, deadline = 30 * SECOND, signal } = options;
    const parameters = new URLSearchParams(query).toString();
    const version = path.startsWith('/libpod/') ? LIBPOD_VERSION : this.#version;
    return {
      ...{ target: this.#target, method, path: `${version}${path}${parameters && `?${parameters}`}` },
      ...(body === undefined ? { headers } : { headers: { ...headers, ...JSON_BODY }, body: JSON.stringify(body) }),
      ...{ stream, deadline, signal },
    };
  }
}

/** Where an engine URL points. */
function engineTarget(url: string): Target {
  if (url.startsWith('unix://')) return { socketPath: url.slice('unix://'.length) };
  const origin = new URL(url.replace(/^tcp:/, 'http:'));
  if (!origin.port && origin.protocol === 'http:') origin.port = '2375';
  return { origin };
}

/** The whole of an answer that was opened. */
export async function readTextOf(incoming: IncomingMessage): Promise<string> {
  return (await readAll(incoming, 1024 * 1024, 30 * SECOND)).toString('utf8');
}

export type Version = readonly [number, number];

function parseVersion(text: string): Version {
  const [major = 0, minor = 0] = text.split('.').map(Number);
  return [major, minor];
}

export function compareApiVersions(a: Version, b: Version): number {
  return a[0] - b[0] || a[1] - b[1];
}

function lower(a: Version, b: Version): Version {
  return compareApiVersions(a, b) <= 0 ? a : b;
}
