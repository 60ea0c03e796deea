import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { TLSSocket } from 'node:tls';
import type { Log } from '../kube/dependencies.ts';
import { createPackages, type Place } from './packages.ts';
import { installScript } from './script.ts';

/** The way in for machines that reach the controller alone: a program that installs the agent, and the packages. */

export interface InstallOptions {
  /** absent: there is no way in, and both paths answer 404 */
  releases?: Place;
  /** under which machines reach the controller; else the host of the request */
  publicUrl?: string;
  /** the address of a client */
  addressOf: (request: IncomingMessage) => string;
  now: () => number;
  log: Log;
}

/** Files that are sent at once, to all clients and to one address; each costs a descriptor and a buffer. */
const MOST_DOWNLOADS = 64;
const MOST_OF_ADDRESS = 8;
/** After which a client that takes nothing loses its connection. */
const STALLED_MS = 30_000;
const RETRY_SECONDS = 10;
const FILE = /^\/releases\/((?:[\w+-][\w.+-]*\/)*[\w+-][\w.+-]*)$/;

/** Serves a request, or returns false without any effect. */
type Handler = (request: IncomingMessage, response: ServerResponse) => boolean;

export function createInstall({ releases, publicUrl, addressOf, now, log }: InstallOptions): Handler {
  if (!releases) return () => false;
  const packages = createPackages(releases, now);
  const base = 'url' in releases ? releases.url : undefined;
  let downloads = 0;
  const byAddress = new Map<string, number>();

  async function script(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const own = publicUrl ?? ownUrl(request);
    if (own === undefined) return refuse(response, 400, 'the request names no host');
    try {
      const list = await packages();
      const place = base ?? `${own.replace(/\/+$/, '')}/releases`;
      const text = installScript(`${place.replace(/\/+$/, '')}/${list.version}`, list);
      response.writeHead(200, { 'content-type': 'text/x-shellscript; charset=utf-8' }).end(text);
    } catch (err) {
      log.error({ err }, 'The packages of the agent cannot be listed');
      refuse(response, 503, 'the controller has no packages of the agent');
    }
  }

  async function file(folder: string, name: string, request: IncomingMessage, response: ServerResponse) {
    const address = addressOf(request);
    const own = byAddress.get(address) ?? 0;
    if (downloads >= MOST_DOWNLOADS || own >= MOST_OF_ADDRESS) {
      response.setHeader('retry-after', String(RETRY_SECONDS));
      return refuse(response, 503, 'too many files are being fetched');
    }
    downloads++;
    byAddress.set(address, own + 1);
    response.setTimeout(STALLED_MS, () => response.destroy());
    try {
      const path = join(folder, name);
      const { size } = await sizeOf(path);
      if (size === undefined) return refuse(response, 404, 'there is no such file');
      const from = Number(/^bytes=(\d{1,15})-$/.exec(request.headers.range ?? '')?.[1] ?? 0);
      if (from >= size && from > 0) {
        response.setHeader('content-range', `bytes */${size}`);
        return refuse(response, 416, 'the file is shorter');
      }
      const range = from > 0 ? { 'content-range': `bytes ${from}-${size - 1}/${size}` } : {};
      response.writeHead(from > 0 ? 206 : 200, {
        ...{ 'content-type': 'application/octet-stream', 'accept-ranges': 'bytes', ...range },
        'content-length': size - from,
      });
      if (request.method === 'HEAD') response.end();
      else await pipeline(createReadStream(path, { start: from }), response);
    } catch (err) {
      // Whoever fetches goes away often enough.
      log.debug({ err, name }, 'A file of a release was not sent to its end');
      response.destroy();
    } finally {
      downloads--;
      const left = (byAddress.get(address) ?? 1) - 1;
      if (left > 0) byAddress.set(address, left);
      else byAddress.delete(address);
    }
  }

  return (request: IncomingMessage, response: ServerResponse): boolean => {
    const path = request.url?.split('?', 1)[0] ?? '';
    const name = 'folder' in releases ? FILE.exec(path)?.[1] : undefined;
    if (path !== '/install.sh' && name === undefined) return false;
    if (request.method !== 'GET' && request.method !== 'HEAD') refuse(response, 405, 'only GET and HEAD are possible');
    else if (name !== undefined && 'folder' in releases) void file(releases.folder, name, request, response);
    else void script(request, response);
    return true;
  };
}

const sizeOf = (path: string): Promise<{ size?: number }> =>
  stat(path).then(
    (found) => (found.isFile() ? { size: found.size } : {}),
    () => ({}),
  );

/** The controller as the client named it; the text comes to stand in a program for the shell. */
function ownUrl({ headers, socket }: IncomingMessage): string | undefined {
  const scheme = (socket as TLSSocket).encrypted ? 'https' : 'http';
  return /^[\w.:[\]-]{1,255}$/.test(headers.host ?? '') ? `${scheme}://${headers.host}` : undefined;
}

function refuse(response: ServerResponse, status: number, message: string): void {
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' }).end(`${message}\n`);
}
