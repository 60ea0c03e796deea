import { createHash, X509Certificate } from 'node:crypto';
import type { DetailedPeerCertificate } from 'node:tls';
import { connectUnverified } from '../machine/tls.ts';

/**
 * Fetches from a server the certificate authority with the SHA-256 of a join string, as PEM. Only this digest makes the
 * response trusted; every later connection is verified against the authority.
 */
export function fetchAuthority(controllerUrl: string, digest: string, deadline = 15_000): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connectUnverified(new URL(controllerUrl));
    socket.setTimeout(deadline, () => socket.destroy(new Error(`${controllerUrl} does not answer`)));
    socket.once('error', reject);
    socket.once('secureConnect', () => {
      const found = findByDigest(socket.getPeerCertificate(true), digest);
      socket.destroy();
      if (found) resolve(found);
      else
        reject(
          new Error(
            `${controllerUrl} shows no certificate authority with the digest that the join string names; it has to send the authority with its certificate (TLS_PATH_CA, tls.authorityKey of the chart); where its authority is another one since, ask for a new join string`,
          ),
        );
    });
  });
}

function findByDigest(leaf: DetailedPeerCertificate, digest: string): string | undefined {
  const seen = new Set<string>();
  for (let each = leaf; each?.raw && !seen.has(each.fingerprint256); each = each.issuerCertificate) {
    seen.add(each.fingerprint256);
    if (createHash('sha256').update(each.raw).digest('hex') === digest) return new X509Certificate(each.raw).toString();
  }
  return undefined;
}
