import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { join } from 'node:path';

/** A certificate authority for a test, and a certificate that it signed. Files in PEM. */
export interface Certificate {
  cert: string;
  key: string;
  /** PEM text of the authority's certificate */
  ca: string;
}

/** Makes an authority and a certificate of a server, which may be a client too, for names and addresses, in `dir`. Needs `openssl` (Debian: openssl). */
export function makeCertificate(dir: string, hosts: readonly string[]): Certificate {
  mkdirSync(dir, { recursive: true });
  const file = (name: string) => join(dir, name);
  const openssl = (...args: string[]) => execFileSync('openssl', args, { stdio: ['ignore', 'ignore', 'pipe'] });
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  const authority = ['-x509', '-days', '2', '-subj', '/CN=authority of a test', '-addext', 'keyUsage=keyCertSign'];
  openssl('req', ...authority, ...key, '-keyout', file('ca.key'), '-out', file('ca.pem'));
  openssl('req', ...key, '-subj', '/CN=server of a test', '-keyout', file('server.key'), '-out', file('server.csr'));
  const names = hosts.map((host) => `${isIP(host) ? 'IP' : 'DNS'}:${host}`);
  writeFileSync(file('server.ext'), `subjectAltName=${names.join(',')}\nextendedKeyUsage=serverAuth,clientAuth\n`);
  const signed = ['-CA', file('ca.pem'), '-CAkey', file('ca.key'), '-CAcreateserial', '-days', '2'];
  openssl(
    'x509',
    '-req',
    '-in',
    file('server.csr'),
    ...signed,
    '-extfile',
    file('server.ext'),
    '-out',
    file('server.pem'),
  );
  return { cert: file('server.pem'), key: file('server.key'), ca: readFileSync(file('ca.pem'), 'utf8') };
}
