import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { makeCertificate } from '../../hack/certificate.ts';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { clientOf, patient, startProvider } from './_provider.ts';
import { createProviderFetch } from './fetch.ts';

const get = { method: 'GET', headers: {} };

async function securely() {
  const { cert, key, ca } = makeCertificate(temporaryFolder(), ['localhost']);
  const caFile = join(temporaryFolder(), 'ca.pem');
  writeFileSync(caFile, ca);
  const provider = await startProvider({ tls: { cert: readFileSync(cert, 'utf8'), key: readFileSync(key, 'utf8') } });
  return { provider, caFile };
}

describe('a provider with a private authority', () => {
  test('is verified by the file of the authority, and refused without it', async () => {
    const { provider, caFile } = await securely();
    await using _ = provider;
    await using known = clientOf(provider, { allowsHttp: false, fetch: { caFile } });
    expect(await known.verify(await provider.sign(), patient())).toBeDefined();
    await using unknown = clientOf(provider, { allowsHttp: false });
    await expect(unknown.verify(await provider.sign(), patient())).rejects.toMatchObject({ status: 503 });
    expect(unknown.problem).toMatch(/SELF_SIGNED|UNABLE_TO/);
  });

  test('is not asked where the file cannot be used, with the name of the variable', () => {
    expect(() => createProviderFetch({ caFile: '/no/such/file' })).toThrow(/SKERRY_OIDC_CA_FILE=.*ENOENT/);
    const empty = join(temporaryFolder(), 'ca.pem');
    writeFileSync(empty, 'x');
    expect(() => createProviderFetch({ caFile: empty })).toThrow(/SKERRY_OIDC_CA_FILE=.*no certificate in PEM/);
  });
});

describe('a proxy', () => {
  test('carries the requests to the provider, unless NO_PROXY names it', async () => {
    const { provider, caFile } = await securely();
    await using _ = provider;
    const tunnels: string[] = [];
    const proxy = createServer().on('connect', (request, socket) => {
      tunnels.push(request.url ?? '');
      const upstream = connect(provider.port, '127.0.0.1', () => {
        socket.write('HTTP/1.1 200 Connection Established\r\n\r\n');
        upstream.pipe(socket);
        socket.pipe(upstream);
      });
      for (const one of [upstream, socket]) one.on('error', () => {});
    });
    await once(proxy.listen(0, '127.0.0.1'), 'listening');
    const { port } = proxy.address() as AddressInfo;
    const env = { HTTPS_PROXY: `http://127.0.0.1:${port}` };
    await using through = createProviderFetch({ caFile, env });
    expect((await through.request(`${provider.issuer}/keys`, get)).status).toBe(200);
    expect(tunnels).toEqual([`localhost:${provider.port}`]);
    await using past = createProviderFetch({ caFile, env: { ...env, NO_PROXY: 'localhost' } });
    expect((await past.request(`${provider.issuer}/keys`, get)).status).toBe(200);
    expect(tunnels).toHaveLength(1);
    proxy.closeAllConnections();
    proxy.close();
  });
});

describe('a reply of the provider', () => {
  test('larger than the limit is not read to its end', async () => {
    await using provider = await startProvider();
    provider.handle('/keys', (_, response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      const more = () => {
        while (!response.destroyed && response.write('x'.repeat(65_536)));
        if (!response.destroyed) response.once('drain', more);
      };
      more();
    });
    await using client = clientOf(provider);
    await expect(client.verify(await provider.sign(), patient())).rejects.toMatchObject({
      status: 503,
      message: expect.stringContaining('larger than 1048576 bytes'),
    });
  });

  test.each([
    ['that never begins', () => {}],
    ['whose body never ends', (_: unknown, response: import('node:http').ServerResponse) => void response.write('{')],
  ])('%s is waited for until the limit', async (_, handler) => {
    await using provider = await startProvider();
    provider.handle('/keys', handler);
    await using client = clientOf(provider, { fetch: { timeoutMs: 200 } });
    await expect(client.verify(await provider.sign(), patient())).rejects.toMatchObject({
      status: 503,
      message: expect.stringContaining('does not answer in time'),
    });
  });

  test.each<[string, string, number, string]>([
    ['no JSON', '<html>', 200, 'no JSON'],
    ['no keys', '{}', 200, 'has no keys'],
    ['an error', '{"keys":[]}', 500, 'the status 500'],
    ['a way elsewhere', '', 302, 'the status 302'],
  ])('with %s instead of keys leads to 503', async (_, body, status, words) => {
    await using provider = await startProvider();
    provider.handle('/keys', (__, response) => {
      response.writeHead(status, { location: `${provider.issuer}/elsewhere` }).end(body);
    });
    await using client = clientOf(provider);
    await expect(client.verify(await provider.sign(), patient())).rejects.toMatchObject({
      status: 503,
      message: expect.stringContaining(words),
    });
    expect(provider.count('/elsewhere')).toBe(0);
  });
});

test.each<[string, (metadata: Record<string, unknown>) => void]>([
  ['of another issuer', (metadata) => Object.assign(metadata, { issuer: 'https://elsewhere.example' })],
  ['without keys', (metadata) => delete metadata.jwks_uri],
  ['with an endpoint that is no URL', (metadata) => Object.assign(metadata, { token_endpoint: 'token' })],
  ['with a file as an endpoint', (metadata) => Object.assign(metadata, { userinfo_endpoint: 'file:///etc/passwd' })],
])('a discovery document %s is refused, with the reason for people', async (_, change) => {
  await using provider = await startProvider();
  change(provider.metadata);
  await using client = clientOf(provider);
  await expect(client.verify(await provider.sign(), patient())).rejects.toMatchObject({ status: 503 });
  expect(client.problem).toContain(provider.issuer);
});
