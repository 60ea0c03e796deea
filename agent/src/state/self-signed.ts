import { generateKeyPairSync, randomBytes, sign } from 'node:crypto';

/** A key pair with a certificate that it signed itself, as PEM: whoever has the certificate can verify who has the key. */
export interface SelfSigned {
  cert: string;
  key: string;
}

/**
 * Makes a certificate (X.509 v3, ECDSA P-256) of a server for some DNS names. Node reads certificates and does not make any.
 * It is valid whatever a machine's clock says, which may be 1970 when the agent starts first.
 */
export function selfSigned(commonName: string, names: readonly string[]): SelfSigned {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const name = sequence(set(sequence(OID.commonName, text(0x0c, commonName))));
  const body = sequence(
    tagged(0xa0, element(0x02, Buffer.from([2]))),
    element(0x02, serial()),
    ECDSA_WITH_SHA256,
    name,
    sequence(text(0x17, '700101000000Z'), text(0x18, '20991231235959Z')),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    tagged(0xa3, sequence(...extensions(names))),
  );
  const signature = sign('sha256', body, privateKey);
  const certificate = sequence(body, ECDSA_WITH_SHA256, element(0x03, Buffer.from([0]), signature));
  const lines = certificate.toString('base64').match(/.{1,64}/g) ?? [];
  return {
    cert: ['-----BEGIN CERTIFICATE-----', ...lines, '-----END CERTIFICATE-----', ''].join('\n'),
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  };
}

const oid = (hex: string) => element(0x06, Buffer.from(hex, 'hex'));

const OID = {
  commonName: oid('550403'),
  keyUsage: oid('551d0f'),
  alternativeNames: oid('551d11'),
  basicConstraints: oid('551d13'),
  extendedKeyUsage: oid('551d25'),
  serverAuthentication: oid('2b06010505070301'),
} as const;

const ECDSA_WITH_SHA256 = sequence(oid('2a8648ce3d040302'));
const TRUE = element(0x01, Buffer.from([0xff]));

function extensions(names: readonly string[]): Buffer[] {
  const extension = (...parts: Buffer[]) => sequence(...parts.slice(0, -1), element(0x04, parts.at(-1) as Buffer));
  return [
    extension(OID.basicConstraints, TRUE, sequence(TRUE)),
    // digital signature and signing of certificates
    extension(OID.keyUsage, TRUE, element(0x03, Buffer.from([2, 0x84]))),
    extension(OID.extendedKeyUsage, sequence(OID.serverAuthentication)),
    extension(OID.alternativeNames, sequence(...names.map((name) => text(0x82, name)))),
  ];
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
