import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { createServer, get } from 'node:https';
import { expect, test } from 'vitest';
import { listenForTest } from '../../../testing/local-server.ts';
import { selfSigned } from './self-signed.ts';

test('a self-signed certificate is read by OpenSSL and Node with its names, and signs itself', () => {
  const { cert } = selfSigned('agent', ['agent.example', 'localhost']);
  const read = new X509Certificate(cert);
  expect(read.verify(read.publicKey)).toBe(true);
  expect([read.subject, read.issuer, read.subjectAltName, read.ca]).toEqual([
    'CN=agent',
    'CN=agent',
    'DNS:agent.example, DNS:localhost',
    true,
  ]);
  const text = execFileSync('openssl', ['x509', '-noout', '-text'], { input: cert, encoding: 'utf8' });
  for (const part of [
    'ecdsa-with-SHA256',
    'TLS Web Server Authentication',
    'Digital Signature, Certificate Sign',
    'CA:TRUE',
  ])
    expect(text).toContain(part);
});

test('who trusts the certificate reaches a server with its key by its name, and no other server', async () => {
  const [own, other] = [selfSigned('agent', ['agent.example']), selfSigned('agent', ['agent.example'])];
  const server = createServer(own, (_, response) => response.end('hello'));
  const port = await listenForTest(server);
  const ask = (ca: string, servername: string) =>
    new Promise<string>((resolve) => {
      get({ host: '127.0.0.1', port, ca, servername, agent: false }, (response) => {
        response.resume();
        resolve(String(response.statusCode));
      }).once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    });
  expect(await ask(own.cert, 'agent.example')).toBe('200');
  expect(await ask(own.cert, 'other.example')).toBe('ERR_TLS_CERT_ALTNAME_INVALID');
  expect(await ask(other.cert, 'agent.example')).not.toBe('200');
});
