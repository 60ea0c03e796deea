import { createPrivateKey, hash, X509Certificate } from 'node:crypto';
import type { KeyAlgorithm } from '../../../api/v3/issued.ts';
import { onceEach } from '../../../rules/once-each.ts';
import type { Validity } from './validity.ts';

/** A private key and the certificate of its public key, PEM. `cert` may continue with the certificates of its authorities. */
export interface PemPair {
  cert: string;
  key: string;
}

/** A certificate as it says of itself. */
export interface CertificateFacts extends Validity {
  pem: string;
  /** common name */
  subject: string;
  /** common name of what signed it */
  issuer: string;
  /** hex, lower case */
  serialNumber: string;
  /** of the subject alternative name: addresses, and names that are no addresses; sorted */
  hosts: readonly string[];
  /** undefined: neither of the two that the controller makes */
  algorithm: KeyAlgorithm | undefined;
  isAuthority: boolean;
  isSelfSigned: boolean;
  /** SHA-256 of the certificate, hex */
  fingerprint: string;
  /** SHA-256 of the public key, hex */
  keyId: string;
}

const PEM_CERTIFICATE = /-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+?-----END CERTIFICATE-----/g;
/** A bundle with more is no chain of anything. */
const MOST_CERTIFICATES = 16;

/** The certificates of a PEM text that can be read, in its order. */
export const readCertificates = (pem: string): readonly CertificateFacts[] =>
  Array.from(parsedIn(pem), ({ facts }) => facts);

/** One after another: who needs the first alone does not pay for the authorities behind it. */
function* parsedIn(pem: string): Generator<{ certificate: X509Certificate; facts: CertificateFacts }> {
  for (const text of (pem.match(PEM_CERTIFICATE) ?? []).slice(0, MOST_CERTIFICATES)) {
    const one = parse(text);
    if (one) yield one;
  }
}

function parse(text: string): { certificate: X509Certificate; facts: CertificateFacts } | undefined {
  try {
    const certificate = new X509Certificate(text);
    return { certificate, facts: factsOf(certificate, text) };
  } catch {
    return undefined;
  }
}

/** The first certificate of a pair, or why it is none. No error shows anything of a key. */
export function readPair({ cert, key }: PemPair): CertificateFacts | { problem: string } {
  const [first] = parsedIn(cert);
  if (!first) return { problem: 'tls.crt has no certificate in PEM' };
  try {
    if (!first.certificate.checkPrivateKey(createPrivateKey(key)))
      return { problem: 'tls.key is not the key of the certificate in tls.crt' };
  } catch {
    return { problem: 'tls.key has no private key in PEM without a password' };
  }
  return first.facts;
}

const signatures = new WeakMap<CertificateFacts, WeakMap<CertificateFacts, boolean>>();

/** Whether a certificate was signed by the key of another one; verified once for the same two objects. */
export function isSignedBy(certificate: CertificateFacts, authority: CertificateFacts): boolean {
  const known = signatures.get(certificate) ?? new WeakMap<CertificateFacts, boolean>();
  signatures.set(certificate, known);
  const isSigned = known.get(authority) ?? verified(certificate, authority);
  known.set(authority, isSigned);
  return isSigned;
}

/** An authority signs many certificates, and is parsed once. */
const parsed = onceEach(({ pem }: CertificateFacts) => new X509Certificate(pem));

function verified(certificate: CertificateFacts, authority: CertificateFacts): boolean {
  const by = parsed(authority);
  const one = new X509Certificate(certificate.pem);
  return one.checkIssued(by) && one.verify(by.publicKey);
}

function factsOf(certificate: X509Certificate, pem: string): CertificateFacts {
  return {
    pem: `${pem}\n`,
    subject: commonName(certificate.subject),
    issuer: commonName(certificate.issuer),
    serialNumber: certificate.serialNumber.toLowerCase(),
    notBefore: certificate.validFromDate.getTime(),
    notAfter: certificate.validToDate.getTime(),
    hosts: hostsIn(certificate.subjectAltName ?? ''),
    algorithm: algorithmOf(certificate),
    isAuthority: certificate.ca,
    // A certificate of no authority passes no check of issuers, not even its own.
    isSelfSigned: certificate.subject === certificate.issuer && certificate.verify(certificate.publicKey),
    fingerprint: certificate.fingerprint256.replaceAll(':', '').toLowerCase(),
    keyId: hash('sha256', certificate.publicKey.export({ type: 'spki', format: 'der' })),
  };
}

function algorithmOf({ publicKey }: X509Certificate): KeyAlgorithm | undefined {
  const { asymmetricKeyType: type, asymmetricKeyDetails: { namedCurve, modulusLength } = {} } = publicKey;
  if (type === 'ec') return namedCurve === 'prime256v1' ? 'ECDSA' : undefined;
  return type === 'rsa' && modulusLength === 2_048 ? 'RSA' : undefined;
}

/** Node prints a name in lines, each of an attribute, with the escapes of RFC 4514. */
function commonName(name: string | undefined): string {
  const lines = (name ?? '').split('\n');
  const line = lines.find((one) => one.startsWith('CN=')) ?? lines[0] ?? '';
  return line.replace(/^CN=/, '').replaceAll(/\\([^0-9A-Fa-f])/g, '$1');
}

/** Node prints the subject alternative name as `DNS:a, IP Address:10.0.0.5`. */
const hostsIn = (text: string): readonly string[] =>
  [...new Set([...text.matchAll(/(?:DNS|IP Address):([^,"\s]+)/g)].map(([, host = '']) => comparable(host)))].sort();

/** One spelling for hosts that are the same: certificates have addresses of IPv6 in capitals and without abbreviation. */
export function comparable(host: string): string {
  if (!host.includes(':')) return host.toLowerCase();
  try {
    return new URL(`http://[${host}]`).hostname.slice(1, -1);
  } catch {
    return host.toLowerCase();
  }
}
