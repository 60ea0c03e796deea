import { execFile } from 'node:child_process';
import { createPrivateKey, randomBytes } from 'node:crypto';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { promisify } from 'node:util';
import { gunzipSync } from 'node:zlib';
import { afterAll, describe, expect, inject, test } from 'vitest';
import { ROOT } from '../hack/paths.ts';
import { freePort } from '../hack/ports.ts';
import { REGISTRY_USERS, startRegistry } from '../hack/registry.ts';
import { API_VERSION, LABELS } from '../src/api/names.ts';
import { routes } from '../src/assembly/routes.ts';
import { BASE } from '../src/rest/contract/base.ts';
import { manifest } from '../testing/manifest.ts';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import { type IdentityCanaries, liveWithLogins } from './_identity-canaries.ts';
import { createStack, until } from './_stack.ts';

/**
 * Every secret that the product has is a canary. Successes and failures are produced at the most verbose log level; then
 * everything that can be read from outside is searched for the canaries in every encoding.
 */
const word = (what: string) => `canary-${what}-${randomBytes(12).toString('hex')}`;
const LONG = 300_000;

const dir = temporaryFolder();
/** name -> secret */
const canaries = new Map<string, string>();
/** name -> what was shown there */
const outputs = new Map<string, string>();

const wrongPassword = word('password');
const secretValue = word('env');
const wrongToken = word('bearer');
const malformed = word('body');
const kubeToken = word('kubeconfig');

const stack = await createStack();
const guarded = await startRegistry({ dir: join(dir, 'registry'), auth: 'basic' });
const loginPort = await freePort();
const publicUrl = `http://127.0.0.1:${loginPort}`;
const controller = await stack.startController({
  env: { CONTROLLER_PUBLIC_URL: publicUrl, SERVER_PORT: String(loginPort) },
});
const agent = await stack.startAgent('gw-9', controller, { settings: { logLevel: 'DEBUG' } });
afterAll(() => guarded[Symbol.asyncDispose](), 60_000);

/** Sends a request with a token. */
async function ask(
  method: string,
  path: string,
  token: string,
  body?: unknown,
  type = 'application/json',
): Promise<{ status: number; text: string }> {
  const response = await fetch(`${controller.url}${BASE}${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, ...(body !== undefined && { 'content-type': type }) },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, text };
}
async function show(method: string, path: string, token: string, body?: unknown, type?: string): Promise<number> {
  const { status, text } = await ask(method, path, token, body, type);
  outputs.set(`REST ${method} ${path} (${outputs.size})`, text);
  return status;
}

const entry = (name: string, fields: Record<string, unknown>) => ({ name, agent: { name: 'gw-9' }, ...fields });
const apply = (name: string, fields: Record<string, unknown>) =>
  stack.apply(manifest('Application', { name }, { microservices: [entry('web', fields)] }));
const stateOf = async (name: string) =>
  (await stack.application(name))?.status?.microservices?.[0] as { state?: string; message?: string } | undefined;

test(
  'requests, containers, restarts and failed starts with canaries as secrets have the expected results',
  async () => {
    canaries.set('right password of a registry', REGISTRY_USERS.limpet.password);
    canaries.set('wrong password of a registry', wrongPassword);
    canaries.set('value of a Secret in env', secretValue);
    canaries.set('token of the caller', stack.token.split('.')[2] ?? '');
    canaries.set('token that is refused', wrongToken);
    canaries.set('secret in a malformed body', malformed);
    const admin = stack.token;

    // A registry with the right password, one with a wrong one, and one whose password is changed.
    const { host } = guarded;
    const right = JSON.parse(
      (
        await ask('POST', '/registries', admin, {
          url: host,
          isPublic: false,
          username: 'limpet',
          password: REGISTRY_USERS.limpet.password,
          insecure: true,
        })
      ).text,
    );
    const wrong = JSON.parse(
      (
        await ask('POST', '/registries', admin, {
          url: `${host}/private`,
          isPublic: false,
          username: 'limpet',
          password: wrongPassword,
          insecure: true,
        })
      ).text,
    );
    expect(await show('PATCH', `/registries/${wrong.id}`, admin, { password: `${wrongPassword}` })).toBe(204);

    // A Secret that a microservice gets as a variable.
    await stack.kube.apply({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'db', namespace: stack.namespace, labels: { [LABELS.shareable]: 'true' } },
      stringData: { pass: secretValue },
    } as never);
    const port = await freePort();
    const image = await stack.image('v1');
    const env = [{ key: 'DB_PASSWORD', valueFromSecret: 'db/pass' }];
    await apply('runs', {
      images: { amd64: image, arm64: image },
      container: { env, ports: [{ internal: 8080, external: port }] },
    });
    await apply('fails-to-start', {
      images: { amd64: image, arm64: image },
      container: { env, entrypoint: ['/nowhere'] },
    });
    await apply('fails-to-pull', {
      images: { amd64: `${host}/private/none:1`, arm64: `${host}/private/none:1`, registry: String(wrong.id) },
      container: { env },
    });
    await apply('is-not-there', {
      images: { amd64: `${host}/none:1`, arm64: `${host}/none:1`, registry: String(right.id) },
      container: { env },
    });
    await until('the good one to run', async () => (await stateOf('runs'))?.state === 'RUNNING', {
      timeoutMs: 120_000,
    });
    for (const name of ['fails-to-start', 'fails-to-pull', 'is-not-there'])
      await until(`${name} to say why`, async () => !!(await stateOf(name))?.message, { timeoutMs: 120_000 });

    // Invalid requests with a secret in them.
    const wrongs: [string, string, unknown, string?][] = [
      ['POST', '/registries', { url: 'registry.example', password: { secret: malformed } }],
      ['POST', '/registries', { url: 'registry.example', password: [malformed] }],
      ['POST', '/registries', { url: `https://user:${malformed}@registry example`, password: malformed }],
      ['POST', '/registries', { url: 'registry.example', email: 7, username: { a: malformed }, password: malformed }],
      ['POST', '/registries', `{"url":"registry.example","password":"${malformed}"`],
      ['PATCH', '/registries/1', { password: malformed }],
      ['PATCH', '/registries/999', { password: malformed }],
      ['PUT', '/application/runs', { microservices: [{ name: 'web', env: [{ key: 'A', value: { a: malformed } }] }] }],
      [
        'PUT',
        '/application/runs',
        { microservices: [{ name: 'web', env: [{ key: malformed.repeat(200), value: malformed }] }] },
      ],
      ['PUT', '/application/runs', { microservices: [{ name: 'web', config: `{"password": "${malformed}"` }] }],
      [
        'POST',
        '/application/yaml',
        `kind: Application\nmetadata: {name: x}\nspec: {microservices: [{name: y, password: "${malformed}`,
        'application/x-yaml',
      ],
      ['POST', '/application/yaml', `${malformed}: &a [*b]`, 'application/x-yaml'],
    ];
    for (const [method, path, body, type] of wrongs)
      expect(await show(method, path, admin, body, type), `${method} ${path}`).toBeGreaterThanOrEqual(400);
    expect(await show('GET', '/node-list', wrongToken)).toBe(401);

    // A provisioning key that is never used, and guesses at it.
    const uuid = (await stack.node('gw-9'))?.status?.uuid;
    const { key } = JSON.parse((await ask('GET', `/node/${uuid}/provisioning-key`, admin)).text);
    canaries.set('provisioning key', key);
    await show('POST', '/agent/provision', '', { key: `${key}x`, type: 1 });
    await show('POST', '/agent/provision', '', { key: [key], type: 'x' });
    const guessed = await agent.cli('provision', `skerry://127.0.0.1:9/${key}`);
    outputs.set('CLI provision', guessed.stdout + guessed.stderr);

    // The agent is killed and started again.
    await agent.kill();
    await agent.start();
    await until('the agent to report again', async () => (await stateOf('runs'))?.state === 'RUNNING', {
      timeoutMs: 120_000,
    });

    // The node is a router: it and the authorities of the system have keys.
    await show('PATCH', `/node/${uuid}`, admin, { routerMode: 'interior', host: 'gw-9.example', ...ROUTER_PORTS });
    await until('the machine to have its certificates', () => hasCertificates('gw-9'), { timeoutMs: 120_000 });
    for (const name of [`skerry-platform-${uuid}`, 'skerry-ca-router-site-ca', 'skerry-ca-default-router-local-ca'])
      await addPrivateKeys(name);

    // A kubeconfig that cannot be read.
    const broken = join(dir, 'broken.kubeconfig');
    writeFileSync(broken, `apiVersion: v1\nkind: Config\nusers:\n- name: a\n  user: {token: "${kubeToken}"\n  x: [`);
    canaries.set('token in a broken kubeconfig', kubeToken);
    outputs.set('start with a broken kubeconfig', await endOf({ KUBECONFIG: broken }));
    outputs.set('start with a wrong setting', await endOf({ SERVER_PORT: 'many', TLS_PATH_KEY: kubeToken }));
  },
  LONG,
);

let identity: IdentityCanaries;

test(
  'people log in, renew, fail and are helped, with canaries as secrets',
  async () => {
    identity = await liveWithLogins({ stack, url: publicUrl });
    for (const [name, secret] of identity.secrets) canaries.set(name, secret);
    for (const [name, text] of identity.outputs) outputs.set(name, text);
    expect(await show('GET', '/events', stack.token)).toBe(200);
    expect(outputs.get([...outputs.keys()].at(-1) ?? '')).toContain('canary.example');
  },
  LONG,
);

const ROUTER_PORTS = { interRouterPort: 55_671, edgeRouterPort: 45_671 };

async function hasCertificates(name: string): Promise<boolean> {
  const node = await stack.node(name);
  return !!node?.status?.conditions?.some(({ type, status }) => type === 'CertificatesReady' && status === 'True');
}

/** Each private key in a Secret is two canaries: its number, and a line of its PEM text. */
async function addPrivateKeys(secret: string): Promise<void> {
  const path = `/api/v1/namespaces/${stack.namespace}/secrets/${secret}`;
  const { data } = await stack.kube.request<{ data: Record<string, string> }>('GET', path);
  const texts = Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()] as const);
  const keys = texts.filter(([, text]) => text.includes('PRIVATE KEY'));
  expect(keys.length, secret).toBeGreaterThan(0);
  for (const [key, pem] of keys) {
    canaries.set(`${key} of ${secret}`, createPrivateKey(pem).export({ format: 'jwk' }).d ?? '');
    canaries.set(`text of ${key} of ${secret}`, pem.split('\n')[1] ?? '');
  }
}

/** The output of a controller, or of one of its commands. */
const endOf = (env: Record<string, string>, ...args: readonly string[]) =>
  new Promise<string>((resolve) => {
    execFile(
      process.execPath,
      [join(ROOT, 'src/main.ts'), ...args],
      { env: { ...process.env, LOG_LEVEL: 'debug', ...env }, timeout: 120_000, maxBuffer: 2 ** 26 },
      (_, stdout, stderr) => resolve(stdout + stderr),
    );
  });

/** The token that the container of a microservice gets. */
const WORKLOAD_TOKEN = /^data\/volumes\/serviceaccounts\/[^/]+\/.*token$/;
/** A file of the system on the agent's disk. */
const SYSTEM_FILE = /^data\/volumes\/system\//;
/** The files on the agent's disk that have secrets, readable by their owner only. No other file has one. */
const KEPT =
  /^(data\/identity\.json|data\/agent\.db(-wal|-shm)?|data\/[^/]*\.db(-wal|-shm)?|(data\/)?run\/[^/]*token[^/]*)$/;

test(
  'the files with secrets are readable by their owner only, and all outputs to search are collected',
  async () => {
    const viewer = await stack.tokenOf('viewer');
    canaries.set('token of a viewer', viewer.split('.')[2] ?? '');
    const uuid = (await stack.node('gw-9'))?.status?.uuid ?? '';
    const microservice = (await stack.application('runs'))?.status?.microservices?.[0]?.uuid ?? '';
    for (const route of routes.filter(({ method }) => method === 'GET'))
      for (const id of ['1', '3', '4', '5']) {
        if (route.path.includes('provisioning-key')) continue;
        const path = route.path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
          name === 'id' ? id : name === 'uuid' ? (route.path.startsWith('/node') ? uuid : microservice) : 'runs',
        );
        await show('GET', path, viewer);
        if (!route.path.includes('{id}')) break;
      }
    for (const path of ['/certificates', '/certificates/ca', '/certificates/ca/router-site-ca', `/node/${uuid}`])
      expect(await show('GET', path, viewer), path).toBe(200);
    for (const secret of [`skerry-platform-${uuid}`, 'skerry-ca-router-site-ca'])
      expect(await show('GET', `/secrets/${secret}`, stack.token), secret).toBe(404);
    const env = { KUBECONFIG: inject('kubeconfig'), CONTROLLER_NAMESPACE: stack.namespace };
    const document = await endOf({ ...env, METRICS_PORT: new URL(controller.metricsUrl).port }, 'support-bundle');
    expect(document).toContain('CertificatesReady');
    outputs.set('support document', document);
    for (const page of ['/metrics', '/readyz'])
      outputs.set(`controller ${page}`, await (await fetch(controller.metricsUrl + page)).text());
    outputs.set('agent /metrics', await (await fetch(`http://127.0.0.1:${agent.port}/v1/metrics`)).text());
    for (const args of [
      ['status'],
      ['info'],
      ['config'],
      ['ms', 'ls'],
      ['ms', 'inspect', microservice],
      ['ms', 'logs', microservice],
      ['logs'],
      ['doctor'],
    ]) {
      const { stdout, stderr } = await agent.cli(...args);
      outputs.set(`CLI ${args.join(' ')}`, stdout + stderr);
    }

    const bundle = join(dir, 'bundle.tar.gz');
    await agent.cli('support-bundle', bundle);
    outputs.set('support bundle', gunzipSync(readFileSync(bundle)).toString('latin1'));

    // The logs of both, at the most verbose level.
    const logs = join(controller.logFile, '..');
    for (const file of readdirSync(logs)) outputs.set(`log ${file}`, readFileSync(join(logs, file), 'latin1'));
    expect(outputs.get(`log ${relative(logs, controller.logFile)}`)).toContain('"level":"debug"');
    expect([...outputs].some(([name, text]) => name.startsWith('log agent') && text.includes('"DEBUG"'))).toBe(true);

    // Everything in the cluster but Secrets.
    for (const path of [
      `/apis/${API_VERSION}/namespaces/${stack.namespace}/applications`,
      `/apis/${API_VERSION}/namespaces/${stack.namespace}/edgenodes`,
      `/apis/${API_VERSION}/namespaces/${stack.namespace}/registries`,
      `/apis/${API_VERSION}/namespaces/${stack.namespace}/certificateauthorities`,
      `/apis/${API_VERSION}/namespaces/${stack.namespace}/authusers`,
      `/apis/${API_VERSION}/namespaces/${stack.namespace}/authgroups`,
      `/apis/rbac.authorization.k8s.io/v1/namespaces/${stack.namespace}/roles`,
      `/api/v1/namespaces/${stack.namespace}/events`,
      `/apis/events.k8s.io/v1/namespaces/${stack.namespace}/events`,
      `/api/v1/namespaces/${stack.namespace}/configmaps`,
      `/apis/coordination.k8s.io/v1/namespaces/${stack.namespace}/leases`,
    ])
      outputs.set(`cluster ${path}`, JSON.stringify(await stack.kube.request('GET', path)));

    // Names of Secrets, which may be listed where their content may not.
    const secrets = await stack.kube.request<{ items: { metadata: object }[] }>(
      'GET',
      `/api/v1/namespaces/${stack.namespace}/secrets`,
    );
    // kubectl stores what it applied in an annotation; that is not our output.
    outputs.set(
      'cluster metadata of Secrets',
      JSON.stringify(secrets.items.map(({ metadata }) => ({ ...metadata, managedFields: undefined }))),
    );

    // Arguments of every process, and the environment of ours.
    for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name)))
      try {
        outputs.set(`arguments of process ${pid}`, readFileSync(`/proc/${pid}/cmdline`, 'latin1'));
      } catch {
        // the process has ended
      }
    for (const [name, pid] of [
      ['controller', controller.pid],
      ['agent', agent.pid],
    ] as const)
      outputs.set(`environment of the ${name}`, readFileSync(`/proc/${pid}/environ`, 'latin1'));

    // What the engine shows of the containers, except the environment variables that they need.
    for (const { id } of await stack.containers()) {
      const { callEngine } = await import('../hack/engine-api.ts');
      const { Config, ...rest } = (await callEngine(inject('engineUrl'), 'GET', `/containers/${id}/json`).catch(() => ({
        Config: {},
      }))) as { Config: Record<string, unknown> };
      outputs.set(`engine's view of ${id.slice(0, 12)}`, JSON.stringify({ ...rest, Config: { ...Config, Env: [] } }));
    }

    // The agent's disk.
    const wide: string[] = [];
    for (const file of filesBelow(agent.dir)) {
      const name = relative(agent.dir, file);
      if (WORKLOAD_TOKEN.test(name)) {
        // Its container reads it as any user; a folder above it is closed to all other processes.
        canaries.set(`token of a workload (${canaries.size})`, readFileSync(file, 'utf8').trim().split('.')[2] ?? '');
        const folders = [join(agent.dir, 'data/volumes/serviceaccounts'), join(agent.dir, 'data/volumes')];
        if (!folders.some(isClosed)) wide.push(name);
        continue;
      }
      if (SYSTEM_FILE.test(name)) {
        // Containers of the platform read them as any user; a folder above them is closed to all other processes.
        if (![join(agent.dir, 'data/volumes/system'), join(agent.dir, 'data/volumes')].some(isClosed)) wide.push(name);
        continue;
      }
      if (!KEPT.test(name)) {
        outputs.set(`agent's disk: ${name}`, readFileSync(file, 'latin1'));
        continue;
      }
      if ((statSync(file).mode & 0o077) !== 0) wide.push(name);
      for (const match of readFileSync(file, 'latin1').matchAll(/"d": *"([A-Za-z0-9_-]{43})"/g))
        canaries.set(`private key in ${name} (${canaries.size})`, match[1] ?? '');
      if (name.includes('token'))
        canaries.set('token of the local API', readFileSync(file, 'utf8').trim().split('.')[2] ?? '');
    }
    expect(wide).toEqual([]);
    expect([...canaries.keys()].filter((name) => name.startsWith('private key')).length).toBeGreaterThanOrEqual(2);
  },
  LONG,
);

const isClosed = (folder: string) => (statSync(folder).mode & 0o007) === 0;

function* filesBelow(folder: string): Generator<string> {
  for (const one of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, one.name);
    if (one.isDirectory()) yield* filesBelow(path);
    else if (one.isFile()) yield path;
  }
}

/** A text as it is, reversed, and as it appears in URLs, in hex, and anywhere within base64. */
function formsOf(text: string): string[] {
  const bytes = Buffer.from(text);
  const within = [0, 1, 2].map((offset) => {
    const encoded = Buffer.concat([Buffer.alloc(offset), bytes])
      .toString('base64')
      .replace(/=+$/, '');
    // The first and last characters also encode bits of the surrounding bytes.
    return encoded.slice(Math.ceil((offset * 8) / 6), encoded.length - 1);
  });
  const percent = [...bytes].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('');
  const all = [
    text,
    ...within,
    ...within.map((one) => one.replaceAll('+', '-').replaceAll('/', '_')),
    bytes.toString('hex'),
    percent,
    encodeURIComponent(text),
    JSON.stringify(text).slice(1, -1),
    [...text].reverse().join(''),
  ];
  return [...new Set(all)];
}

describe('no secret is shown', () => {
  test('no output contains a canary in any encoding', () => {
    expect(canaries.size).toBeGreaterThanOrEqual(9);
    const found: string[] = [];
    for (const [name, canary] of canaries) {
      expect(canary.length, name).toBeGreaterThanOrEqual(8);
      const forms = formsOf(canary);
      for (const [where, text] of outputs) {
        const lower = text.toLowerCase();
        for (const form of forms)
          if (text.includes(form) || (/^[0-9a-f%]+$/.test(form) && lower.includes(form)))
            found.push(`${name} in ${where}: ...${around(text, form)}`);
      }
    }
    expect(found.slice(0, 10), `${found.length} places`).toEqual([]);
    const size = [...outputs.values()].reduce((sum, text) => sum + text.length, 0);
    process.stderr.write(
      `${canaries.size} canaries, ${outputs.size} outputs, ${(size / 2 ** 20).toFixed(1)} MiB searched\n`,
    );
  });

  test('a backup has no secret of a login but those that people need after a restore', async () => {
    const file = join(dir, 'backup.json');
    const env = { KUBECONFIG: inject('kubeconfig') };
    const plugin = [join(ROOT, 'bin/kubectl-skerry.cjs'), '-n', stack.namespace, 'backup', '-f', file];
    await promisify(execFile)(process.execPath, plugin, { env: { ...process.env, ...env } });
    const text = readFileSync(file, 'utf8');
    const found = [...identity.secrets]
      .filter(([name]) => !identity.kept.has(name))
      .flatMap(([name, secret]) =>
        formsOf(secret)
          .filter((form) => text.includes(form))
          .map(() => name),
      );
    expect(found).toEqual([]);
    for (const key of ['sessions', 'attempts', 'devices', 'reset']) expect(text).not.toContain(`"${key}":`);
    expect(text).not.toContain('skerry-oidc-');
    expect(text).not.toContain('skerry-once-');
  });

  test('the search finds a canary within base64 and URL-encoded text', () => {
    for (const form of formsOf('holds-fast')) expect(form.length).toBeGreaterThan(5);
    const whole = Buffer.from(`user:${secretValue}`).toString('base64');
    expect(formsOf(secretValue).some((form) => whole.includes(form))).toBe(true);
    expect(formsOf(secretValue).some((form) => `x%3D${encodeURIComponent(secretValue)}`.includes(form))).toBe(true);
  });

  test('no log, event or object contains a token', () => {
    const token = /eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}/;
    const found = [...outputs]
      .filter(([name]) => !name.startsWith('arguments of'))
      .filter(([, text]) => token.test(text))
      .map(([name]) => name);
    expect(found).toEqual([]);
  });
});

function around(text: string, form: string): string {
  const at = Math.max(0, text.toLowerCase().indexOf(form.toLowerCase()));
  return JSON.stringify(text.slice(Math.max(0, at - 60), at + 20));
}
