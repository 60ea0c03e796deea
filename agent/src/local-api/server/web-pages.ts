import type { IncomingMessage } from 'node:http';
import { AGENT_BRIDGE_HOST } from '../../../../src/api/names.ts';
import { LocalApiError } from './errors.ts';

const LOOPBACK: ReadonlySet<string> = new Set(['localhost', '127.0.0.1', '[::1]']);

/**
 * Refuses what a web page in a browser of this machine may have sent: from another origin, or to a name that its owner points at
 * this machine (DNS rebinding). Other clients send neither.
 */
export function refuseWebPages({ headers, socket }: IncomingMessage): void {
  const host = hostOf(`http://${headers.host ?? 'localhost'}`);
  const isMachinesOwn = LOOPBACK.has(host) || host === AGENT_BRIDGE_HOST || host === socket.localAddress;
  if (!isMachinesOwn)
    throw new LocalApiError(
      'FORBIDDEN',
      `the local API is reached as localhost, by its address, or as ${AGENT_BRIDGE_HOST}`,
    );
  refuseForeignOrigin(headers);
}

/** Refuses what a web page of another origin than this machine sent. */
export function refuseForeignOrigin(headers: IncomingMessage['headers']): void {
  const { origin } = headers;
  const isForeign = origin === undefined ? headers['sec-fetch-site'] === 'cross-site' : !LOOPBACK.has(hostOf(origin));
  if (isForeign) throw new LocalApiError('FORBIDDEN', 'web pages have no access');
}

const hostOf = (url: string) => (URL.parse(url)?.hostname ?? '').replace(/\.$/, '');
