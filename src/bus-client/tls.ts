import { isIP } from 'node:net';
import { checkServerIdentity, type PeerCertificate } from 'node:tls';

/** What a client needs to know a server by, as texts. */
export interface BusTls {
  ca: string;
  cert?: string;
  key?: string;
}

/**
 * The TLS of a client of these servers, as the library `nats` takes it. The library forgets the address of a server that has no name,
 * so that its certificate would be compared with "localhost", which the certificates of all machines have.
 */
export function busTlsOptions(servers: readonly string[], tls: BusTls) {
  const addresses = servers
    .map((one) => new URL(one).hostname.replace(/^\[|\]$/g, ''))
    .filter((host) => isIP(host) !== 0);
  const check = (host: string, certificate: PeerCertificate) => {
    const hosts = addresses.length > 0 && host === 'localhost' ? addresses : [host];
    const problems = hosts.map((one) => checkServerIdentity(one, certificate));
    return problems.includes(undefined) ? undefined : problems[0];
  };
  return { ...tls, checkServerIdentity: check };
}
