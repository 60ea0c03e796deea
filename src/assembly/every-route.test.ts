import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { describe, expect, test } from 'vitest';
import type { TestClient } from '../rest/_client.ts';
import { createMemoryDependencies } from '../rest/_memory.ts';
import { permits } from '../rest/_rules.ts';
import { serveInMemory } from '../rest/_server.ts';
import { ROLE_NAMES, rulesOf } from '../rest/access/roles.ts';
import { type AnyRoute, spellings } from '../rest/contract/route.ts';
import { createRest } from './rest.ts';
import { routes } from './routes.ts';

const client = await serveInMemory();

const PARAMS: Record<string, string> = { id: '7', internalPort: '80', versionCommand: 'upgrade' };
const pathOf = (path: string) => path.replaceAll(/\{(\w+)\}/g, (_, name) => PARAMS[name] ?? 'some-name');
const guarded = routes.filter((route) => route.access !== 'public');
const call = (as: TestClient, route: AnyRoute, path = route.path) => as.request(route.method, pathOf(path));

describe('every route', () => {
  test('that needs a token responds 401 without one', async () => {
    for (const route of guarded) expect((await call(client, route)).status, route.operation).toBe(401);
  });

  test.each(ROLE_NAMES)(
    'responds 403 to a %s exactly when its role lacks the permission, in all spellings',
    async (role) => {
      const as = client.as(role);
      for (const route of guarded) {
        const { access } = route;
        const name = typeof access === 'object' && access.name ? { name: 'some-name' } : {};
        const allowed = typeof access !== 'object' || permits(rulesOf(role), { ...access, ...name });
        for (const path of spellings(route.path)) {
          const { status } = await call(as, route, path);
          expect(status === 403, `${role} ${route.method} ${path}: ${status}`).toBe(!allowed);
          expect([401, 500], `${role} ${route.method} ${path}`).not.toContain(status);
        }
      }
    },
  );
});

test('a client that offers another protocol than WebSocket gets its response over HTTP/1.1', async () => {
  await using own = createRest({ deps: createMemoryDependencies() });
  own.http.on('upgrade', (_request, socket) => socket.destroy());
  const { port } = await own.listen({ port: 0, host: '127.0.0.1' });
  const headers = { connection: 'Upgrade, HTTP2-Settings', upgrade: 'h2c', 'http2-settings': 'AAMAAABkAAQCAAAA' };
  const [response] = (await once(get({ port, path: '/api/v3/status', headers }), 'response')) as [IncomingMessage];
  response.resume();
  expect(response.statusCode).toBe(200);
});
