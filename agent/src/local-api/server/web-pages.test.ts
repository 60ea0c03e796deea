import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { atEnd } from '../../../../testing/at-end.ts';
import { plainView } from '../../_web.ts';
import { LocalAgent } from '../_local-agent.ts';
import { localApi } from '../routes.ts';
import { onAllListeners, WAYS } from './_listeners.ts';

/** What a web page in a browser of this machine gets: it can send requests to loopback, with any path and many headers. */

const uuid = randomUUID();
const local = await LocalAgent.start();
atEnd(() => local[Symbol.asyncDispose]());
await local.provision(plainView({ uuid, serviceAccount: { name: 'web', rules: [] } }));
const token = Buffer.from(local.files.read(`serviceaccounts/${uuid}`)?.get('token') ?? '').toString();
const ask = await onAllListeners(local, localApi({ agent: local.agent, phase: () => 'listening' } as never));

const OWN = '/v1/microservices/config';
const TCP = WAYS.filter((way) => way !== 'socket');

describe('a request', () => {
  const pages: Record<string, Record<string, string>> = {
    'from a page of another site': { origin: 'https://shop.example' },
    'from a page without an origin': { origin: 'null' },
    'from a page whose origin begins like this machine': { origin: 'http://localhost.shop.example' },
    'from an image of another site': { 'sec-fetch-site': 'cross-site' },
    'to a name that leads to this machine': { host: 'rebound.example' },
    'to a name with the port of the local API': { host: 'rebound.example:54321' },
    'to a name that begins like this machine': { host: 'localhost.rebound.example' },
    'to an address that is not its own': { host: '192.0.2.1' },
    'to a host that is none': { host: '%%' },
  };
  for (const [name, headers] of Object.entries(pages))
    test(`${name} is refused on TCP, whatever token it has`, async () => {
      for (const way of TCP)
        for (const bearer of [token, '', local.token])
          for (const path of [OWN, '/metrics', '/v1/system/status', '/v1/nonsense'])
            expect((await ask(way, 'GET', path, { token: bearer, headers })).status, `${way} ${path}`).toBe(403);
    });

  const own = [
    'localhost',
    '127.0.0.1',
    '127.0.0.1:54321',
    'LOCALHOST:54321',
    'skerry-agent.default.svc.bridge.local:54321',
  ];
  for (const host of own)
    test(`to ${host} is served`, async () => {
      for (const way of TCP) expect((await ask(way, 'GET', OWN, { token, headers: { host } })).status).toBe(200);
    });

  test('is served to a page of this machine itself, if it has a token', async () => {
    const headers = { origin: 'http://localhost:3000', 'sec-fetch-site': 'same-site' };
    expect((await ask('loopback', 'GET', OWN, { token, headers })).status).toBe(200);
    expect((await ask('loopback', 'GET', OWN, { headers })).status).toBe(401);
  });

  test('for a probe is served by any name, and tells nothing of the machine', async () => {
    const headers = { host: 'gateway.example', origin: 'https://monitor.example' };
    const { status, body } = await ask('loopback', 'GET', '/health/live', { headers });
    expect([status, body]).toEqual([200, { status: 'ok', localApiPhase: 'listening' }]);
  });

  test('gets no header by which a page of another site could read the answer', async () => {
    const origin = 'http://localhost:3000';
    const answer = await fetch(`http://127.0.0.1:${local.port}/health/live`, { headers: { origin } });
    expect([...answer.headers.keys()].filter((name) => name.startsWith('access-control'))).toEqual([]);
    const headers = { origin: 'https://shop.example', 'access-control-request-method': 'POST' };
    expect((await ask('loopback', 'OPTIONS', OWN, { headers })).status).toBe(403);
  });
});
