import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
  X509Certificate,
} from 'node:crypto';

/** A private key with its certificate, as PEM. */
export interface KeyedCertificate {
  cert: string;
  key: string;
}

/** What a certificate is for. */
interface CertificateNames {
  commonName: string;
  dns: readonly string[];
  /** IPv4 */
  addresses?: readonly string[];
}

/** A new key pair for a certificate: ECDSA P-256, which all clients know. */
export const newCertificateKey = (): string =>
  generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();

/**
 * The certificate (X.509 v3) of an authority for a key, which signs itself. Node reads certificates and does not make any. Like
 * the certificates that it signs it is valid from 1970 on: a machine's clock may say so when the agent starts first.
 */
export function authorityCertificate(key: string, names: CertificateNames, until: Date): KeyedCertificate {
  const own = createPublicKey(key);
  const name = nameOf(names.commonName);
  const signed = { name, issuer: name, until, publicKey: own };
  // It serves as well: the release before has this one certificate for both.
  const uses = [IS_AUTHORITY, keyUsage(0x84, 2), SERVER, subjectKeyOf(own), alternativeNames(names)];
  return { cert: certificate(signed, uses, createPrivateKey(key)), key };
}

/** A certificate of a server by an authority, with a key pair of its own. */
export function serverCertificate(authority: KeyedCertificate, names: CertificateNames, until: Date): KeyedCertificate {
  const key = newCertificateKey();
  const signer = new X509Certificate(authority.cert);
  const publicKey = createPublicKey(key);
  const issuer = nameOf(/^CN=(.*)$/m.exec(signer.subject)?.[1] ?? '');
  const uses = [
    ...[IS_SERVER, keyUsage(0x80, 7), SERVER, subjectKeyOf(publicKey), authorityKeyOf(signer.publicKey)],
    alternativeNames(names),
  ];
  const signed = { name: nameOf(names.commonName), issuer, until, publicKey };
  return { cert: certificate(signed, uses, createPrivateKey(authority.key)), key };
}

interface Signed {
  name: Buffer;
  issuer: Buffer;
  until: Date;
  publicKey: KeyObject;
}

function certificate({ name, issuer, until, publicKey }: Signed, uses: readonly Buffer[], key: KeyObject): string {
  const body = sequence(
    tagged(0xa0, element(0x02, Buffer.from([2]))),
    element(0x02, serial()),
    ECDSA_WITH_SHA256,
    issuer,
    sequence(text(0x17, '700101000000Z'), time(until)),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    tagged(0xa3, sequence(...uses)),
  );
  const signature = sign('sha256', body, key);
  const whole = sequence(body, ECDSA_WITH_SHA256, element(0x03, Buffer.from([0]), signature));
  const lines = whole.toString('base64').match(/.{1,64}/g) ?? [];
  return ['-----BEGIN CERTIFICATE-----', ...lines, '-----END CERTIFICATE-----', ''].join('\n');
}

const oid = (hex: string) => element(0x06, Buffer.from(hex, 'hex'));

const OID = {
  commonName: oid('550403'),
  subjectKey: oid('551d0e'),
  keyUsage: oid('551d0f'),
  alternativeNames: oid('551d11'),
  basicConstraints: oid('551d13'),
  authorityKey: oid('551d23'),
  extendedKeyUsage: oid('551d25'),
  serverAuthentication: oid('2b06010505070301'),
} as const;

const ECDSA_WITH_SHA256 = sequence(oid('2a8648ce3d040302'));
const TRUE = element(0x01, Buffer.from([0xff]));

const nameOf = (commonName: string) => sequence(set(sequence(OID.commonName, text(0x0c, commonName))));

/** The last part is the value. */
function extension(...parts: Buffer[]): Buffer {
  return sequence(...parts.slice(0, -1), element(0x04, parts.at(-1) as Buffer));
}

const IS_AUTHORITY = extension(OID.basicConstraints, TRUE, sequence(TRUE));
const IS_SERVER = extension(OID.basicConstraints, TRUE, sequence());
const SERVER = extension(OID.extendedKeyUsage, sequence(OID.serverAuthentication));
/** 0x80: digital signature; 0x04: signing of certificates. `unused`: bits at the end that mean nothing. */
const keyUsage = (bits: number, unused: number) =>
  extension(OID.keyUsage, TRUE, element(0x03, Buffer.from([unused, bits])));
const subjectKeyOf = (key: KeyObject) => extension(OID.subjectKey, element(0x04, keyId(key)));
const authorityKeyOf = (key: KeyObject) => extension(OID.authorityKey, sequence(element(0x80, keyId(key))));
const keyId = (key: KeyObject) =>
  createHash('sha256')
    .update(key.export({ type: 'spki', format: 'der' }))
    .digest()
    .subarray(0, 20);

const alternativeNames = ({ dns, addresses = [] }: CertificateNames) =>
  extension(
    OID.alternativeNames,
    sequence(
      ...dns.map((name) => text(0x82, name)),
      ...addresses.map((address) => element(0x87, Buffer.from(address.split('.').map(Number)))),
    ),
  );

/** Two digits of the year up to 2049, four from 2050 on. */
function time(date: Date): Buffer {
  const digits = `${date.toISOString().replaceAll(/[-:T]|\.\d+/g, '')}`;
  return date.getUTCFullYear() < 2050 ? text(0x17, digits.slice(2)) : text(0x18, digits);
}

/** A positive number. */
function serial(): Buffer {
  const bytes = randomBytes(16);
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x40;
  return bytes;
}

function sequence(...parts: Buffer[]): Buffer {
  return element(0x30, ...parts);
}

function set(...parts: Buffer[]): Buffer {
  return element(0x31, ...parts);
}

function tagged(tag: number, content: Buffer): Buffer {
  return element(tag, content);
}

function text(tag: number, value: string): Buffer {
  return element(tag, Buffer.from(value));
}

/** One element of DER: tag, length, content. */
function element(tag: number, ...parts: Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}
