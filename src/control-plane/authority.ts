import { once } from 'node:events';
import { connect, type DetailedPeerCertificate } from 'node:tls';
import { writeWhole } from './files.ts';
import { authorityFile, type Layout } from './layout.ts';

const ANSWER_MS = 10_000;

/** Writes the authority of the certificate that the controller serves, for the machines that join. A failure leaves the former one. */
export async function writeAuthority(layout: Layout, port: number, answerMs = ANSWER_MS): Promise<void> {
  // It is the controller of this container; its certificate is the question.
  const socket = connect({ host: '127.0.0.1', port, servername: 'localhost', rejectUnauthorized: false });
  socket.setTimeout(answerMs, () => socket.destroy(new Error(`no certificate within ${answerMs} ms`)));
  try {
    await once(socket, 'secureConnect');
    const { raw } = lastOf(socket.getPeerCertificate(true));
    const lines = raw.toString('base64').match(/.{1,64}/g) ?? [];
    const pem = `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`;
    writeWhole({ [authorityFile(layout)]: pem });
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
