import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { cpSync, mkdirSync, readdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { describe, expect, test } from 'vitest';
import { bundle } from '../hack/build.ts';
import { ROOT } from '../hack/paths.ts';
import { freePort } from '../hack/ports.ts';
import type { StackFile } from '../hack/stack/files.ts';
import { atEnd } from '../testing/at-end.ts';
import { oneTimeCode } from '../testing/one-time-code.ts';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import { follow, isLoginPage, logInAt, openBrowser } from './_browser.ts';
import { until } from './_stack.ts';
import { shellOfReader, typeIdentityPage } from './_typed.ts';

/**
 * `TLS=1 make up` as typed: a real kubectl, whose user is a login at the controller, and an API server that has what
 * `kubectl skerry authentication-config` printed.
 */
const CLIENT_SECRET = 'client-secret-of-the-test-with-43-characters';
const PASSWORD = 'Correct-Horse-7';
const TEMPORARY = 'Temporary-Pass-1';
const ANN = 'ann@shore.example';

const dir = join(temporaryFolder(), 'stack');
const port = await freePort();
const url = `https://127.0.0.1:${port}`;
const stack = await up();
/** The plugin as it ships: from its sources it takes ten times as long to start. */
const plugin = join(dir, 'plugin');
renameSync((await bundle('kubectl-skerry', plugin)).path, join(plugin, 'kubectl-skerry'));
const configuration = join(dir, 'authentication.yaml');
const adminPassword = readFileSync(join(dir, 'admin'), 'utf8').trim();

/** Starts the local stack, which ends with this file. */
async function up(): Promise<StackFile> {
  const env = {
    ...process.env,
    ...{ TLS: '1', SAMPLE: '0', SKERRY_STACK: dir, SKERRY_PORT: String(port), OIDC_CLIENT_SECRET: CLIENT_SECRET },
  };
  const process_ = spawn(process.execPath, [join(ROOT, 'hack/up.ts')], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [process_.stdout, process_.stderr])
    stream.on('data', (text) => {
      output += text;
    });
  atEnd(() => endOf(process_));
  const file = join(dir, 'stack.json');
  return until(
    'the local stack to run',
    async () => {
      if (process_.exitCode !== null) throw new Error(`make up ended: ${output.slice(-2_000)}`);
      return output.includes('What runs:') && JSON.parse(readFileSync(file, 'utf8'));
    },
    { timeoutMs: 200_000 },
  );
}

async function endOf(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  child.kill('SIGTERM');
  await once(child, 'exit');
}

interface Ran {
  code: number;
  out: string;
  err: string;
}

/** A person at a shell of the machine, with a kubeconfig and a home of their own, and the Node that the plugin is made for. */
function personAt(name: string) {
  const home = join(dir, 'people', name);
  mkdirSync(home, { recursive: true });
  const kubeconfig = join(home, 'kubeconfig');
  cpSync(join(dir, 'kubeconfig'), kubeconfig);
  const run = (line: string, input = '') =>
    new Promise<Ran>((resolve) => {
      const env = { ...process.env, HOME: home };
      const typed = `. ${join(dir, 'env')}; export KUBECONFIG=${kubeconfig} PATH=${plugin}:${dirname(process.execPath)}:$PATH; ${line}`;
      const child = execFile('sh', ['-c', typed], { env }, (error, out, err) =>
        resolve({ code: typeof error?.code === 'number' ? error.code : error ? 1 : 0, out, err }),
      );
      child.stdin?.end(input);
    });
  const tokens = () => {
    const folder = join(home, '.kube/skerry');
    const [file = ''] = readdirSync(folder).filter((one) => one.endsWith('.json'));
    return { path: join(folder, file), ...JSON.parse(readFileSync(join(folder, file), 'utf8')) } as {
      path: string;
      accessToken: string;
      refreshToken: string;
    };
  };
  return { run, tokens };
}

const root = personAt('root');
const ann = personAt('ann');
const authorityOfApiServer = async () => {
  const { clusters } = JSON.parse((await root.run('kubectl config view --raw -o json')).out);
  return Buffer.from(clusters[0].cluster['certificate-authority-data'], 'base64').toString();
};
setDefaultCACertificates([
  ...getCACertificates('default'),
  readFileSync(stack.ca ?? '', 'utf8'),
  await authorityOfApiServer(),
]);

/** Who the API server says a bearer token is; the status where it is nobody. */
async function whoIs(token: string): Promise<{ username: string; groups: string[] } | number> {
  const response = await fetch(`${stack.apiserver}/apis/authentication.k8s.io/v1/selfsubjectreviews`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' }),
  });
  const { status } = (await response.json()) as { status: { userInfo: { username: string; groups: string[] } } };
  return response.status === 201 ? status.userInfo : response.status;
}

const asAdmin = async (method: string, path: string, body?: object) => {
  const token = readFileSync(join(dir, 'token'), 'utf8').trim();
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  const response = await fetch(`${url}/api/v3${path}`, {
    method,
    headers,
    ...(body && { body: JSON.stringify(body) }),
  });
  expect(response.ok, `${method} ${path}: ${response.status}`).toBe(true);
  return response.json();
};
const post = async (path: string, body: object, token?: string) => {
  const headers = { 'content-type': 'application/json', ...(token && { authorization: `Bearer ${token}` }) };
  const response = await fetch(`${url}/api/v3${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
  return { status: response.status, body: (await response.json()) as Record<string, string> };
};
const login = (name: string, more = '') => `kubectl skerry login --ca $CA --user ${name} ${more}`;

describe('kubectl by a login of the local stack', () => {
  test('is the administrator whose password is in its folder', async () => {
    expect(await root.run(login('admin'), `${adminPassword}\n`)).toMatchObject({ code: 0 });
    // An API server asks an issuer that it did not reach again after ten seconds.
    await until('the API server to know the issuer', async () => {
      const { code, err } = await root.run('kubectl --context skerry auth whoami');
      if (code !== 0) throw new Error(err);
      return true;
    });
    const { out } = await root.run('kubectl --context skerry auth whoami -o json');
    expect(JSON.parse(out).status.userInfo).toMatchObject({
      username: 'skerry:admin',
      groups: ['skerry:admin', 'system:authenticated'],
    });
    expect((await root.run('kubectl --context skerry get edgenodes')).out).toContain('local');
  });

  test('is nobody with a temporary password, and what the groups may with a password of its own', async () => {
    await asAdmin('POST', '/users', { email: ANN, password: TEMPORARY, groups: ['viewer'] });
    expect(await ann.run(login(ANN), `${TEMPORARY}\n`)).toMatchObject({ code: 0 });
    const get = () => ann.run('kubectl --context skerry get edgenodes');
    expect(await get()).toMatchObject({ code: 1, err: expect.stringContaining('must be logged in') });
    const { accessToken } = ann.tokens();
    expect(await whoIs(accessToken)).toBe(401);
    const change = { currentPassword: TEMPORARY, newPassword: PASSWORD };
    expect((await post('/user/change-password', change, accessToken)).status).toBe(200);

    expect(await ann.run(login(ANN), `${PASSWORD}\n`)).toMatchObject({ code: 0 });
    expect(await get()).toMatchObject({ code: 0, out: expect.stringContaining('local') });
    const may = async (what: string) => (await ann.run(`kubectl --context skerry auth can-i ${what}`)).out.trim();
    expect(await may('list applications')).toBe('yes');
    expect(await may('create applications')).toBe('no');
    expect(await may('get secrets')).toBe('no');
    const forbidden = await ann.run('kubectl --context skerry delete edgenode local');
    expect(forbidden).toMatchObject({ code: 1, err: expect.stringContaining(`User "skerry:${ANN}" cannot delete`) });
  });

  test('asks for the code of the second factor', async () => {
    const { accessToken } = ann.tokens();
    const { secret = '' } = (await post('/user/mfa/enroll', {}, accessToken)).body;
    const before = oneTimeCode(secret, Date.now() - 30_000);
    expect((await post('/user/mfa/confirm', { code: before }, accessToken)).status).toBe(200);
    expect(await ann.run(login(ANN), `${PASSWORD}\n000000\n`)).toMatchObject({ code: 1 });
    const typed = await ann.run(login(ANN), `${PASSWORD}\n${oneTimeCode(secret)}\n`);
    expect(typed).toMatchObject({ code: 0 });
    expect((await ann.run('kubectl --context skerry auth whoami')).out).toContain(`skerry:${ANN}`);
  });

  test('comes from a browser, which the controller sends to the port of the plugin', async () => {
    const person = personAt('browser');
    const shown = join(dir, 'people/browser/shown');
    writeFileSync(shown, '');
    const typed = person.run(`kubectl skerry login --ca $CA --no-browser 2> ${shown}`);
    const begin = await until('the URL', async () => /https:\S+/.exec(readFileSync(shown, 'utf8'))?.[0]);
    const browser = openBrowser();
    const page = await follow(browser, begin, isLoginPage);
    const resumed = await logInAt(browser, page, { email: 'admin', password: adminPassword });
    const end = await follow(browser, resumed, ({ origin }) => origin !== url);
    expect(end).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/\?code=/);
    expect((await fetch(end)).status).toBe(200);
    expect(await typed).toMatchObject({ code: 0 });
    expect((await person.run('kubectl --context skerry auth whoami')).out).toContain('skerry:admin');
  });

  test('renews the token once for twenty kubectl that run at the same time', async () => {
    const { path, refreshToken } = root.tokens();
    // The plugin reads the end of a token, and the API server its signature: with this one every kubectl needs another.
    const ended = ['{"alg":"RS256"}', '{"exp":1}', ''].map((part) => Buffer.from(part).toString('base64url')).join('.');
    writeFileSync(path, JSON.stringify({ controller: url, accessToken: ended, refreshToken }));
    const before = await refreshes();
    const all = await Promise.all(
      Array.from({ length: 20 }, () => root.run('kubectl --context skerry get edgenodes -o name')),
    );
    expect(all.map(({ code, out, err }) => [code, out, err])).toEqual(
      Array.from({ length: 20 }, () => [0, 'edgenode.skerry.dev/local\n', '']),
    );
    expect(await refreshes()).toEqual({ ...before, 200: (before['200'] ?? 0) + 1 });
    expect(root.tokens().refreshToken).not.toBe(refreshToken);
  }, 180_000);
});

/** Requests to renew a token that the controller has answered, by their status. */
async function refreshes(): Promise<Record<string, number>> {
  const text = await (await fetch(stack.metrics)).text();
  const line = /^skerry_http_request_duration_seconds_count\{([^}]*)\} (\d+)$/gm;
  const found = [...text.matchAll(line)].filter(([, labels = '']) => labels.includes('route="/user/refresh"'));
  return Object.fromEntries(found.map(([, labels = '', count]) => [/code="(\d+)"/.exec(labels)?.[1], Number(count)]));
}

describe('docs/identity.md', () => {
  test('holds as typed on the local stack, with curl and kubectl', async () => {
    const { type } = await reader();
    const headings = ['', 'A group has one application', 'A second factor'];
    expect(await typeIdentityPage(type, headings)).toEqual([]);
  }, 240_000);

  /** Somebody who has the stack in `.skerry`, as the page says, and the plugin as it ships. */
  async function reader() {
    const home = join(dir, 'people/reader');
    mkdirSync(home, { recursive: true });
    symlinkSync(dir, join(home, '.skerry'));
    const type = shellOfReader({ cwd: home, env: { ...process.env, HOME: home } });
    // The page sources the file as well, which leaves a PATH that has the plugin from its sources behind this one.
    await type(`. .skerry/env; export PATH=${plugin}:${dirname(process.execPath)}:$PATH`);
    return { type };
  }
});

describe('the API server refuses', () => {
  test('any token but an access token of the controller', async () => {
    const { accessToken, refreshToken } = root.tokens();
    expect(await whoIs(accessToken)).toMatchObject({ username: 'skerry:admin' });
    expect(await whoIs(refreshToken)).toBe(401);
    const { id_token: idToken = '', access_token: opaque = '' } = await tokensOfProvider();
    expect(idToken.split('.')).toHaveLength(3);
    for (const token of [idToken, opaque]) expect(await whoIs(token)).toBe(401);
    const [head, , signature] = accessToken.split('.');
    const claims = JSON.parse(Buffer.from(accessToken.split('.')[1] ?? '', 'base64url').toString());
    const forged = Buffer.from(JSON.stringify({ ...claims, groups: ['admin', 'system:masters'] })).toString(
      'base64url',
    );
    expect(await whoIs(`${head}.${forged}.${signature}`)).toBe(401);
  });

  test('tokens by the older form of the configuration as well, and names people by its prefix', async () => {
    const email = 'bo@shore.example';
    await asAdmin('POST', '/users', { email, password: TEMPORARY, groups: ['viewer'] });
    const { accessToken: first } = (await post('/user/login', { email, password: TEMPORARY })).body;
    await post('/user/change-password', { currentPassword: TEMPORARY, newPassword: PASSWORD }, first);
    const { accessToken = '' } = (await post('/user/login', { email, password: PASSWORD })).body;
    const print = 'kubectl skerry authentication-config $URL/oidc --ca $CA --api-version v1beta1 --prefix coast';
    const { out } = await root.run(print);
    expect(out).toContain('apiserver.config.k8s.io/v1beta1');
    writeFileSync(configuration, out);
    const named = { username: `coast:${email}`, groups: ['coast:viewer', 'system:authenticated'] };
    const isNamed = async () => JSON.stringify(await whoIs(accessToken)).includes(named.username);
    await until('the API server to read the file again', isNamed, { timeoutMs: 120_000 });
    expect(await whoIs(accessToken)).toMatchObject(named);
    expect(await whoIs(root.tokens().refreshToken)).toBe(401);
  });
});

test.each([
  ['a user', '/users', { email: 'system:admin', password: TEMPORARY, groups: [] }],
  ['a group', '/groups', { name: 'system:masters' }],
])('%s cannot have a name of the system', async (_, path, body) => {
  const token = readFileSync(join(dir, 'token'), 'utf8').trim();
  expect((await post(path, body, token)).status).toBe(400);
});

/** The tokens of the OpenID provider itself, for the client of the controller. */
async function tokensOfProvider(): Promise<Record<string, string>> {
  const verifier = randomBytes(32).toString('base64url');
  const callback = `${url}/api/v3/user/oauth/callback`;
  const query = new URLSearchParams({
    client_id: 'controller',
    response_type: 'code',
    scope: 'openid profile email groups',
    redirect_uri: callback,
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
  });
  const browser = openBrowser();
  const page = await follow(browser, `${url}/oidc/auth?${query}`, isLoginPage);
  const resumed = await logInAt(browser, page, { email: 'admin', password: adminPassword });
  const end = new URL(await follow(browser, resumed, ({ searchParams }) => searchParams.has('code')));
  const code = end.searchParams.get('code') ?? '';
  const response = await fetch(`${url}/oidc/token`, {
    method: 'POST',
    headers: { authorization: `Basic ${Buffer.from(`controller:${CLIENT_SECRET}`).toString('base64')}` },
    body: new URLSearchParams({
      grant_type: 'authorization_code',
      code,
      redirect_uri: callback,
      code_verifier: verifier,
    }),
  });
  expect(response.status).toBe(200);
  return (await response.json()) as Record<string, string>;
}

test('a logout ends the login of kubectl', async () => {
  const { refreshToken } = root.tokens();
  expect(await root.run('kubectl skerry logout --ca $CA')).toMatchObject({ code: 0 });
  expect((await post('/user/refresh', { refreshToken })).status).toBe(401);
  expect(await root.run('kubectl --context skerry get edgenodes')).toMatchObject({
    code: 1,
    err: expect.stringContaining('kubectl skerry login --controller'),
  });
});
