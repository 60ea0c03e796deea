import { isIP } from 'node:net';
import { type ConnectionOptions, checkServerIdentity, type PeerCertificate } from 'node:tls';

/** Certificates for a connection to a router, as texts. */
export interface ClientCertificate {
  ca: string;
  cert: string;
  key: string;
}

/** TLS with a certificate of the client to a router whose certificate has to be for `servername`. */
export function routerClientTls(servername: string, { ca, cert, key }: ClientCertificate): ConnectionOptions {
  return {
    ...{ ca, cert, key, rejectUnauthorized: true },
    // An address is no name of TLS, but certificates have it.
    servername: isIP(servername) ? '' : servername,
    checkServerIdentity: (_: string, certificate: PeerCertificate) => checkServerIdentity(servername, certificate),
  };
}
