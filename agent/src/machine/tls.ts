import { connect, type TLSSocket } from 'node:tls';
import { plainHost } from './http.ts';

/** Begins TLS with a server, whatever certificate it shows. */
export function connectUnverified(origin: URL, ca?: string): TLSSocket {
  const host = plainHost(origin);
  const servername = /^[\d.]+$|:/.test(host) ? undefined : host;
  return connect({ host, port: Number(origin.port || 443), servername, ca, rejectUnauthorized: false });
}

/** The certificate that a server shows, and what is wrong with it. */
export type ShownCertificate =
  | {
      state: 'shown';
      /** why it is not trusted; absent when it is */
      error?: { code: string; message: string };
      subject: string;
      issuer: string;
      names: string;
      /** Unix ms */
      validFrom: number;
      validTo: number;
    }
  | { state: 'none'; message: string };

/** Looks at the certificate of a server without sending it anything. */
export function showCertificate(origin: URL, ca: string | undefined, deadline = 10_000): Promise<ShownCertificate> {
  return new Promise((resolve) => {
    const socket = connectUnverified(origin, ca);
    const end = (shown: ShownCertificate) => {
      socket.destroy();
      resolve(shown);
    };
    socket.setTimeout(deadline, () => end({ state: 'none', message: `no answer within ${deadline / 1000} s` }));
    socket.once('error', (error) => end({ state: 'none', message: error.message }));
    socket.once('secureConnect', () => {
      const { subject, issuer, subjectaltname = '', valid_from, valid_to } = socket.getPeerCertificate();
      const error = socket.authorizationError as unknown as Error & { code?: string };
      end({
        state: 'shown',
        // A code alone, or an error that has one.
        ...(!socket.authorized && {
          error: { code: String(error?.code ?? error), message: String(error?.message ?? error) },
        }),
        subject: subject?.CN?.toString() ?? '',
        issuer: issuer?.CN?.toString() ?? '',
        names: subjectaltname,
        validFrom: Date.parse(valid_from),
        validTo: Date.parse(valid_to),
      });
    });
  });
}
