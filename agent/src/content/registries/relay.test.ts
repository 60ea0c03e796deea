import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import { connect } from 'node:net';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { listenForTest } from '../../../../testing/local-server.ts';
import { ANYWHERE } from '../../domain/_reach.ts';
import { parseReference } from '../../domain/reference.ts';
import type { RegistrySource } from '../../domain/target.ts';
import { RegistryClient } from './client.ts';
import { openRelay, type Relay, type RelayOptions } from './relay.ts';

const LINK_DATA = join(import.meta.dirname, '../../link/testdata');
const read = (name: string) => readFileSync(join(LINK_DATA, name), 'utf8');

const credentials = { username: 'limpet', password: 'holds-fast' };
const basic = `Basic ${Buffer.from('limpet:holds-fast').toString('base64')}`;
const manifest = JSON.stringify({
  config: { digest: 'sha256:c', size: 10 },
  layers: [{ digest: 'sha256:l', size: 90 }],
});

type Answer = (incoming: IncomingMessage, outgoing: ServerResponse, self: Server) => unknown;

interface Server {
  host: string;
  url: string;
  requests: { path: string; authorization?: string; range?: string }[];
}

/** A server that responds as the test says, and records its requests. */
async function serve(answer: Answer, secure = false): Promise<Server> {
  const handle = (incoming: IncomingMessage, outgoing: ServerResponse) => {
    const { authorization, range } = incoming.headers;
    self.requests.push({ path: incoming.url ?? '', authorization, range });
    answer(incoming, outgoing, self);
  };
  const server = secure
    ? createSecureServer({ key: read('server.key'), cert: read('server.pem') }, handle)
    : createServer(handle);
  const host = `${secure ? 'localhost' : '127.0.0.1'}:${await listenForTest(server)}`;
  const self: Server = { host, url: `${secure ? 'https' : 'http'}://${host}`, requests: [] };
  return self;
}

async function relayTo(
  source: Partial<RegistrySource> & { host: string },
  options: Partial<RelayOptions> = {},
): Promise<Relay> {
  const client = new RegistryClient({ ca: '', insecure: true, scheme: 'http', ...source }, ANYWHERE);
  const image = parseReference(`${source.host}/team/app:1`);
  const relay = await openRelay({ client, image, prefix: 'skerry-test-', ...options });
  onTestFinished(async () => {
    await relay[Symbol.asyncDispose]();
    client[Symbol.dispose]();
  });
  return relay;
}

/** A URL at a relay, from its reference. */
function urlOf(relay: Relay, what: string): string {
  const [host = '', secret, ...repository] = relay.reference.replace(/:1$/, '').split('/');
  return `http://${host}/v2/${secret}/${repository.join('/')}/${what}`;
}

const fetchFrom = (relay: Relay, what: string, headers = {}) => fetch(urlOf(relay, what), { headers });

const open: Answer = ({ url = '' }, outgoing) => {
  if (url.includes('/manifests/')) outgoing.writeHead(200, { 'content-type': 'application/x' }).end(manifest);
  else outgoing.writeHead(200, { 'content-length': '90' }).end('x'.repeat(90));
};
/** Responds to requests with credentials. */
const behind = (authorization: string, challenge: string, answer: Answer = open): Answer => {
  return (incoming, outgoing, self) => {
    if (incoming.headers.authorization === authorization) return answer(incoming, outgoing, self);
    outgoing.writeHead(401, { 'www-authenticate': challenge }).end();
  };
};

describe('a relay serves', () => {
  test('the image it was opened for, with the headers of the registry, and reports the progress', async () => {
    const registry = await serve(open);
    const percentages: number[] = [];
    const relay = await relayTo(registry, { onProgress: (percentage) => percentages.push(percentage) });
    const answer = await fetchFrom(relay, 'manifests/1');
    expect(answer.headers.get('content-type')).toBe('application/x');
    expect(await answer.text()).toBe(manifest);
    expect(await (await fetchFrom(relay, 'blobs/sha256:l')).text()).toBe('x'.repeat(90));
    expect(percentages).toEqual([90]);
    expect(registry.requests.map(({ path }) => path)).toEqual([
      '/v2/team/app/manifests/1',
      '/v2/team/app/blobs/sha256:l',
    ]);
  });

  test('a part of a layer to an engine that resumes a download', async () => {
    const registry = await serve((_incoming, outgoing) =>
      outgoing.writeHead(206, { 'content-range': 'bytes 5-9/10' }).end('56789'),
    );
    const relay = await relayTo(registry);
    const answer = await fetchFrom(relay, 'blobs/sha256:l', { range: 'bytes=5-' });
    expect([answer.status, answer.headers.get('content-range'), await answer.text()]).toEqual([
      206,
      'bytes 5-9/10',
      '56789',
    ]);
    expect(registry.requests[0]?.range).toBe('bytes=5-');
  });

  test('nothing on another path, and nothing but its image on its own', async () => {
    const registry = await serve(behind(basic, 'Basic realm="x"'));
    const relay = await relayTo({ ...registry, credentials });
    const url = new URL(urlOf(relay, 'manifests/1'));
    const [, , secret = ''] = url.pathname.split('/');
    expect(secret).toMatch(/^skerry-test-[0-9a-f]{32}$/);
    const others = [
      '/v2/team/app/manifests/1',
      '/v2/_catalog',
      `/v2/${secret}/other/app/manifests/1`,
      `/v2/${secret}/team/app/tags/list`,
      `/v2/${secret}/team/app/manifests/..%2f..%2fother`,
      `/v2/${secret}/team/app/manifests/1?x=y`,
      `/v2/${secret.slice(0, -1)}x/team/app/manifests/1`,
      `/v2/${'0'.repeat(secret.length)}/team/app/manifests/1`,
      '/',
    ];
    for (const path of others) expect((await fetch(`${url.origin}${path}`)).status, path).toBe(404);
    for (const method of ['POST', 'PUT', 'DELETE', 'PATCH'])
      expect((await fetch(url, { method })).status, method).toBe(405);
    expect((await fetch(`${url.origin}/v2/`)).status).toBe(200);
    expect(registry.requests).toEqual([]);
    expect((await fetch(url)).status).toBe(200);
  });

  test('nothing after it is closed, and nothing of another relay', async () => {
    const registry = await serve(open);
    const [one, other] = [await relayTo(registry), await relayTo(registry)];
    expect(one.reference).not.toBe(other.reference);
    const url = urlOf(one, 'manifests/1');
    await one[Symbol.asyncDispose]();
    await expect(fetch(url)).rejects.toThrow();
    expect((await fetchFrom(other, 'manifests/1')).status).toBe(200);
  });
});

describe('a relay authenticates to its registry', () => {
  test('with name and password once the registry asks, and from then on', async () => {
    const registry = await serve(behind(basic, 'Basic realm="x"'));
    const relay = await relayTo({ ...registry, credentials });
    for (const what of ['manifests/1', 'blobs/sha256:l']) expect((await fetchFrom(relay, what)).status).toBe(200);
    expect(registry.requests.map(({ authorization }) => authorization)).toEqual([undefined, basic, basic]);
  });

  test('with one token for all requests, and with another one when that is refused', async () => {
    let valid = 'one';
    const tokens = await serve(
      behind(basic, 'Basic', (_incoming, outgoing) => outgoing.end(JSON.stringify({ access_token: valid }))),
    );
    const registry = await serve((incoming, outgoing, self) =>
      behind(`Bearer ${valid}`, `Bearer realm="${tokens.url}/token?x=y",service="registry"`)(incoming, outgoing, self),
    );
    const relay = await relayTo({ ...registry, credentials });
    // The token service gets the credentials with the first request.
    const statuses = await Promise.all(
      ['blobs/sha256:l', 'blobs/sha256:m', 'blobs/sha256:n'].map(async (what) => (await fetchFrom(relay, what)).status),
    );
    expect(statuses).toEqual([200, 200, 200]);
    expect(tokens.requests).toHaveLength(1);
    const asked = new URL(tokens.requests[0]?.path ?? '', tokens.url);
    expect(Object.fromEntries(asked.searchParams)).toEqual({
      x: 'y',
      service: 'registry',
      scope: 'repository:team/app:pull',
    });
    valid = 'two';
    expect((await fetchFrom(relay, 'manifests/1')).status).toBe(200);
    expect(tokens.requests).toHaveLength(2);
  });

  test('and not to the host that the registry redirects to', async () => {
    const store = await serve(open);
    const registry = await serve(
      behind(basic, 'Basic', ({ url = '' }, outgoing, self) => {
        if (url.endsWith('/sha256:away'))
          return outgoing.writeHead(307, { location: `${store.url}/bucket?signature=s` }).end();
        if (url.endsWith('/sha256:here')) return outgoing.writeHead(302, { location: '/elsewhere' }).end();
        return open({ url } as IncomingMessage, outgoing, self);
      }),
    );
    const relay = await relayTo({ ...registry, credentials });
    expect(await (await fetchFrom(relay, 'blobs/sha256:away')).text()).toBe('x'.repeat(90));
    expect(store.requests).toEqual([{ path: '/bucket?signature=s', authorization: undefined, range: undefined }]);
    expect((await fetchFrom(relay, 'blobs/sha256:here')).status).toBe(200);
    expect(registry.requests.at(-1)).toMatchObject({ path: '/elsewhere', authorization: basic });
  });
});

describe('a relay reports its failure without a secret:', () => {
  const ca = Buffer.from(read('ca.pem')).toString('base64');
  const strict = { scheme: 'https', insecure: false, ca } as const;
  const cases: Record<
    string,
    {
      answer: Answer;
      source?: Partial<RegistrySource>;
      secure?: boolean;
      quiet?: number;
      reports: RegExp;
      status?: number;
    }
  > = {
    'wrong password': {
      answer: behind('nobody', 'Basic'),
      reports: /refuses the user "limpet" or the password/,
      status: 403,
    },
    'no credentials': {
      answer: behind('nobody', 'Basic'),
      source: { credentials: undefined },
      reports: /wants credentials/,
      status: 403,
    },
    'a challenge that is not understood': {
      answer: behind('nobody', 'Negotiate'),
      reports: /refuses the user/,
      status: 403,
    },
    'a refusal with a message': {
      answer: (_incoming, outgoing) =>
        outgoing.writeHead(403).end('{"errors":[{"code":"DENIED","message":"not today"}]}'),
      reports: /status 403 \(not today\)/,
      status: 403,
    },
    'a token service without TLS': {
      answer: behind('nobody', 'Bearer realm="http://auth.example.com/token"'),
      source: strict,
      secure: true,
      reports: /token service without TLS \(auth\.example\.com\)/,
    },
    'a token service that is no URL': {
      answer: behind('nobody', 'Bearer realm="file:///etc/passwd"'),
      reports: /token service that is no URL/,
    },
    'a redirect without TLS': {
      answer: (_incoming, outgoing) => outgoing.writeHead(307, { location: 'http://store.example.com/' }).end(),
      source: strict,
      secure: true,
      reports: /redirects to store\.example\.com without TLS/,
    },
    'endless redirects': {
      answer: ({ url = '' }, outgoing) => outgoing.writeHead(307, { location: url }).end(),
      reports: /redirects to nowhere/,
    },
    'a redirect to a file': {
      answer: (_incoming, outgoing) => outgoing.writeHead(307, { location: 'file:///etc/passwd' }).end(),
      reports: /redirects to nowhere/,
    },
    'a certificate of another authority': {
      answer: open,
      source: { ...strict, ca: '' },
      secure: true,
      reports: /its certificate is not trusted/,
    },
    'plain HTTP where TLS is wanted': { answer: open, source: { ...strict }, reports: /does not speak TLS/ },
    'too many requests': { answer: (_incoming, outgoing) => outgoing.writeHead(429).end(), reports: /status 429/ },
    'an endless manifest': {
      answer: (_incoming, outgoing) => {
        outgoing.writeHead(200);
        const more = () => !outgoing.destroyed && outgoing.write('x'.repeat(1 << 20), more);
        more();
      },
      reports: /larger than 4194304 bytes/,
    },
    silence: {
      answer: (_incoming, outgoing) => outgoing.writeHead(200).flushHeaders(),
      quiet: 1000,
      reports: /did not end in time/,
    },
  };
  test.each(Object.entries(cases))(
    '%s',
    async (_name, { answer, source = {}, secure, quiet, reports, status = 502 }) => {
      const { host } = await serve(answer, secure);
      const relay = await relayTo({ host, credentials, ...source }, { quiet });
      expect((await fetchFrom(relay, 'manifests/1')).status).toBe(status);
      expect(relay.failure?.message).toMatch(reports);
      for (const secret of [credentials.password, basic.slice(6)]) expect(relay.failure?.message).not.toContain(secret);
    },
  );

  test('a layer that stops ends with an error, so that the engine does not take it for complete', async () => {
    const registry = await serve((_incoming, outgoing) => {
      outgoing.writeHead(200, { 'content-length': '100' });
      outgoing.write('x');
    });
    const relay = await relayTo(registry, { quiet: 200 });
    const answer = await fetchFrom(relay, 'blobs/sha256:l');
    await expect(answer.text()).rejects.toThrow();
    await expect.poll(() => relay.failure?.message).toMatch(/it sent nothing for 0\.2 s/);
  });

  test('a missing manifest is no failure, and a success clears a failure', async () => {
    let status = 503;
    const registry = await serve((_incoming, outgoing) => outgoing.writeHead(status).end());
    const relay = await relayTo(registry);
    await fetchFrom(relay, 'manifests/1');
    expect(relay.failure).toBeDefined();
    status = 404;
    expect((await fetchFrom(relay, 'manifests/1')).status).toBe(404);
    expect(relay.failure).toBeUndefined();
  });
});

test('a relay answers an engine that begins with TLS in HTTP, so that the engine continues without TLS', async () => {
  const server = await serve((_incoming, outgoing) => outgoing.end());
  const relay = await relayTo({ host: server.host });
  const { hostname, port } = new URL(`http://${relay.reference}`);
  const socket = connect(Number(port), hostname);
  onTestFinished(() => void socket.destroy());
  // The beginning of a TLS handshake.
  socket.write(Buffer.from([0x16, 0x03, 0x01, 0x00, 0x05, 0x01, 0x00, 0x00, 0x01, 0x03]));
  let answer = '';
  for await (const piece of socket.setEncoding('latin1')) answer += piece;
  expect(answer).toMatch(/^HTTP\/1\.1 400 /);
});

test('errors of the engine name the registry instead of the relay', async () => {
  const relay = await relayTo({ host: 'registry.example.com' });
  const [host = '', secret] = relay.reference.split('/');
  expect(
    relay.translate(`Get "http://${host}/v2/${secret}/team/app/manifests/1": ${relay.reference}: ${host}: EOF`),
  ).toBe(
    'Get "http://registry.example.com/v2/team/app/manifests/1": registry.example.com/team/app:1: registry.example.com: EOF',
  );
});
