import { readFileSync } from 'node:fs';
import { makeCertificate } from '../../hack/certificate.ts';
import { temporaryFolder } from '../../testing/temporary-folder.ts';

/** A new key and a certificate for localhost, as a server reads them, and the certificate of their authority. */
export function certificateOfLocalhost(): { key: string; cert: string; ca: string } {
  const { key, cert, ca } = makeCertificate(temporaryFolder(), ['localhost']);
  return { key: readFileSync(key, 'utf8'), cert: readFileSync(cert, 'utf8'), ca };
}
