import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { expect, onTestFinished, test } from 'vitest';
import { listenForTest } from '../../../../testing/local-server.ts';
import { limitsOf } from '../../domain/_reach.ts';
import type { Policy } from '../../domain/policy.ts';
import { MemoryEngine } from '../../engines/memory/_engine.ts';
import { RegistryClient } from './client.ts';
import type { Resolver } from './judged-lookup.ts';
import { pullImage } from './pull.ts';

/** A server on the loopback interface that records what it is asked. */
async function serve(answer: (incoming: IncomingMessage, outgoing: ServerResponse) => unknown) {
  const requests: string[] = [];
  const server = createServer((incoming, outgoing) => {
    requests.push(incoming.url ?? '');
    answer(incoming, outgoing);
  });
  return { port: await listenForTest(server), requests };
}

/** Names whose addresses are given, one list after another; the last one stays. */
function resolver(names: Record<string, string[][]>) {
  const asked: string[] = [];
  const resolve = ((name: string, _options: unknown, callback: (...args: unknown[]) => void) => {
    asked.push(name);
    const lists = names[name] ?? [];
    const found = (lists.length > 1 ? lists.shift() : lists[0]) ?? [];
    callback(
      null,
      found.map((address) => ({ address, family: 4 })),
    );
  }) as unknown as Resolver;
  return { asked, resolve };
}

function clientOf(host: string, policy: Partial<Policy>, resolve?: Resolver): RegistryClient {
  const client = new RegistryClient({ host, scheme: 'http', ca: '', insecure: true }, limitsOf(policy), resolve);
  onTestFinished(() => client[Symbol.dispose]());
  return client;
}

const get = (client: RegistryClient) => {
  const signal = new AbortController().signal;
  return client.open({ method: 'GET', path: '/v2/a/manifests/1', repository: 'a', headers: {}, signal });
};

test('a redirect to an address of the machine is not followed, whatever its name meant before', async () => {
  const secret = await serve((_incoming, outgoing) => outgoing.end('secret'));
  const registry = await serve((_incoming, outgoing) =>
    outgoing.writeHead(302, { location: `http://rebound.test:${secret.port}/` }).end(),
  );
  // The registry's own host is named by the policy; in this test it cannot lie anywhere but on the machine.
  const host = `registry.test:${registry.port}`;
  const { asked, resolve } = resolver({ 'registry.test': [['127.0.0.1']], 'rebound.test': [['169.254.169.254']] });
  const policy = { registries: [host], storage: ['*'] };
  await expect(get(clientOf(host, policy, resolve))).rejects.toMatchObject({
    code: 'PolicyRefused',
    message: expect.stringContaining(`leads to rebound.test:${secret.port}, which has the address 169.254.169.254`),
  });
  expect([asked, secret.requests]).toEqual([['registry.test', 'rebound.test'], []]);
});

test('the addresses that a name is judged by are those that are connected to', async () => {
  const registry = await serve((_incoming, outgoing) => outgoing.end('ok'));
  // Had the name been looked up once more for the connection, it would lead elsewhere.
  const { asked, resolve } = resolver({ 'registry.test': [['127.0.0.1'], ['169.254.169.254']] });
  const response = await get(clientOf(`registry.test:${registry.port}`, {}, resolve));
  response.resume();
  expect([response.statusCode, asked]).toEqual([200, ['registry.test']]);
});

test('of the addresses of a name only those that the machine allows are connected to', async () => {
  const registry = await serve((_incoming, outgoing) => outgoing.end('ok'));
  const { resolve } = resolver({ 'registry.test': [['169.254.169.254', '127.0.0.1']] });
  const response = await get(clientOf(`registry.test:${registry.port}`, {}, resolve));
  response.resume();
  expect(response.statusCode).toBe(200);
});

test('a redirect to an address that is written as a number is judged as well', async () => {
  const registry = await serve((_incoming, outgoing) =>
    outgoing.writeHead(302, { location: 'http://[::ffff:169.254.169.254]/latest/meta-data/' }).end(),
  );
  await expect(get(clientOf(`127.0.0.1:${registry.port}`, {}))).rejects.toMatchObject({ code: 'PolicyRefused' });
});

test('a token service is judged like a redirect', async () => {
  const service = await serve((_incoming, outgoing) => outgoing.end('{"token":"t"}'));
  const realm = `http://127.0.0.1:${service.port}/token`;
  const registry = await serve((_incoming, outgoing) =>
    outgoing.writeHead(401, { 'www-authenticate': `Bearer realm="${realm}"` }).end(),
  );
  const host = `127.0.0.1:${registry.port}`;
  await expect(get(clientOf(host, { registries: [host] }))).rejects.toMatchObject({ code: 'PolicyRefused' });
  expect(service.requests).toEqual([]);
  await expect(get(clientOf(host, { registries: [host], storage: [`127.0.0.1:${service.port}`] }))).rejects.toThrow(
    /wants credentials/,
  );
  expect(service.requests).toHaveLength(1);
});

test.each([
  ['127.0.0.1:2375/team/app:1', { hostNetwork: false }],
  ['localhost:2375/team/app:1', { hostNetwork: false }],
  ['169.254.169.254/team/app:1', {}],
])('an engine is not sent to %s for an image with the policy %j', async (reference, policy) => {
  const engine = new MemoryEngine({ anyImage: true });
  const options = { target: { reference }, platform: '', instance: 'test', reach: limitsOf(policy) };
  await expect(pullImage(engine, options, new AbortController().signal)).rejects.toMatchObject({
    code: 'PolicyRefused',
  });
  expect(engine.images.size).toBe(0);
});
