import { createHash, X509Certificate } from 'node:crypto';
import { connect, type DetailedPeerCertificate } from 'node:tls';

/**
 * Fetches from a server the certificate authority with the SHA-256 of a join string, as PEM. Only this digest makes the
 * response trusted; every later connection is verified against the authority.
 */
export function fetchAuthority(controllerUrl: string, digest: string, deadline = 15_000): Promise<string> {
  const { hostname, port } = new URL(controllerUrl);
  const host = hostname.replace(/^\[|\]$/g, '');
  return new Promise((resolve, reject) => {
    const socket = connect({
      host,
      port: Number(port || 443),
      servername: isName(host) ? host : undefined,
      rejectUnauthorized: false,
    });
    socket.setTimeout(deadline, () => socket.destroy(new Error(`${controllerUrl} does not answer`)));
    socket.once('error', reject);
    socket.once('secureConnect', () => {
      const found = findByDigest(socket.getPeerCertificate(true), digest);
      socket.destroy();
      if (found) resolve(found);
      else
        reject(
          new Error(
            `${controllerUrl} shows no certificate authority with the digest that the join string names; it has to send the authority with its certificate (TLS_PATH_CA, tls.authorityKey of the chart)`,
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

function isName(host: string): boolean {
  return !/^[\d.]+$|:/.test(host);
}
