import { createPrivateKey, randomBytes, webcrypto } from 'node:crypto';

/**
 * Makes keys and X.509 certificates. Keys are made and used by the crypto of Node in its thread pool, so that the event loop
 * of the leader stays free. @peculiar/x509 encodes certificates, and is loaded with the first one.
 */

/** What a certificate is to say. */
export interface CertificateRequest {
  /** common name */
  subject: string;
  /** organizations: the groups of a user of Kubernetes */
  groups?: readonly string[];
  /** names and addresses of the subject alternative name; of an authority none */
  names: readonly { type: 'dns' | 'ip'; value: string }[];
  algorithm: 'ECDSA' | 'RSA';
  /** Unix ms, whole seconds */
  notBefore: number;
  notAfter: number;
  isAuthority: boolean;
}

/** PEM of a private key (PKCS #8) and of its certificate. */
export interface SignedPair {
  key: string;
  cert: string;
}

export interface Signer {
  /** A new key with its certificate, signed by the authority `by`, or by itself. Rejects when the key of the authority cannot sign. */
  issue(request: CertificateRequest, by?: SignedPair): Promise<SignedPair>;
}

const { subtle } = webcrypto;
const HASH = 'SHA-256';
const ALGORITHMS = {
  ECDSA: { name: 'ECDSA', namedCurve: 'P-256', hash: HASH },
  RSA: {
    name: 'RSASSA-PKCS1-v1_5',
    modulusLength: 2_048,
    publicExponent: new Uint8Array([1, 0, 1]),
    hash: HASH,
  },
} as const;
const USES = ['sign', 'verify'] as const;
/** Bytes of a serial number: positive, and as long as all others. */
const SERIAL_BYTES = 16;

export function createSigner(): Signer {
  /** One key at a time: keys of RSA would take every thread and core from what the controller serves. */
  let last: Promise<unknown> = Promise.resolve();
  function makeKeys(algorithm: CertificateRequest['algorithm']): Promise<webcrypto.CryptoKeyPair> {
    const made = last.then(() => subtle.generateKey(ALGORITHMS[algorithm], true, USES));
    last = made.catch(() => {});
    return made as Promise<webcrypto.CryptoKeyPair>;
  }

  return {
    async issue(request, by) {
      const x509 = await load();
      const keys = await makeKeys(request.algorithm);
      const authority = by && new x509.X509Certificate(by.cert);
      const signing = by ? await importKey(by.key) : { key: keys.privateKey, algorithm: ALGORITHMS[request.algorithm] };
      const utf8 = (text: string) => ({ utf8String: text });
      const groups = (request.groups ?? []).map((group) => ({ O: [utf8(group)] }));
      const name = new x509.Name([...groups, { CN: [utf8(request.subject)] }]);
      const certificate = await x509.X509CertificateGenerator.create(
        {
          serialNumber: serialNumber(),
          subject: name,
          issuer: authority ? authority.subjectName : name,
          notBefore: new Date(request.notBefore),
          notAfter: new Date(request.notAfter),
          publicKey: keys.publicKey,
          signingKey: signing.key,
          signingAlgorithm: signing.algorithm,
          extensions: [
            ...(request.isAuthority ? ofAuthority(x509) : ofEnd(x509, request)),
            await x509.SubjectKeyIdentifierExtension.create(keys.publicKey, false, webcrypto),
            await x509.AuthorityKeyIdentifierExtension.create(authority ?? keys.publicKey, false, webcrypto),
          ],
        },
        webcrypto,
      );
      const key = Buffer.from(await subtle.exportKey('pkcs8', keys.privateKey));
      return { key: pem('PRIVATE KEY', key), cert: pem('CERTIFICATE', Buffer.from(certificate.rawData)) };
    },
  };
}

type X509 = typeof import('@peculiar/x509');

async function load(): Promise<X509> {
  // The library wants the polyfill to be there before itself.
  await import('reflect-metadata');
  return import('@peculiar/x509');
}

const ofAuthority = (x509: X509) => [
  new x509.BasicConstraintsExtension(true, undefined, true),
  new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
];

const ofEnd = (x509: X509, { algorithm, names }: CertificateRequest) => [
  new x509.BasicConstraintsExtension(false, undefined, true),
  new x509.KeyUsagesExtension(
    x509.KeyUsageFlags.digitalSignature | (algorithm === 'RSA' ? x509.KeyUsageFlags.keyEncipherment : 0),
    true,
  ),
  new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth, x509.ExtendedKeyUsage.clientAuth], false),
  new x509.SubjectAlternativeNameExtension([...names], false),
];

/** The key of an authority, of any kind that WebCrypto signs with, and how it signs. */
async function importKey(text: string) {
  const key = createPrivateKey(text);
  const algorithm = algorithmOf(key.asymmetricKeyType, key.asymmetricKeyDetails?.namedCurve);
  const der = key.export({ type: 'pkcs8', format: 'der' });
  return { key: await subtle.importKey('pkcs8', der, algorithm, false, ['sign']), algorithm };
}

const CURVES: Readonly<Record<string, { namedCurve: string; hash: string }>> = {
  prime256v1: { namedCurve: 'P-256', hash: 'SHA-256' },
  secp384r1: { namedCurve: 'P-384', hash: 'SHA-384' },
  secp521r1: { namedCurve: 'P-521', hash: 'SHA-512' },
};

function algorithmOf(type: string | undefined, curve = '') {
  if (type === 'rsa') return { name: 'RSASSA-PKCS1-v1_5', hash: HASH };
  if (type === 'ed25519') return { name: 'Ed25519', hash: HASH };
  const known = CURVES[curve];
  if (type === 'ec' && known) return { name: 'ECDSA', ...known };
  throw new Error(`an authority with a key of type ${[type, curve].filter(Boolean).join(' ')} cannot sign`);
}

/** 128 random bits, of which the first two make the number positive and of full length. */
function serialNumber(): string {
  const bytes = randomBytes(SERIAL_BYTES);
  bytes[0] = ((bytes[0] as number) & 0x3f) | 0x40;
  return bytes.toString('hex');
}

const pem = (label: string, der: Buffer) =>
  `-----BEGIN ${label}-----\n${(der.toString('base64').match(/.{1,64}/g) ?? []).join('\n')}\n-----END ${label}-----\n`;
