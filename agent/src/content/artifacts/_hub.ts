import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** What is done to a request: it is answered, or the response ends after so many bytes (`once` they are there), or is slow or wrong. */
export type HubFault =
  | { status: number; headers?: Record<string, string> }
  | { cutAfter: number; once?: () => boolean }
  | { flip: true }
  | { hang: true }
  | { ignoreRange: true };

interface Commit {
  sha: string;
  files: ReadonlyMap<string, Buffer>;
}

/**
 * A hub on the loopback interface that speaks the public API of model hubs: revisions of repositories, lists of their files
 * at a commit, and files with ranges. Large files lie at another origin, as those in git LFS do.
 */
export class TestHub implements AsyncDisposable {
  readonly requests: { path: string; range?: string; authorization?: string; origin: 'hub' | 'store' }[] = [];
  /** the token that requests need; undefined: none */
  token: string | undefined;
  fault: ((path: string, attempt: number) => HubFault | undefined) | undefined;
  /** files of so many bytes and more lie at the other origin */
  large = 1000;
  readonly #repositories = new Map<string, { commits: Map<string, Commit>; branches: Map<string, string> }>();
  readonly #attempts = new Map<string, number>();
  readonly #hub = createServer((incoming, outgoing) => this.#answer(incoming, outgoing, 'hub'));
  readonly #store = createServer((incoming, outgoing) => this.#answer(incoming, outgoing, 'store'));

  static async start(): Promise<TestHub> {
    const hub = new TestHub();
    for (const server of [hub.#hub, hub.#store])
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return hub;
  }

  get url(): string {
    return `http://${hostOf(this.#hub)}`;
  }

  /** Adds a commit to a repository of `models` or `datasets`, at a branch; returns its id. */
  commit(repository: string, files: Record<string, string | Buffer>, branch = 'main'): string {
    const contents = new Map(Object.entries(files).map(([name, content]) => [name, Buffer.from(content)]));
    const form = [...contents].map(([name, content]) => [name, gitId(content)]);
    const sha = createHash('sha1')
      .update(JSON.stringify([repository, branch, form]))
      .digest('hex');
    const known = this.#repositories.get(repository) ?? { commits: new Map(), branches: new Map() };
    known.commits.set(sha, { sha, files: contents });
    known.branches.set(branch, sha);
    this.#repositories.set(repository, known);
    return sha;
  }

  /** How often paths with this text in them were asked for. */
  count(text: string): number {
    return this.requests.filter(({ path }) => path.includes(text)).length;
  }

  #answer(incoming: IncomingMessage, outgoing: ServerResponse, origin: 'hub' | 'store'): unknown {
    const path = decodeURIComponent(incoming.url ?? '').replace(/\?.*$/, '');
    const { range, authorization } = incoming.headers;
    this.requests.push({ path, range, authorization, origin });
    const attempt = (this.#attempts.get(path) ?? 0) + 1;
    this.#attempts.set(path, attempt);
    const fault = this.fault?.(path, attempt);
    if (fault && 'hang' in fault) return undefined;
    if (fault && 'status' in fault) return reply(outgoing, fault.status, fault.headers);
    if (origin === 'hub' && this.token && authorization !== `Bearer ${this.token}`)
      return reply(outgoing, 401, { 'www-authenticate': 'Bearer realm="hub"' });
    const list = /^\/api\/(models|datasets)\/(.+)\/revision\/(.+)$/.exec(path);
    if (list) return this.#list(`${list[1]}/${list[2]}`, list[3] ?? '', outgoing);
    const file = /^(\/datasets)?\/(.+)\/resolve\/([0-9a-f]{40})\/(.+)$/.exec(path);
    const stored = /^\/stored\/(.+)\/([0-9a-f]{40})\/(.+)$/.exec(path);
    if (file && origin === 'hub')
      return this.#file(`${file[1] ? 'datasets' : 'models'}/${file[2]}`, file, incoming, outgoing, fault);
    const content = stored && this.#content(stored[1] ?? '', stored[2] ?? '', stored[3] ?? '');
    if (content) return send(content, `"${sha256(content)}"`, incoming, outgoing, fault);
    return reply(outgoing, 404);
  }

  #list(repository: string, revision: string, outgoing: ServerResponse): unknown {
    const known = this.#repositories.get(repository);
    const commit = known?.commits.get(known.branches.get(revision) ?? revision);
    if (!commit) return reply(outgoing, 404);
    const siblings = [...commit.files].map(([rfilename, content]) => ({
      rfilename,
      size: content.length,
      blobId: gitId(content),
      ...(content.length >= this.large && { lfs: { sha256: sha256(content), size: content.length } }),
    }));
    outgoing.setHeader('content-type', 'application/json');
    return outgoing.end(JSON.stringify({ id: repository, sha: commit.sha, siblings }));
  }

  #file(
    repository: string,
    [, , , sha = '', name = '']: RegExpExecArray,
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    fault: HubFault | undefined,
  ): unknown {
    const content = this.#content(repository, sha, name);
    if (!content) return reply(outgoing, 404);
    if (content.length < this.large) return send(content, `"${gitId(content)}"`, incoming, outgoing, fault);
    outgoing.writeHead(302, {
      location: `http://${hostOf(this.#store)}/stored/${repository}/${sha}/${encodeURIComponent(name)}`,
      'x-linked-etag': `"${sha256(content)}"`,
      'x-repo-commit': sha,
    });
    return outgoing.end();
  }

  #content(repository: string, sha: string, name: string): Buffer | undefined {
    return this.#repositories.get(repository)?.commits.get(sha)?.files.get(name);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const server of [this.#hub, this.#store]) {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    }
  }
}

function send(
  content: Buffer,
  etag: string,
  { headers }: IncomingMessage,
  outgoing: ServerResponse,
  fault: HubFault | undefined,
): unknown {
  const body = fault && 'flip' in fault ? Buffer.from(content.map((byte) => byte ^ 1)) : content;
  const [, asked] = /^bytes=(\d+)-$/.exec(headers.range ?? '') ?? [];
  const isSame = headers['if-range'] === undefined || headers['if-range'] === etag;
  const from = asked !== undefined && isSame && !(fault && 'ignoreRange' in fault) ? Number(asked) : 0;
  if (from >= body.length && from > 0) return reply(outgoing, 416, { 'content-range': `bytes */${body.length}` });
  const rest = body.subarray(from);
  const range = from > 0 && { 'content-range': `bytes ${from}-${body.length - 1}/${body.length}` };
  outgoing.writeHead(from > 0 ? 206 : 200, { etag, 'content-length': rest.length, ...range });
  if (!fault || !('cutAfter' in fault)) return outgoing.end(rest);
  const cut = () => (fault.once?.() === false ? setTimeout(cut, 5) : outgoing.destroy());
  return outgoing.write(rest.subarray(0, fault.cutAfter), () => setTimeout(cut, 20));
}

function reply(outgoing: ServerResponse, status: number, headers: Record<string, string> = {}): void {
  outgoing.writeHead(status, headers);
  outgoing.end(JSON.stringify({ error: `status ${status} of the test` }));
}

const hostOf = (server: Server) => `127.0.0.1:${(server.address() as AddressInfo).port}`;
const sha256 = (content: Buffer) => createHash('sha256').update(content).digest('hex');
const gitId = (content: Buffer) => createHash('sha1').update(`blob ${content.length}\0`).update(content).digest('hex');
