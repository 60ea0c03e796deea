import { execFileSync } from 'node:child_process';
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, createServer } from 'node:tls';
import { afterAll, describe, expect, test } from 'vitest';
import { type CertificateRequest, createSigner, type SignedPair } from './signer.ts';

const signer = createSigner();
const HOUR_MS = 3_600_000;
const now = Math.floor(Date.now() / 1_000) * 1_000;
const validity = { notBefore: now - HOUR_MS, notAfter: now + 24 * HOUR_MS };
const authorityRequest = (algorithm: CertificateRequest['algorithm']): CertificateRequest => ({
  subject: 'Wärmepumpen, Halle 3 = "Süd"',
  names: [],
  algorithm,
  ...validity,
  isAuthority: true,
});
const serverRequest = (algorithm: CertificateRequest['algorithm']): CertificateRequest => ({
  subject: 'pump',
  names: [
    { type: 'dns', value: 'pump.example' },
    { type: 'dns', value: '127.0.0.1' },
    { type: 'ip', value: '127.0.0.1' },
    { type: 'ip', value: '2001:db8::5' },
  ],
  algorithm,
  ...validity,
  isAuthority: false,
});

const dir = mkdtempSync(join(tmpdir(), 'skerry-signer-'));
afterAll(() => rmSync(dir, { recursive: true, force: true }));
const openssl = (...args: string[]) =>
  execFileSync('openssl', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
function file(name: string, text: string): string {
  const path = join(dir, name);
  writeFileSync(path, text);
  return path;
}

describe.each(['ECDSA', 'RSA'] as const)('an authority with a key of %s', (algorithm) => {
  const authority = signer.issue(authorityRequest(algorithm));
  const server = authority.then((by) => signer.issue(serverRequest(algorithm), by));

  test('signs what OpenSSL accepts under its strict rules', async () => {
    const [ca, leaf] = [await authority, await server];
    const verified = openssl(
      'verify',
      '-x509_strict',
      '-purpose',
      'sslserver',
      ...['-CAfile', file(`${algorithm}-ca.pem`, ca.cert)],
      ...['-verify_hostname', 'pump.example'],
      file(`${algorithm}.pem`, leaf.cert),
    );
    expect(verified).toContain('OK');
  });

  test.each([
    ['a client', { isServer: false }],
    ['a server', { isServer: true }],
  ])('signs a certificate with which %s proves who it is, by name and by address', async (_, { isServer }) => {
    const [ca, leaf] = [await authority, await server];
    for (const servername of ['pump.example', undefined])
      expect(await handshake(ca, leaf, { servername, isServer })).toBe(true);
  });

  test('signs nothing that passes for an authority', async () => {
    const [ca, leaf] = [await authority, await server];
    const forged = await signer.issue({ ...serverRequest(algorithm), subject: 'forged' }, leaf);
    const [leafFile, forgedFile] = [file('middle.pem', leaf.cert), file('forged.pem', forged.cert)];
    expect(() => openssl('verify', '-CAfile', file('root.pem', ca.cert), '-untrusted', leafFile, forgedFile)).toThrow(
      /invalid CA certificate|error/,
    );
  });

  test('has a serial number of 128 bits that no other certificate has', async () => {
    const serials = await Promise.all(
      Array.from({ length: 20 }, async () => {
        const { cert } = await signer.issue(serverRequest('ECDSA'), await authority);
        return new X509Certificate(cert).serialNumber;
      }),
    );
    expect(new Set(serials).size).toBe(20);
    for (const serial of serials) expect(serial).toMatch(/^[4-7][0-9A-F]{31}$/);
  });

  test('gives a certificate the validity, the name and the key that were asked for', async () => {
    const { cert, key } = await server;
    const read = new X509Certificate(cert);
    expect(read.validFromDate.getTime()).toBe(validity.notBefore);
    expect(read.validToDate.getTime()).toBe(validity.notAfter);
    expect(read.subject).toBe('CN=pump');
    expect(read.checkPrivateKey(createPrivateKey(key))).toBe(true);
    expect(read.ca).toBe(false);
    expect(read.subjectAltName).toContain('IP Address:127.0.0.1');
  });
});

test.each([
  ['P-384', ['genpkey', '-algorithm', 'EC', '-pkeyopt', 'ec_paramgen_curve:P-384']],
  ['P-521', ['genpkey', '-algorithm', 'EC', '-pkeyopt', 'ec_paramgen_curve:P-521']],
  ['RSA of 3072 bits', ['genrsa', '-traditional', '3072']],
  ['Ed25519', ['genpkey', '-algorithm', 'ed25519']],
])('an authority that a user made with a key of %s signs', async (_, command) => {
  const key = openssl(...command);
  const keyFile = file('own.key', key);
  const cert = openssl('req', '-x509', '-key', keyFile, '-subj', '/CN=own/O=Plant', '-days', '30');
  const leaf = await signer.issue(serverRequest('ECDSA'), { key, cert });
  expect(openssl('verify', '-CAfile', file('own.pem', cert), file('own-leaf.pem', leaf.cert))).toContain('OK');
});

test('an authority whose key cannot sign is refused with the type of the key', async () => {
  const key = openssl('genpkey', '-algorithm', 'x25519');
  const { cert } = await signer.issue(authorityRequest('ECDSA'));
  await expect(signer.issue(serverRequest('ECDSA'), { key, cert })).rejects.toThrow(
    'an authority with a key of type x25519 cannot sign',
  );
});

/** Whether both ends of a connection authenticate each other, one of them with `leaf`. */
async function handshake(
  ca: SignedPair,
  leaf: SignedPair,
  { servername, isServer }: { servername: string | undefined; isServer: boolean },
): Promise<boolean> {
  const other = await signer.issue(serverRequest('ECDSA'), ca);
  const [atServer, atClient] = isServer ? [leaf, other] : [other, leaf];
  const server = createServer(
    { ...atServer, ca: ca.cert, requestCert: true, rejectUnauthorized: true, minVersion: 'TLSv1.2' },
    (socket) => socket.end('hello'),
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    return await new Promise<boolean>((resolve, reject) => {
      const { port } = server.address() as AddressInfo;
      const socket = connect({ port, host: '127.0.0.1', ...atClient, ca: ca.cert, ...(servername && { servername }) });
      socket.once('error', reject);
      socket.once('data', () => resolve(socket.authorized));
    });
  } finally {
    server.close();
  }
}
