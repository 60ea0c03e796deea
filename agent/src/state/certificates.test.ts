import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { createServer, get } from 'node:https';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { listenForTest } from '../../../testing/local-server.ts';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { authorityCertificate, newCertificateKey, serverCertificate } from './certificates.ts';

const UNTIL = new Date(Date.UTC(2040, 0, 2, 3, 4, 5));
const authority = authorityCertificate(newCertificateKey(), { commonName: 'agent', dns: ['agent.example'] }, UNTIL);
const names = { commonName: 'server', dns: ['agent.example', 'localhost'], addresses: ['127.0.0.1', '172.18.0.1'] };
const server = serverCertificate(authority, names, UNTIL);

const textOf = (cert: string) =>
  execFileSync('openssl', ['x509', '-noout', '-text'], { input: cert, encoding: 'utf8' });

/** What openssl says of the server's certificate, under its strict rules. */
function verify(ca: string, ...more: string[]): string {
  const folder = temporaryFolder();
  const [caFile, certFile] = [join(folder, 'ca.crt'), join(folder, 'server.crt')];
  writeFileSync(caFile, ca);
  writeFileSync(certFile, server.cert);
  try {
    const strict = ['-x509_strict', '-check_ss_sig', '-purpose', 'sslserver', ...more];
    return execFileSync('openssl', ['verify', ...strict, '-CAfile', caFile, certFile], {
      encoding: 'utf8',
      stdio: 'pipe',
    });
  } catch (error) {
    return String((error as { stderr: string }).stderr);
  }
}

test('the certificate of an authority is read by OpenSSL and Node, signs itself, and may sign others', () => {
  const read = new X509Certificate(authority.cert);
  expect(read.verify(read.publicKey)).toBe(true);
  expect([read.subject, read.issuer, read.ca]).toEqual(['CN=agent', 'CN=agent', true]);
  expect([read.validFrom, read.validTo]).toEqual(['Jan  1 00:00:00 1970 GMT', 'Jan  2 03:04:05 2040 GMT']);
  const text = textOf(authority.cert);
  for (const part of ['ecdsa-with-SHA256', 'Certificate Sign', 'CA:TRUE', 'Subject Key Identifier'])
    expect(text).toContain(part);
});

test('the certificate of a server has its names and addresses, and may sign nothing', () => {
  const read = new X509Certificate(server.cert);
  expect([read.subject, read.issuer, read.ca]).toEqual(['CN=server', 'CN=agent', false]);
  expect(read.subjectAltName).toBe('DNS:agent.example, DNS:localhost, IP Address:127.0.0.1, IP Address:172.18.0.1');
  const text = textOf(server.cert);
  expect(text).toContain('TLS Web Server Authentication');
  expect(text).not.toContain('Certificate Sign');
});

test('OpenSSL accepts the certificate of a server under strict rules, for its names and addresses alone', () => {
  for (const more of [
    [],
    ['-verify_hostname', 'agent.example'],
    ['-verify_ip', '172.18.0.1'],
    ['-verify_ip', '127.0.0.1'],
  ])
    expect(verify(authority.cert, ...more)).toMatch(/: OK\n$/);
  expect(verify(authority.cert, '-verify_hostname', 'other.example')).toMatch(/hostname mismatch/i);
  expect(verify(authority.cert, '-verify_ip', '172.18.0.2')).toMatch(/IP address mismatch/i);
  expect(verify(authority.cert, '-attime', String(Date.UTC(2041, 0) / 1000))).toMatch(/expired/);
  const other = authorityCertificate(newCertificateKey(), { commonName: 'agent', dns: [] }, UNTIL);
  expect(verify(other.cert)).toMatch(/verification failed/);
});

test('a client that trusts an authority reaches its server by its name, and no other server', async () => {
  const stranger = authorityCertificate(newCertificateKey(), { commonName: 'agent', dns: ['agent.example'] }, UNTIL);
  const port = await listenForTest(createServer(server, (_, response) => response.end('hello')));
  const ask = (ca: string, servername: string) =>
    new Promise<string>((resolve) => {
      get({ host: '127.0.0.1', port, ca, servername, agent: false }, (response) => {
        response.resume();
        resolve(String(response.statusCode));
      }).once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    });
  expect(await ask(authority.cert, 'agent.example')).toBe('200');
  expect(await ask(authority.cert, 'other.example')).toBe('ERR_TLS_CERT_ALTNAME_INVALID');
  expect(await ask(stranger.cert, 'agent.example')).not.toBe('200');
});

test('a certificate that ends after 2049 says so in the form that is due then', () => {
  const { cert } = authorityCertificate(
    newCertificateKey(),
    { commonName: 'agent', dns: [] },
    new Date(Date.UTC(2051, 5)),
  );
  expect(new X509Certificate(cert).validTo).toBe('Jun  1 00:00:00 2051 GMT');
});
