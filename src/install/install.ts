import type { KeyObject } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import type { TLSSocket } from 'node:tls';
import { HEADERS } from '../api/names.ts';
import type { Log } from '../lib/log.ts';
import { createPackages, type Place } from './packages.ts';
import { installScript, NO_PACKAGES_SCRIPT } from './script.ts';
import { sendFile } from './send-file.ts';

/** The way in for machines that reach the controller alone: a program that installs the agent, and the packages. */

export interface InstallOptions {
  /** absent: the install script only says that there are no packages, and their paths answer 404 */
  releases?: Place;
  /** by one of which the list of packages has to be signed */
  keys?: readonly KeyObject[];
  /** under which machines reach the controller; else the host of the request */
  publicUrl?: string;
  /** the address of a client */
  addressOf: (request: IncomingMessage) => string;
  /** the uuid of the node whose agent sends the request; undefined, or rejected, for other clients */
  nodeOf: (request: IncomingMessage) => Promise<string | undefined>;
  now: () => number;
  log: Log;
}

/**
 * Files that are sent at once, to all clients, to all that are no nodes, to one node and to one address; each costs a descriptor
 * and a buffer. Agents show which node they are, so that many of them behind one address do not wait for each other.
 */
const MOST_DOWNLOADS = 64;
const MOST_OF_STRANGERS = MOST_DOWNLOADS / 2;
const MOST_OF_NODE = 2;
const MOST_OF_ADDRESS = 8;
/** A download that has taken this long, at least, gives way when there is no place left; clients go on where it ended. */
const PATIENCE_MS = 10 * 60_000;
/** The same of an address: the slowest of its downloads that have taken this long gives way, so that all have their turn. */
const TURN_MS = 60_000;
const RETRY_SECONDS = 10;
const SCRIPT_TYPE = 'text/x-shellscript; charset=utf-8';
const FILE = /^\/releases\/((?:[\w+-][\w.+-]*\/)*[\w+-][\w.+-]*)$/;

interface Download {
  client: string;
  isNode: boolean;
  since: number;
  /** bytes so far */
  sent(): number;
  end(): void;
}

/** Serves a request, or returns false without any effect. */
type Handler = (request: IncomingMessage, response: ServerResponse) => boolean;

export function createInstall({ releases, keys, publicUrl, addressOf, nodeOf, now, log }: InstallOptions): Handler {
  if (!releases) return sayNoPackages;
  const packages = createPackages(releases, keys, now);
  const base = 'url' in releases ? releases.url : undefined;
  /** in the order in which they began */
  const downloads = new Set<Download>();

  async function script(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const own = publicUrl ?? ownUrl(request);
    if (own === undefined) return refuse(response, 400, 'the request names no host');
    try {
      const list = await packages();
      const place = base ?? `${own.replace(/(?<!\/)\/+$/, '')}/releases`;
      const text = installScript(`${place.replace(/(?<!\/)\/+$/, '')}/${list.version}`, list);
      response.writeHead(200, { 'content-type': SCRIPT_TYPE }).end(text);
    } catch (err) {
      log.error({ err }, 'The packages of the agent cannot be listed');
      refuse(response, 503, 'the controller has no packages of the agent');
    }
  }

  /** Makes room for a download, or returns false. */
  function admit({ client, isNode, since }: Download): boolean {
    const all = [...downloads];
    const own = all.filter((other) => other.client === client);
    if (own.length >= (isNode ? MOST_OF_NODE : MOST_OF_ADDRESS)) {
      // Machines that are no nodes yet may share the address with others, and have no credential to show.
      const slowest = isNode ? undefined : slowestOf(own, since);
      if (slowest) giveWay(slowest);
      return slowest !== undefined;
    }
    const strangers = all.filter((other) => !other.isNode);
    const isFull = !isNode && strangers.length >= MOST_OF_STRANGERS;
    if (!isFull && all.length < MOST_DOWNLOADS) return true;
    const [oldest] = isNode ? all : strangers;
    if (!oldest || since - oldest.since < PATIENCE_MS) return false;
    giveWay(oldest);
    return true;
  }

  function giveWay(download: Download): void {
    downloads.delete(download);
    download.end();
  }

  async function file(folder: string, name: string, request: IncomingMessage, response: ServerResponse) {
    const node = request.headers.authorization && (await nodeOf(request).catch(() => undefined));
    const before = request.socket.bytesWritten;
    const download: Download = {
      client: node ? `node ${node}` : addressOf(request),
      isNode: Boolean(node),
      since: now(),
      sent: () => request.socket.bytesWritten - before,
      end: () => request.socket.destroy(),
    };
    if (!admit(download)) {
      response.setHeader('retry-after', String(RETRY_SECONDS));
      return refuse(response, 503, 'too many files are being fetched');
    }
    downloads.add(download);
    try {
      if (!(await sendFile(join(folder, name), request, response))) refuse(response, 404, 'there is no such file');
    } catch (err) {
      // Whoever fetches goes away often enough.
      log.debug({ err, name }, 'A file of a release was not sent to its end');
      response.destroy();
    } finally {
      downloads.delete(download);
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

/** Serves the script alone: the line that people type fails by what it says, not by a status. */
function sayNoPackages(request: IncomingMessage, response: ServerResponse): boolean {
  if (request.url?.split('?', 1)[0] !== '/install.sh') return false;
  if (request.method !== 'GET' && request.method !== 'HEAD') refuse(response, 405, 'only GET and HEAD are possible');
  else response.writeHead(200, { 'content-type': SCRIPT_TYPE, [HEADERS.packages]: 'none' }).end(NO_PACKAGES_SCRIPT);
  return true;
}

/** The download with the least bytes for its time, of those that have had their turn. */
function slowestOf(downloads: Download[], now: number): Download | undefined {
  const speed = ({ sent, since }: Download) => sent() / (now - since);
  return downloads.filter(({ since }) => now - since >= TURN_MS).sort((a, b) => speed(a) - speed(b))[0];
}

/** The controller as the client named it; the text comes to stand in a program for the shell. */
function ownUrl({ headers, socket }: IncomingMessage): string | undefined {
  const scheme = (socket as TLSSocket).encrypted ? 'https' : 'http';
  return /^[\w.:[\]-]{1,255}$/.test(headers.host ?? '') ? `${scheme}://${headers.host}` : undefined;
}

function refuse(response: ServerResponse, status: number, message: string): void {
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' }).end(`${message}\n`);
}
