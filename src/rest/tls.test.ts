import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { get } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createMemoryDependencies } from './_memory.ts';
import { createRestServer } from './server.ts';

const hasOpenssl = spawnSync('openssl', ['version']).status === 0;

/** A new key and a self-signed certificate for localhost. */
function makeCertificate(): { key: string; cert: string } {
  const dir = mkdtempSync(join(tmpdir(), 'skerry-tls-'));
  const [key, cert] = [join(dir, 'key.pem'), join(dir, 'cert.pem')];
  const kind = ['-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2'];
  const name = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost'];
  try {
    execFileSync('openssl', ['req', ...kind, ...name, '-keyout', key, '-out', cert], { stdio: 'ignore' });
    return { key: readFileSync(key, 'utf8'), cert: readFileSync(cert, 'utf8') };
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

test.skipIf(!hasOpenssl)('the listener serves TLS when it has a certificate', async () => {
  const tls = makeCertificate();
  await using server = createRestServer({ deps: createMemoryDependencies(), tls });
  const { port } = await server.listen({ port: 0, host: '127.0.0.1' });
  const options = {
    host: '127.0.0.1',
    port,
    path: '/api/v3/live',
    ca: tls.cert,
    servername: 'localhost',
    agent: false,
  };
  const status = await new Promise<number | undefined>((resolve, reject) => {
    get(options, (response) => {
      response.resume();
      resolve(response.statusCode);
    }).on('error', reject);
  });
  expect(status).toBe(200);
});
