import { request } from 'node:http';

/** Where a container engine listens: a unix socket, or a TCP address. */
type Target = { socketPath: string } | { host: string; port: string };

/** One call of the Docker API; JSON or an archive in, JSON or text out. Throws on every status from 400 on. */
export function callEngine<T = unknown>(url: string, method: string, path: string, body?: unknown): Promise<T> {
  return new Promise((resolve, reject) => {
    const isArchive = Buffer.isBuffer(body);
    const content = body === undefined || isArchive ? body : JSON.stringify(body);
    const type = isArchive ? 'application/x-tar' : 'application/json';
    const headers = content === undefined ? {} : { 'content-type': type };
    // An engine unpacks an archive before it answers.
    const timeout = isArchive ? 120_000 : 10_000;
    const outgoing = request({ ...targetOf(url), method, path, headers, timeout });
    outgoing.on('timeout', () => outgoing.destroy(new Error(`${url} does not answer`)));
    outgoing.on('error', reject);
    outgoing.on('response', (incoming) => {
      const pieces: Buffer[] = [];
      incoming.on('data', (piece) => pieces.push(piece));
      incoming.on('error', reject);
      incoming.on('end', () => {
        const answer = Buffer.concat(pieces).toString();
        const status = incoming.statusCode ?? 0;
        if (status >= 400) return reject(new Error(`${method} ${path}: ${status} ${answer.trim()}`));
        resolve(parse(answer) as T);
      });
    });
    outgoing.end(content);
  });
}

/** Pulls an image from a registry without TLS; docker allows that on loopback, podman with an option. */
export async function pullInsecure(url: string, reference: string): Promise<void> {
  const name = encodeURIComponent(reference);
  const path =
    (await probeEngine(url)) === 'podman'
      ? `/v4.0.0/libpod/images/pull?reference=${name}&tlsVerify=false`
      : `/v1.41/images/create?fromImage=${name}`;
  // The status is 200 before the pull begins; the last lines have its result.
  const answer = await callEngine(url, 'POST', path);
  const text = typeof answer === 'string' ? answer : JSON.stringify(answer);
  const error = /"error":\s*"((?:[^"\\]|\\.)+)"/.exec(text)?.[1];
  if (error) throw new Error(`pull ${reference}: ${error}`);
}

/** Loads an image into an engine, without a registry. */
export async function loadImage(url: string, archive: Buffer): Promise<void> {
  const answer = await callEngine(url, 'POST', '/v1.41/images/load?quiet=true', archive);
  const text = typeof answer === 'string' ? answer : JSON.stringify(answer);
  if (/"error"/.test(text)) throw new Error(`load an image: ${text.trim()}`);
}

/** What kind of engine answers at a URL, or undefined when none does. */
export async function probeEngine(url: string): Promise<'docker' | 'podman' | undefined> {
  try {
    const version = await callEngine<{ Components?: { Name: string }[] }>(url, 'GET', '/version');
    return version.Components?.some(({ Name }) => Name.includes('Podman')) ? 'podman' : 'docker';
  } catch {
    return undefined;
  }
}

/** Some answers are streams of JSON lines; those stay text. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function targetOf(url: string): Target {
  if (url.startsWith('unix://')) return { socketPath: url.slice('unix://'.length) };
  const { hostname, port } = new URL(url);
  return { host: hostname, port: port || '2375' };
}
