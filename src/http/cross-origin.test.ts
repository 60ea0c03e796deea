import { createServer } from 'node:http';
import { beforeAll, describe, expect, test } from 'vitest';
import { atEnd } from '../../testing/at-end.ts';
import { routes } from '../assembly/routes.ts';
import { type CrossOriginOptions, createCrossOrigin } from './cross-origin.ts';

const OPTIONS = {
  publicUrl: 'https://plant.example/base',
  consoleUrl: 'https://console.example',
  hasConsoleClient: true,
};

async function serve(options: Partial<CrossOriginOptions> = {}) {
  const handle = createCrossOrigin({ ...OPTIONS, ...options });
  const server = createServer((request, response) => {
    if (!handle(request, response)) response.writeHead(418).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  atEnd(() => server.close());
  const { port } = server.address() as { port: number };
  return async (method: string, path: string, headers: Record<string, string>) => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, { method, headers });
    const sharing = [...response.headers].filter(([name]) => name.startsWith('access-control-'));
    return { status: response.status, vary: response.headers.get('vary'), ...Object.fromEntries(sharing) };
  };
}

const preflight = (origin: string) => ({
  origin,
  'access-control-request-method': 'POST',
  'access-control-request-headers': 'content-type',
});
const NOTHING = { status: 418, vary: null };
const WITH_COOKIES = [
  '/api/v3/user/interaction/u1',
  '/api/v3/user/interaction/u1/login',
  '/api/v3/user/interaction/u1/confirm-enroll',
  '/api/v3/user/interaction/u1/complete',
  '/api/v3/user/login',
];
/** Each is no step of an interaction and no login; the routes of agents are served elsewhere. */
const WITH_TOKENS = routes
  .map(({ path }) => `/api/v3${path.replaceAll(/\{[^}]+\}/g, 'x')}`)
  .filter((path) => !/^\/api\/v3\/(agent\/|user\/interaction\/|user\/login$)/.test(path));
const WITHOUT_COOKIES = [...new Set([...WITH_TOKENS, '/oidc/token'])];

describe('a script of the console', () => {
  let ask: Awaited<ReturnType<typeof serve>>;
  beforeAll(async () => {
    ask = await serve();
  });

  test.each([...WITH_COOKIES.map((path) => [path, true]), ...WITHOUT_COOKIES.map((path) => [path, false])] as const)(
    'may request %s, with cookies: %s',
    async (path, hasCookies) => {
      for (const prefix of ['', '/base']) {
        const credentials = hasCookies ? { 'access-control-allow-credentials': 'true' } : {};
        const shared = { vary: 'Origin', 'access-control-allow-origin': OPTIONS.consoleUrl, ...credentials };
        expect(await ask('OPTIONS', prefix + path, preflight(OPTIONS.consoleUrl))).toEqual({
          ...{ status: 204, ...shared },
          'access-control-allow-methods': expect.stringContaining('POST'),
          'access-control-allow-headers': 'Authorization, Content-Type, Request-Id',
          'access-control-max-age': '600',
        });
        expect(await ask('POST', prefix + path, { origin: OPTIONS.consoleUrl })).toEqual({
          ...{ status: 418, ...shared },
          'access-control-expose-headers': 'Retry-After, Request-Id, X-Timestamp',
        });
      }
    },
  );

  const OTHERS = [
    ...['/oidc/auth', '/oidc/me', '/oidc/jwks', '/oidc/revoke', '/oidc/session/end', '/oidc/token/x', '/login', '/'],
    ...['/oidc/.well-known/openid-configuration', '/api/v3/agent/provision', '/api/v3'],
    ...['/other/api/v3/user/login', '/base/base/api/v3/user/login', '/api/v2/nodes', '/metrics'],
  ];
  test('may request nothing else', async () => {
    for (const path of OTHERS) {
      expect([path, await ask('OPTIONS', path, preflight(OPTIONS.consoleUrl))]).toEqual([path, NOTHING]);
      expect([path, await ask('GET', path, { origin: OPTIONS.consoleUrl })]).toEqual([path, NOTHING]);
    }
  });

  test.each([
    'https://evil.example',
    'https://console.example.evil.example',
    'https://evil-console.example',
    'http://console.example',
    'https://console.example:8443',
    'https://console.example/',
    'HTTPS://CONSOLE.EXAMPLE',
    'null',
    '*',
  ])('is no script of %s, which may request nothing', async (origin) => {
    for (const path of [...WITH_COOKIES, ...WITHOUT_COOKIES]) {
      expect(await ask('OPTIONS', path, preflight(origin))).toEqual({ status: 418, vary: 'Origin' });
      const { status, vary, ...sharing } = await ask('POST', path, { origin });
      expect([path, status, sharing]).toEqual([path, path.includes('/interaction/') ? 403 : 418, {}]);
      expect(vary).toBe(status === 418 ? 'Origin' : null);
    }
  });

  test('takes the place of no script of the controller, and of no program', async () => {
    for (const path of WITH_COOKIES)
      for (const headers of [{ origin: 'https://plant.example' }, {}] as Record<string, string>[])
        expect(await ask('POST', path, headers)).toEqual({ status: 418, vary: 'Origin' });
  });

  test('redeems no code of the provider without a client of its own', async () => {
    const other = await serve({ hasConsoleClient: false });
    expect(await other('OPTIONS', '/oidc/token', preflight(OPTIONS.consoleUrl))).toEqual(NOTHING);
  });
});

test('a console of the same origin needs no header, and others take no step there either', async () => {
  const ask = await serve({ consoleUrl: 'https://plant.example/console' });
  const path = '/api/v3/user/interaction/u1/login';
  for (const method of ['POST', 'OPTIONS'])
    expect(await ask(method, path, preflight('https://plant.example'))).toEqual(NOTHING);
  expect(await ask('POST', path, { origin: 'https://evil.example' })).toMatchObject({ status: 403 });
});
