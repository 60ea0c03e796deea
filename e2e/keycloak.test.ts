import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { findTools } from '../hack/binaries.ts';
import { startControlPlane } from '../hack/control-plane.ts';
import { KEYCLOAK_CLIENT, KEYCLOAK_USER, startKeycloak } from '../hack/keycloak.ts';
import { ROOT } from '../hack/paths.ts';
import { freePort } from '../hack/ports.ts';
import { atEnd } from '../testing/at-end.ts';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import { follow, openBrowser, placeOf } from './_browser.ts';
import { createStack, until } from './_stack.ts';

/** Keycloak as the provider of the users, set up as the page says: at the controller, and at an API server. In the night alone. */
const isNightly = process.env.SKERRY_NIGHTLY !== undefined;
const { email, password, username } = KEYCLOAK_USER;

async function start() {
  const dir = temporaryFolder();
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const keycloak = await startKeycloak({ dir, redirectUris: [`${url}/api/v3/user/oauth/callback`] });
  atEnd(() => keycloak[Symbol.asyncDispose]());
  setDefaultCACertificates([...getCACertificates('default'), readFileSync(keycloak.caFile, 'utf8')]);
  const stack = await createStack();
  await stack.startController({
    env: {
      AUTH_MODE: 'external',
      OIDC_ISSUER_URL: keycloak.issuer,
      OIDC_CLIENT_ID: KEYCLOAK_CLIENT.clientId,
      OIDC_CLIENT_SECRET: KEYCLOAK_CLIENT.clientSecret,
      SKERRY_OIDC_CA_FILE: keycloak.caFile,
      CONTROLLER_PUBLIC_URL: url,
      SERVER_PORT: String(port),
    },
  });
  return { dir, url, keycloak };
}

describe.skipIf(!isNightly)(
  'Keycloak',
  async () => {
    const { dir, url, keycloak } = isNightly ? await start() : ({} as Awaited<ReturnType<typeof start>>);

    async function ask(method: string, path: string, { token, body }: { token?: string; body?: object } = {}) {
      const headers = { 'content-type': 'application/json', ...(token && { authorization: `Bearer ${token}` }) };
      const response = await fetch(`${url}/api/v3${path}`, {
        method,
        headers,
        ...(body && { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      return { status: response.status, body: (text ? JSON.parse(text) : {}) as Record<string, string> };
    }
    const logIn = async () => {
      const { status, body } = await ask('POST', '/user/login', { body: { email, password } });
      expect([status, body.message]).toEqual([200, undefined]);
      return { accessToken: body.accessToken ?? '', refreshToken: body.refreshToken ?? '' };
    };

    test('logs a person in with a password, whose group has its role', async () => {
      const { accessToken: token, refreshToken } = await logIn();
      expect((await ask('GET', '/user/profile', { token })).body).toMatchObject({
        preferred_username: username,
        email,
      });
      expect((await ask('GET', '/iofog-list', { token })).status).toBe(200);
      expect(await ask('POST', '/user/login', { body: { email, password: 'wrong' } })).toMatchObject({
        status: 401,
        body: { code: 'INVALID_CREDENTIALS' },
      });
      const next = await ask('POST', '/user/refresh', { body: { refreshToken } });
      expect(next.status).toBe(200);
      for (const other of [refreshToken, next.body.refreshToken])
        expect((await ask('GET', '/iofog-list', { token: other ?? '' })).status).toBe(401);
    });

    test('ends a login by a logout', async () => {
      const { accessToken: token, refreshToken } = await logIn();
      expect((await ask('POST', '/user/logout', { token, body: { refreshToken } })).status).toBe(204);
      expect((await ask('POST', '/user/refresh', { body: { refreshToken } })).status).toBe(401);
    });

    test('logs a person in with the browser, by its own page', async () => {
      const browser = openBrowser();
      const begun = await browser(`${url}/api/v3/user/oauth/authorize`);
      const page = await (await browser(placeOf(begun))).text();
      const action = /action="([^"]+)"/.exec(page)?.[1]?.replaceAll('&amp;', '&') ?? '';
      const form = new URLSearchParams({ username, password, credentialId: '' });
      const answer = await browser(action, { method: 'POST', body: form });
      const callback = placeOf(answer);
      const end = new URL(await follow(browser, callback, ({ pathname }) => pathname === '/login'));
      const token = new URLSearchParams(end.hash.slice(1)).get('accessToken') ?? '';
      expect((await ask('GET', '/user/profile', { token })).body).toMatchObject({ preferred_username: username });
    });

    test('is known to an API server by the configuration that the plugin prints', async () => {
      const plugin = [join(ROOT, 'bin/kubectl-skerry.cjs'), 'authentication-config', keycloak.issuer];
      const flags = ['--external', '--client', KEYCLOAK_CLIENT.clientId, '--ca', keycloak.caFile];
      const run = promisify(execFile);
      const file = join(dir, 'authentication.yaml');
      writeFileSync(file, (await run(process.execPath, [...plugin, ...flags])).stdout);
      const cluster = await startControlPlane({
        dir: join(dir, 'cluster'),
        controllerManager: false,
        apiServerFlags: ['--authentication-config', file],
      });
      atEnd(() => cluster.stop());
      const { kubectl } = await findTools(['kubectl']);
      const server = ['--kubeconfig', '/dev/null', '--server', cluster.url, '--certificate-authority', cluster.caFile];
      const whoIs = async (token: string) => {
        const { stdout } = await run(kubectl, [...server, '--token', token, 'auth', 'whoami', '-o', 'json']);
        return JSON.parse(stdout).status.userInfo;
      };
      const { accessToken, refreshToken } = await logIn();
      const known = await until('the API server to know Keycloak', () => whoIs(accessToken));
      expect(known).toMatchObject({ username: `skerry:${username}`, groups: ['skerry:sre', 'system:authenticated'] });
      await expect(whoIs(refreshToken)).rejects.toThrow('Unauthorized');
    });
  },
  600_000,
);
