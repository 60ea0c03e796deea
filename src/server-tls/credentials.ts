import { servedChain } from '../http/served-chain.ts';
import { bundle } from '../subjects/pki/rules/authority.ts';
import { type CertificateFacts, isSignedBy, readCertificates, readPair } from '../subjects/pki/rules/pair.ts';

/** What the controller serves TLS with, PEM. */
export interface TlsCredentials {
  /** the certificate, and what leads from it to its authority */
  cert: string;
  key: string;
  /** what clients are to trust, the authority of the certificate first; empty where clients trust it anyway */
  authorities: string;
  /** the certificate as it says of itself */
  facts: CertificateFacts;
}

/** The texts of files or of a Secret as credentials, or why they are none. */
export function credentialsOf(texts: {
  cert: string;
  key: string;
  /** certificates that lead from `cert` to its authority */
  intermediates?: string | undefined;
  authorities?: string | undefined;
}): TlsCredentials | { problem: string } {
  const { key, intermediates } = texts;
  const facts = readPair({ cert: texts.cert, key });
  if ('problem' in facts) return facts;
  if (intermediates !== undefined && readCertificates(intermediates).length === 0)
    return { problem: 'the intermediate certificates are no certificates in PEM' };
  const cert = intermediates === undefined ? texts.cert : servedChain(texts.cert, intermediates);
  const authorities = signerFirst(readCertificates(cert), texts.authorities ?? '');
  return { cert: servedChain(cert, authorities), key, authorities, facts };
}

/**
 * The authorities of a bundle, those that signed a certificate of the chain first: programs that take the first one of a bundle, such as
 * `kubectl skerry provision --ca`, take the authority by which a machine can verify the controller now.
 */
function signerFirst(chain: readonly CertificateFacts[], authorities: string): string {
  const known = readCertificates(authorities);
  const isSigner = (authority: CertificateFacts) => chain.some((one) => isSignedBy(one, authority));
  const signers = known.filter(isSigner);
  return known.length === 0 ? authorities : bundle([...signers, ...known.filter((one) => !signers.includes(one))]);
}
