import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { connect, type DetailedPeerCertificate } from 'node:tls';
import { authorityFile, type Layout } from './layout.ts';

/** Writes the authority of the certificate that the controller serves, for the machines that join. */
export async function writeAuthority(layout: Layout, port: number): Promise<void> {
  // It is the controller of this container; its certificate is the question.
  const socket = connect({ host: '127.0.0.1', port, servername: 'localhost', rejectUnauthorized: false });
  try {
    await once(socket, 'secureConnect');
    const { raw } = lastOf(socket.getPeerCertificate(true));
    const lines = raw.toString('base64').match(/.{1,64}/g) ?? [];
    writeFileSync(
      authorityFile(layout),
      `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`,
    );
  } finally {
    socket.destroy();
  }
}

/** The end of the chain that the server sends. */
function lastOf(certificate: DetailedPeerCertificate): DetailedPeerCertificate {
  const { issuerCertificate: issuer } = certificate;
  return issuer === undefined || issuer === certificate || issuer.raw.equals(certificate.raw)
    ? certificate
    : lastOf(issuer);
}
