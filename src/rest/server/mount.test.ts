import { connect } from 'node:net';
import { promisify } from 'node:util';
import { afterEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { createRest } from '../../assembly/rest.ts';
import { HttpError } from '../../http/http-error.ts';
import { createTestClient } from '../_client.ts';
import { createMemoryDependencies } from '../_memory.ts';
import type { RestDependencies } from '../contract/dependencies.ts';
import { unavailable } from '../contract/errors.ts';
import { type AnyRoute, route } from '../contract/route.ts';
import type { RestServerOptions } from './server.ts';

const base = {
  summary: 'test',
  access: 'public',
  reply: { status: 200, schema: z.looseObject({}) },
} as const;
type Json = Record<string, unknown>;
const get = (path: string, handler: (call: { params: Json }) => Json): AnyRoute =>
  route({ ...base, method: 'GET', path, operation: `get${path}`, params: z.looseObject({}), handler });
const echo = route({
  ...base,
  method: 'POST',
  path: '/echo',
  operation: 'echo',
  body: { kind: 'json', schema: z.unknown() },
  handler: ({ body }) => ({ body }),
});
const file = route({
  ...base,
  method: 'POST',
  path: '/file',
  operation: 'file',
  body: { kind: 'file', part: 'thing' },
  handler: ({ document }) => ({ document }),
});
const thing = (handler: () => Json | Promise<Json>): AnyRoute =>
  route({ ...base, method: 'GET', path: '/thing', operation: 'thing', handler, errors: [400, 404, 501] });

const stops: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

async function start(
  routes: AnyRoute[],
  options: Partial<RestServerOptions> & { overrides?: Partial<RestDependencies> } = {},
) {
  const server = createRest({ deps: createMemoryDependencies(options.overrides), routes, ...options });
  const { port } = await server.listen({ port: 0, host: '127.0.0.1' });
  stops.push(async () => server[Symbol.asyncDispose]());
  const origin = `http://127.0.0.1:${port}`;
  return { server, origin, port, client: createTestClient(origin, routes) };
}

describe('paths', () => {
  test('a static segment is tried before a parameter, whatever the order of the routes', async () => {
    const { client } = await start([
      get('/application/{name}', ({ params }) => ({ name: params.name })),
      get('/application/system', () => ({ system: true })),
    ]);
    expect((await client.get('/application/system')).body).toEqual({ system: true });
    expect((await client.get('/application/other')).body).toEqual({ name: 'other' });
  });

  test('a method that the static path does not have is served by the route with a parameter', async () => {
    const { client } = await start([
      route({ ...base, method: 'POST', path: '/application/yaml', operation: 'a', handler: () => ({}) }),
      get('/application/{name}', ({ params }) => ({ name: params.name })),
    ]);
    expect((await client.get('/application/yaml')).body).toEqual({ name: 'yaml' });
  });

  test('both spellings of a path work, with and without a trailing slash, in one letter case only', async () => {
    const { client } = await start([get('/node/{uuid}', ({ params }) => params), get('/node-list', () => ({}))]);
    for (const path of ['/node/a', '/iofog/a', '/node/a/', '/iofog-list', '/node-list/'])
      expect((await client.get(path)).status).toBe(200);
    expect((await client.get('/Node/a')).status).toBe(404);
  });

  test('an unknown path gets 404 and a known path with another method 405 with Allow, both with an error body', async () => {
    const { client, origin } = await start([echo, get('/echo/{id}', () => ({}))]);
    expect(await client.get('/nothing')).toMatchObject({ status: 404, body: { code: 'ROUTE_NOT_FOUND' } });
    const refused = await client.delete('/echo');
    expect(refused).toMatchObject({ status: 405, body: { name: 'MethodNotAllowedError' } });
    expect(refused.headers.get('allow')).toBe('POST');
    const options = await fetch(`${origin}/api/v3/echo/1`, { method: 'OPTIONS' });
    expect([options.status, options.headers.get('allow')]).toEqual([204, 'GET']);
    expect((await fetch(`${origin}/elsewhere`)).status).toBe(404);
  });

  test('a path with an invalid encoding gets 400', async () => {
    const { client } = await start([get('/node/{uuid}', () => ({}))]);
    expect((await client.get('/node/%ff')).status).toBe(400);
  });

  test('HEAD is served when GET only reads, and gets 405 when GET creates something', async () => {
    const { origin } = await start([
      get('/a', () => ({})),
      route({
        ...base,
        method: 'GET',
        path: '/key',
        operation: 'key',
        reply: { status: 201 },
        handler: () => undefined,
      }),
    ]);
    expect((await fetch(`${origin}/api/v3/a`, { method: 'HEAD' })).status).toBe(200);
    expect((await fetch(`${origin}/api/v3/key`, { method: 'HEAD' })).status).toBe(405);
  });
});

describe('headers', () => {
  test('a valid request id is echoed, any other is replaced', async () => {
    const { client } = await start([get('/a', () => ({}))]);
    expect((await client.get('/a', { headers: { 'request-id': 'mine-1' } })).headers.get('request-id')).toBe('mine-1');
    const made = (await client.get('/a', { headers: { 'request-id': 'a b<script>' } })).headers.get('request-id');
    expect(made).toMatch(/^[0-9a-f-]{36}$/);
  });

  test('no header of a response names the software, and cache-control is no-store', async () => {
    const { client } = await start([get('/a', () => ({}))]);
    const { headers } = await client.get('/a');
    expect(headers.get('x-powered-by')).toBeNull();
    expect(headers.get('etag')).toBeNull();
    expect(headers.get('cache-control')).toBe('no-store');
  });
});

describe('bodies', () => {
  const post = async (raw: string | Uint8Array, type: string | undefined, options = {}) => {
    const { client } = await start([echo], options);
    return client.post('/echo', { raw, headers: type === undefined ? {} : { 'content-type': type } });
  };

  test.each([
    ['an object', '{"a":1}', { a: 1 }],
    ['text', '"a"', 'a'],
    ['a list', '[1]', [1]],
  ])('%s is accepted as a JSON body', async (_, raw, body) => {
    expect((await post(raw, 'application/json; charset=utf-8')).body).toEqual({ body });
  });

  test('a member __proto__ is dropped, however it is escaped', async () => {
    for (const raw of ['{"a":{"__proto__":{"x":1}}}', '{"a":{"\\u005f_proto__":{"x":1}}}']) {
      const { body } = await post(raw, 'application/json');
      expect(body).toEqual({ body: { a: {} } });
    }
  });

  test.each([
    ['malformed JSON', '{"a":', 'application/json', 400, 'MALFORMED_JSON'],
    ['nested too deeply', '['.repeat(65) + ']'.repeat(65), 'application/json', 400, 'VALIDATION_ERROR'],
    ['nested very deeply', '['.repeat(500_000), 'application/json', 400, 'VALIDATION_ERROR'],
    ['beyond the limit of elements', `[${'{},'.repeat(200_000)}{}]`, 'application/json', 400, 'VALIDATION_ERROR'],
    ['of another type', 'a=1', 'application/x-www-form-urlencoded', 415, 'UNSUPPORTED_MEDIA_TYPE'],
    ['too large', `"${'a'.repeat(1024 * 1024)}"`, 'application/json', 413, 'PAYLOAD_TOO_LARGE'],
    ['absent', '', 'application/json', 400, 'VALIDATION_ERROR'],
  ])('a body that is %s is refused', async (_, raw, type, status, code) => {
    expect(await post(raw, type)).toMatchObject({ status, body: { code } });
  });

  test('a body that is refused for its length does not count against the byte budget', async () => {
    const room = { bytes: 4_000, messages: 10 };
    const limits = { bodyBytes: 1_000, receiving: { all: room, caller: room } };
    expect((await post('x'.repeat(10_000), 'application/json', { limits })).status).toBe(413);
  });

  test('a body that is not UTF-8, or compressed, is refused', async () => {
    expect((await post(new Uint8Array([0x22, 0xff, 0x22]), 'application/json')).status).toBe(400);
    const { client } = await start([echo]);
    const headers = { 'content-type': 'application/json', 'content-encoding': 'gzip' };
    expect((await client.post('/echo', { raw: '{}', headers })).status).toBe(415);
  });

  const sendChunks = (port: number, count: number, end = '') =>
    new Promise<string>((resolve, reject) => {
      const socket = connect(port, '127.0.0.1');
      let text = '';
      socket.on('data', (chunk) => (text += chunk));
      socket.on('close', () => resolve(text));
      socket.on('error', reject);
      const head = 'POST /api/v3/echo HTTP/1.1\r\nhost: a\r\ncontent-type: application/json';
      socket.write(`${head}\r\ntransfer-encoding: chunked\r\n\r\n`);
      for (let i = 0; i < count; i++) socket.write(`190\r\n${'x'.repeat(0x190)}\r\n`);
      socket.write(end);
    });

  test('a chunked body beyond the limit gets 413, then the connection is closed', async () => {
    const { port } = await start([echo], { limits: { bodyBytes: 1000 } });
    expect(await sendChunks(port, 3, '0\r\n\r\n')).toMatch(/^HTTP\/1\.1 413 [\s\S]*connection: close/i);
  });

  test('the connection of a chunked body without an end is closed', async () => {
    const { port } = await start([echo], { limits: { bodyBytes: 1000 } });
    await sendChunks(port, 60).catch(() => {});
  });

  test('a file may be the one part of a form or the whole body', async () => {
    const { client } = await start([file]);
    expect((await client.post('/file', { form: { part: 'thing', text: 'a: 1' } })).body).toEqual({
      document: { a: 1 },
    });
    expect((await client.post('/file', { yaml: 'b: 2' })).body).toEqual({ document: { b: 2 } });
  });

  test('a form with another part, no part, several parts or a part that is too large is refused', async () => {
    const { client, origin } = await start([file], { limits: { bodyBytes: 1000 } });
    expect((await client.post('/file', { form: { part: 'other', text: 'a' } })).body.code).toBe('FILE_NOT_FOUND');
    expect((await client.post('/file')).body.code).toBe('FILE_NOT_FOUND');
    expect((await client.post('/file', { form: { part: 'thing', text: 'a'.repeat(1001) } })).status).toBe(413);
    expect((await client.post('/file', { raw: 'x', headers: { 'content-type': 'multipart/form-data' } })).status).toBe(
      400,
    );
    const data = new FormData();
    data.append('thing', new Blob(['a']), 'a.yaml');
    data.append('thing', new Blob(['b']), 'b.yaml');
    expect((await fetch(`${origin}/api/v3/file`, { method: 'POST', body: data })).status).toBe(400);
    const text = new FormData();
    text.append('thing', 'a');
    expect((await fetch(`${origin}/api/v3/file`, { method: 'POST', body: text })).status).toBe(400);
    const cut = '--b\r\ncontent-disposition: form-data; name="thing"; filename="a"\r\n\r\nabc';
    const headers = { 'content-type': 'multipart/form-data; boundary=b' };
    expect((await client.post('/file', { raw: cut, headers })).status).toBe(400);
  });

  test('a form that ends in the middle of a part that is not wanted is 400, and the process goes on', async () => {
    const { client } = await start([file]);
    const headers = { 'content-type': 'multipart/form-data; boundary=b' };
    const part = (name: string) => `--b\r\ncontent-disposition: form-data; name="${name}"; filename="a"\r\n\r\nabc`;
    for (const raw of [part('other'), `${part('thing')}\r\n${part('thing')}`])
      expect((await client.post('/file', { raw, headers })).status).toBe(400);
    expect((await client.post('/file', { form: { part: 'thing', text: 'a: 1' } })).body).toEqual({
      document: { a: 1 },
    });
  });
});

describe('input and output', () => {
  test('parameters, query and body are parsed; the error names the path of the first violation', async () => {
    const { client } = await start([
      route({
        ...base,
        method: 'POST',
        path: '/sum/{a}',
        operation: 'sum',
        params: z.object({ a: z.coerce.number().int() }),
        query: z.object({ b: z.coerce.number().int().optional() }),
        body: { kind: 'json', schema: z.object({ list: z.array(z.object({ c: z.number() })) }) },
        handler: ({ params, query, body }) => ({ sum: params.a + (query.b ?? 0) + (body.list[0]?.c ?? 0) }),
      }),
    ]);
    expect((await client.post('/sum/1?b=2', { json: { list: [{ c: 3 }] } })).body).toEqual({ sum: 6 });
    const refused = await client.post('/sum/1', { json: { list: [{ c: 'x' }, {}] } });
    expect(refused).toMatchObject({ status: 400, body: { name: 'ValidationError', code: 'VALIDATION_ERROR' } });
    expect(refused.body.message).toMatch(/^list\[0\]\.c: /);
    expect((await client.post('/sum/x', { json: { list: [] } })).status).toBe(400);
  });

  test('a reply that does not match its schema becomes 500 and does not reach the client', async () => {
    const broken = route({
      ...base,
      method: 'GET',
      path: '/a',
      operation: 'a',
      reply: { status: 200, schema: z.object({ a: z.string() }) },
      handler: () => ({ a: 1 }) as never,
    });
    const { client } = await start([broken]);
    expect(await client.get('/a')).toMatchObject({ status: 500, body: { code: 'INTERNAL_ERROR' } });
  });
});

describe('failures', () => {
  test('the body of a 500 contains nothing of the cause', async () => {
    const { client } = await start([
      thing(() => {
        throw new TypeError('secret /etc/passwd at line 3');
      }),
    ]);
    const { status, body } = await client.get('/thing');
    expect(status).toBe(500);
    expect(JSON.stringify(body)).not.toMatch(/secret|passwd|stack/);
  });

  test('headers and members of an error reach the client', async () => {
    const { client } = await start([
      thing(() => {
        throw unavailable('later', undefined, 7);
      }),
    ]);
    const { status, headers } = await client.get('/thing');
    expect([status, headers.get('retry-after')]).toEqual([503, '7']);
  });

  test('a handler that takes too long is aborted, and the client gets 503', async () => {
    let aborted = false;
    const slow = route({
      ...base,
      method: 'GET',
      path: '/thing',
      operation: 'slow',
      handler: ({ signal }) => {
        signal.addEventListener('abort', () => (aborted = true));
        return new Promise<Json>(() => {});
      },
    });
    const { client } = await start([slow], { limits: { requestMs: 50 } });
    expect((await client.get('/thing')).status).toBe(503);
    expect(aborted).toBe(true);
  });
});

describe('access', () => {
  const routes = [
    route({
      ...base,
      method: 'GET',
      path: '/a',
      operation: 'a',
      access: 'authenticated',
      handler: ({ caller }) => ({ name: caller.identity?.name }),
    }),
    route({
      ...base,
      method: 'DELETE',
      path: '/b/{name}',
      operation: 'b',
      access: { resource: 'edgenodes', verb: 'delete', name: 'name' },
      handler: () => ({}),
    }),
  ];

  test('a request without a valid token gets 401, without the permission 403, with an error body', async () => {
    const { client } = await start(routes);
    const none = await client.get('/a');
    expect(none).toMatchObject({ status: 401, body: { name: 'AuthenticationError' } });
    expect(none.headers.get('www-authenticate')).toMatch(/^Bearer/);
    for (const authorization of ['Basic abc', 'Bearer', 'Bearer a b', 'Bearer nobody'])
      expect((await client.get('/a', { headers: { authorization } })).status).toBe(401);
    expect((await client.as('viewer').get('/a')).body).toEqual({ name: 'viewer' });
    expect(await client.as('viewer').delete('/b/x')).toMatchObject({
      status: 403,
      body: { name: 'ForbiddenError', error: 'Forbidden', code: 'FORBIDDEN' },
    });
    expect((await client.as('sre').delete('/b/x')).status).toBe(200);
  });

  test('permissions are checked before the body is read', async () => {
    const { client } = await start([
      route({
        ...base,
        method: 'POST',
        path: '/a',
        operation: 'a',
        access: 'authenticated',
        body: { kind: 'json', schema: z.unknown() },
        handler: () => ({}),
      }),
    ]);
    expect((await client.post('/a', { raw: '{', headers: { 'content-type': 'application/json' } })).status).toBe(401);
  });

  test('a failed access check gets 503, never 200 or 401', async () => {
    const fail = async () => {
      throw unavailable('access cannot be checked now');
    };
    const authorizer = { allowed: fail };
    const { client } = await start(routes, { overrides: { authorizer } });
    expect((await client.as('admin').delete('/b/x')).status).toBe(503);
    const other = await start(routes, { overrides: { authenticator: { authenticate: fail } } });
    expect((await other.client.as('admin').get('/a')).status).toBe(503);
  });

  test('a permission for one name suffices for that name', async () => {
    const authorizer = { allowed: async (_: unknown, { name }: { name?: string }) => name === 'x' };
    const { client } = await start(routes, { overrides: { authorizer } });
    expect((await client.as('viewer').delete('/b/x')).status).toBe(200);
    expect((await client.as('viewer').delete('/b/y')).status).toBe(403);
  });
});

describe('the listener', () => {
  test('a first handler serves its own paths, with the headers of every response', async () => {
    const { server, origin } = await start([get('/a', () => ({}))]);
    server.mountFirst((request, response) => {
      if (!request.url?.startsWith('/api/v3/agent')) return false;
      response.end('agent');
      return true;
    });
    const answer = await fetch(`${origin}/api/v3/agent/x`);
    expect(await answer.text()).toBe('agent');
    expect(answer.headers.get('x-timestamp')).toMatch(/^\d{13}$/);
    expect((await fetch(`${origin}/api/v3/a`)).status).toBe(200);
  });

  test('malformed HTTP and oversized headers are refused with an error body', async () => {
    const { port } = await start([get('/a', () => ({}))]);
    const talk = (text: string) =>
      new Promise<string>((resolve) => {
        const socket = connect(port, '127.0.0.1', () => socket.write(text));
        let answer = '';
        socket.on('data', (chunk) => (answer += chunk));
        socket.on('close', () => resolve(answer));
      });
    expect(await talk('nonsense\r\n\r\n')).toMatch(/^HTTP\/1\.1 400 [\s\S]*"code":"MALFORMED_REQUEST"/);
    expect(await talk(`GET / HTTP/1.1\r\nhost: a\r\nx: ${'a'.repeat(40_000)}\r\n\r\n`)).toMatch(/^HTTP\/1\.1 431 /);
  });

  test('a client that sent malformed HTTP and keeps its connection open is disconnected', async () => {
    const { server, port } = await start([get('/a', () => ({}))]);
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true }, () => socket.write('nonsense\r\n\r\n'));
    socket.resume();
    await new Promise((resolve) => socket.once('end', resolve));
    const connections = () => promisify(server.http.getConnections.bind(server.http))();
    await expect.poll(connections, { timeout: 20_000 }).toBe(0);
    socket.destroy();
  });

  test('a drained listener completes active requests and then accepts no connection', async () => {
    let release = () => {};
    const gate = new Promise<void>((resolve) => (release = resolve));
    const { server, client, origin } = await start([thing(() => gate.then(() => ({ done: true })))]);
    const pending = client.get('/thing');
    await new Promise((resolve) => setTimeout(resolve, 50));
    const drained = server.drain(5_000);
    release();
    expect((await pending).body).toEqual({ done: true });
    await drained;
    await expect(fetch(`${origin}/api/v3/thing`)).rejects.toThrow();
  });
});

test('an error body has the name of its class', () => {
  expect(new HttpError(409, 'CONFLICT', 'x').name).toBe('ConflictError');
});

test('the message of a schema violation has the value and the rule', async () => {
  const command = route({
    ...base,
    method: 'POST',
    path: '/do/{what}',
    operation: 'do',
    params: z.object({ what: z.enum(['upgrade', 'rollback']) }),
    body: { kind: 'json', schema: z.object({ times: z.number().max(3) }) },
    errors: [400],
    handler: () => ({}),
  });
  const { client } = await start([command]);
  expect((await client.post('/do/sideways', { json: { times: 1 } })).body.message).toBe(
    'what: "sideways" is not valid: must be one of upgrade, rollback',
  );
  expect((await client.post('/do/upgrade', { json: { times: 4 } })).body.message).toBe(
    'times: 4 is not valid: must be at most 3',
  );
  expect((await client.post('/do/upgrade', { json: {} })).body.message).toBe('times: is required');
});

test.each([
  [200, 'info'],
  [409, 'info'],
  [429, 'debug'],
] as const)(
  'a request that changes something has a line of the log; with status %i at level %s',
  async (status, level) => {
    const lines: string[] = [];
    const line = (of: string) => (_fields: object, message: string) => void lines.push(`${of} ${message}`);
    const log = {
      debug: line('debug'),
      info: line('info'),
      warn: line('warn'),
      error: line('error'),
      child: () => log,
    };
    const post = route({
      ...base,
      method: 'POST',
      path: '/try',
      operation: 'try',
      errors: [409, 429],
      handler: () => {
        if (status === 200) return {};
        throw new HttpError(status, status === 409 ? 'CONFLICT' : 'TOO_MANY_REQUESTS', 'no');
      },
    });
    const { client } = await start([post], { log });
    expect((await client.post('/try')).status).toBe(status);
    await expect.poll(() => lines).toContain(`${level} Request`);
    expect(lines).toHaveLength(1);
  },
);
