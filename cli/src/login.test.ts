import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { createServer, get } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import type { KubeClient } from '../../src/kube/mod.ts';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { createPlugin } from './_plugin.ts';

/** Logins of kubectl, with a real server that answers as the controller does. */

let home: string;
let origin: string;
let requests: { path: string; body: Record<string, string>; token: string | undefined }[];
let answer: (
  path: string,
  body: Record<string, string>,
) => { status: number; body?: object } | Promise<{ status: number; body?: object }>;

const tokenFor = (seconds: number, more: object = {}) =>
  `e30.${Buffer.from(JSON.stringify({ exp: Math.floor(Date.now() / 1000) + seconds, ...more })).toString('base64url')}.AA`;

beforeEach(async () => {
  home = temporaryFolder();
  requests = [];
  const server = createServer(async (request, response) => {
    let text = '';
    for await (const chunk of request) text += String(chunk);
    const body = JSON.parse(text || '{}');
    const path = (request.url ?? '').replace('/api/v3', '');
    requests.push({ path, body, token: request.headers.authorization });
    const { status, body: sent } = await answer(path, body);
    response.writeHead(status, { 'content-type': 'application/json' }).end(sent && JSON.stringify(sent));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return () => {
    server.closeAllConnections();
    server.close();
  };
});

const run = (args: string[], options: { input?: string; wrote?: (text: string) => void } = {}) =>
  createPlugin({} as KubeClient, 'skerry', { env: { HOME: home, SKERRY_CONTROLLER: origin }, ...options })(...args);
const folder = () => join(home, '.kube', 'skerry');
const fileOfTokens = () => join(folder(), readdirSync(folder()).find((name) => name.endsWith('.json')) ?? '');
const logIn = async (accessToken: string, refreshToken = 'r-1') => {
  answer = () => ({ status: 200, body: { accessToken, refreshToken } });
  expect(await run(['login', '--user', 'ann', '--no-kubeconfig'], { input: 'pw\n' })).toMatchObject({ code: 0 });
  requests = [];
};

describe('a login with a password', () => {
  test('keeps the tokens in a file for its user alone', async () => {
    await logIn(tokenFor(900));
    expect(statSync(fileOfTokens()).mode & 0o777).toBe(0o600);
    expect(statSync(folder()).mode & 0o777).toBe(0o700);
    expect(JSON.parse(readFileSync(fileOfTokens(), 'utf8'))).toMatchObject({ controller: origin, refreshToken: 'r-1' });
  });

  test('asks for the code of the second factor when the controller does', async () => {
    answer = (_, { totp }) =>
      totp === '123456'
        ? { status: 200, body: { accessToken: tokenFor(900), refreshToken: 'r' } }
        : { status: 401, body: { code: 'MFA_CODE_REQUIRED', message: 'send a code' } };
    const ran = await run(['login', '--user', 'ann', '--no-kubeconfig'], { input: 'pw\n123456\n' });
    expect(ran).toMatchObject({ code: 0 });
    expect(requests.map(({ body }) => body)).toEqual([
      { email: 'ann', password: 'pw' },
      { email: 'ann', password: 'pw', totp: '123456' },
    ]);
  });

  test('says why it is refused, and keeps nothing then', async () => {
    answer = () => ({ status: 401, body: { code: 'INVALID_CREDENTIALS', message: 'not these' } });
    const ran = await run(['login', '--user', 'ann'], { input: 'pass-word\n' });
    expect(ran).toMatchObject({ code: 1, err: expect.stringContaining('not these') });
    expect(`${ran.out}${ran.err}`).not.toContain('pass-word');
  });

  test('goes to no other machine over http', async () => {
    const ran = await run(['login', '--user', 'ann', '--controller', 'http://skerry.example:51121'], { input: 'pw\n' });
    expect(ran).toMatchObject({ code: 1, err: expect.stringContaining('a login needs https://') });
  });

  test('writes a user and a context into the kubeconfig, and leaves the others', async () => {
    const path = join(home, 'config');
    writeFileSync(
      path,
      '# mine\napiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: k, cluster: {server: https://k}}]\ncontexts:\n  - {name: c, context: {cluster: k, user: u, namespace: edge}}\nusers:\n  - {name: u, user: {token: secret}}\n',
    );
    answer = () => ({ status: 200, body: { accessToken: tokenFor(900) } });
    for (const _ of [1, 2])
      expect(await run(['login', '--user', 'ann', '--kubeconfig', path], { input: 'pw\n' })).toMatchObject({ code: 0 });
    const text = readFileSync(path, 'utf8');
    expect(text).toContain('# mine');
    expect(parse(text)).toMatchObject({
      'current-context': 'c',
      contexts: [{ name: 'c' }, { name: 'skerry', context: { cluster: 'k', user: 'skerry', namespace: 'edge' } }],
      users: [
        { name: 'u', user: { token: 'secret' } },
        {
          name: 'skerry',
          user: {
            exec: { command: 'kubectl-skerry', args: ['credential', '--controller', origin], interactiveMode: 'Never' },
          },
        },
      ],
    });
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });
});

test('a login in the browser redeems the code that comes to its port, with the verifier of its challenge', async () => {
  answer = () => ({ status: 200, body: { accessToken: tokenFor(900), refreshToken: 'r' } });
  let shown = '';
  let hasCome = false;
  const ran = await run(['login', '--no-browser', '--no-kubeconfig'], {
    wrote(text) {
      shown += text;
      const port = /loopback_port=(\d+)/.exec(shown)?.[1];
      if (!port || hasCome) return;
      hasCome = true;
      get(`http://127.0.0.1:${port}/favicon.ico`, (other) => {
        expect(other.statusCode).toBe(404);
        other.resume();
        get(`http://127.0.0.1:${port}/?code=sealed`, (response) => response.resume());
      });
    },
  });
  expect(ran).toMatchObject({ code: 0 });
  const { path, body = {} } = requests[0] ?? {};
  expect(path).toBe('/user/login');
  const challenge = createHash('sha256').update(String(body.codeVerifier)).digest('base64url');
  expect(body.code).toBe('sealed');
  expect(shown).toContain(`code_challenge=${challenge}`);
  expect(shown).not.toContain(String(body.codeVerifier));
});

describe('the credential of kubectl', () => {
  const credential = async () => JSON.parse((await run(['credential'])).out);

  test('is the token of the login, with its end', async () => {
    const token = tokenFor(900);
    await logIn(token);
    expect(await credential()).toMatchObject({
      apiVersion: 'client.authentication.k8s.io/v1',
      kind: 'ExecCredential',
      status: { token, expirationTimestamp: expect.stringMatching(/Z$/) },
    });
    expect(requests).toEqual([]);
  });

  test('is renewed once by twenty that ask at once, and all get the new one', async () => {
    await logIn(tokenFor(5));
    const next = tokenFor(900);
    let isRunning = false;
    answer = async () => {
      expect(isRunning).toBe(false);
      isRunning = true;
      await new Promise((resolve) => setTimeout(resolve, 50));
      isRunning = false;
      return { status: 200, body: { accessToken: next, refreshToken: 'r-2' } };
    };
    const all = await Promise.all(Array.from({ length: 20 }, credential));
    expect(all.map(({ status }) => status.token)).toEqual(Array.from({ length: 20 }, () => next));
    expect(requests.map(({ path, body }) => [path, body.refreshToken])).toEqual([['/user/refresh', 'r-1']]);
    expect(readdirSync(folder()).filter((name) => !name.endsWith('.json'))).toEqual([]);
    expect(JSON.parse(readFileSync(fileOfTokens(), 'utf8'))).toMatchObject({ refreshToken: 'r-2' });
  });

  test('passes a lock that a process left', async () => {
    await logIn(tokenFor(5));
    const lock = `${fileOfTokens()}.lock`;
    writeFileSync(lock, '999999999 left');
    answer = () => ({ status: 200, body: { accessToken: tokenFor(900), refreshToken: 'r-2' } });
    expect((await run(['credential'])).code).toBe(0);
    await logIn(tokenFor(5));
    writeFileSync(lock, `${process.pid} old`);
    utimesSync(lock, new Date(Date.now() - 40_000), new Date(Date.now() - 40_000));
    answer = () => ({ status: 200, body: { accessToken: tokenFor(900), refreshToken: 'r-2' } });
    expect((await run(['credential'])).code).toBe(0);
  });

  test('ends with the login, and says how to begin another', async () => {
    await logIn(tokenFor(5));
    answer = () => ({ status: 401, body: { code: 'INVALID_REFRESH_TOKEN', message: 'no' } });
    expect(await run(['credential'])).toMatchObject({
      code: 1,
      err: expect.stringContaining('kubectl skerry login --controller'),
    });
    expect(await run(['credential'])).toMatchObject({ code: 1, err: expect.stringContaining('nobody is logged in') });
  });

  test('keeps the login while the controller is away', async () => {
    await logIn(tokenFor(5));
    answer = () => ({ status: 503, body: { message: 'later' } });
    expect(await run(['credential'])).toMatchObject({ code: 1, err: expect.stringContaining('later') });
    answer = () => ({ status: 200, body: { accessToken: tokenFor(900) } });
    expect((await run(['credential'])).code).toBe(0);
  });
});

test('a logout revokes both tokens and removes them', async () => {
  const token = tokenFor(900);
  await logIn(token);
  answer = () => ({ status: 204 });
  expect(await run(['logout'])).toMatchObject({ code: 0 });
  expect(requests).toEqual([{ path: '/user/logout', body: { refreshToken: 'r-1' }, token: `Bearer ${token}` }]);
  expect(readdirSync(folder())).toEqual([]);
  expect(await run(['logout'])).toMatchObject({ code: 0, out: expect.stringContaining('nobody is logged in') });
});
