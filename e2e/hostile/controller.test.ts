import { generateKeyPairSync } from 'node:crypto';
import { afterAll, describe, expect, test } from 'vitest';
import { makeToken, type TestKey } from '../../src/agents/_util.ts';
import { HEADERS as NAMES } from '../../src/api/names.ts';
import { routes } from '../../src/assembly/routes.ts';
import { parameterNames } from '../../src/lib/path-pattern.ts';
import { createChecker } from '../../src/rest/_client.ts';
import { BASE } from '../../src/rest/contract/base.ts';
import type { AnyRoute } from '../../src/rest/contract/route.ts';
import { createStack, until } from '../_stack.ts';
import {
  attacksOn,
  CREDENTIALS,
  FILE_BODIES,
  HEADERS,
  type HostileBody,
  HUGE_NUMBERS,
  JSON_BODIES,
  PARAMETERS,
  QUERIES,
  TEXTS,
} from './_attacks.ts';
import { brokenLines, faults } from './_process.ts';
import { createSender, dial, forEach, type Heard, hear, type Sent } from './_send.ts';

/**
 * All hostile requests that we know of, to every API surface of a controller process: each response is an error in the
 * documented form or conforms to the OpenAPI document. No request causes a fault, gets no response, or ends the process.
 */
const LONG = 300_000;
const LARGE = 300_000;
const CALLERS = 8;
/** A node whose agent the test simulates. */
interface Agent {
  uuid: string;
  key: TestKey;
}
const nodes: Agent[] = [];
let node: Agent;
/** tokens of several callers, since the files of each are limited in rate */
const callers: string[] = [];
let uploads = 0;

const APPLICATION = `
kind: Application
metadata: {name: plant}
spec:
  microservices:
    - {name: reader, agent: {name: gw}, images: {amd64: "registry.example/reader:1", registry: remote}, container: {ports: [{internal: 80, external: 8080}]}}
`;

const stack = await createStack();
const controller = await stack.startController();
const send = createSender({ origin: controller.url });
const check = createChecker(routes);
const rest = stack.rest(controller);
for (const name of ['gw', 'gw-2', 'gw-3', 'gw-4']) nodes.push(await provision(name));
for (let i = 0; i < CALLERS; i++) callers.push(await stack.tokenOf('admin', `caller-${i}`));
[node] = nodes as [Agent];
const uploaded = await rest('POST', '/application/yaml', APPLICATION);
expect(uploaded.status, JSON.stringify(uploaded.body)).toBe(201);
const { body } = await rest('GET', '/application/plant');
const application = { uuid: body.microservices[0].uuid };
const registry = (await rest('POST', '/registries', { url: 'registry.example' })).body.id;
afterAll(async () => {
  send[Symbol.dispose]();
});

async function provision(name: string): Promise<Agent> {
  const rest = stack.rest(controller);
  const { body: created } = await rest('POST', '/node', { name, archId: 1 });
  const { body: issued } = await rest('GET', `/node/${created.uuid}/provisioning-key`);
  const { privateKey } = generateKeyPairSync('ed25519');
  const { x = '' } = privateKey.export({ format: 'jwk' });
  const key: TestKey = { publicKey: { kty: 'OKP', crv: 'Ed25519', x }, privateKey };
  const { status, text } = await send({
    method: 'POST',
    path: `${BASE}/agent/provision`,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ key: issued.key, type: 1, publicKey: key.publicKey }),
  });
  expect(status, text).toBe(200);
  return { uuid: created.uuid, key };
}

/** A path of a route with real names, or with one value for all parameters. */
function pathOf(route: AnyRoute, value?: string): string {
  const real = (name: string) =>
    route.path.startsWith('/node')
      ? node.uuid
      : name === 'id'
        ? String(registry)
        : name === 'uuid'
          ? application.uuid
          : 'plant';
  return route.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => value ?? real(name));
}

const bearer = (token = stack.token) => ({ authorization: `Bearer ${token}` });
const complaints: string[] = [];

/** Sends a request to REST and checks the response against the OpenAPI document. */
async function attack(what: string, sent: Sent, { mustRefuse = false } = {}): Promise<Heard | undefined> {
  const tell = (text: string) => complaints.push(`${what}: ${sent.method} ${sent.path.slice(0, 120)}: ${text}`);
  let heard: Heard;
  try {
    heard = await send({ ...sent, path: BASE + sent.path });
  } catch (error) {
    tell(String((error as Error).message));
    return undefined;
  }
  const { status, text, ms, headers } = heard;
  if (status >= 500 && status !== 501) tell(`${status} ${text.slice(0, 300)}`);
  if (mustRefuse && status < 400) tell(`${status}, and not refused`);
  if (ms > 20_000) tell(`answered after ${ms} ms`);
  if (headers['set-cookie']) tell('a header of the attacker came back');
  if (status === 431) return heard;
  try {
    const body = text ? JSON.parse(text) : undefined;
    check(sent.method, sent.path, { status, body, headers: new Headers(headers as Record<string, string>) });
  } catch (error) {
    tell(String((error as Error).message).slice(0, 500));
  }
  return heard;
}

function expectNoComplaints(): void {
  const found = complaints.splice(0);
  expect(found.slice(0, 20), `${found.length} complaints`).toEqual([]);
}

const withParameters = routes.filter((route) => parameterNames(route.path).length > 0);
const withJson = routes.filter((route) => route.body?.kind === 'json');
const withFile = routes.filter((route) => route.body?.kind === 'file');

describe('REST', () => {
  test(
    'every route answers hostile parameters without a fault',
    async () => {
      const jobs = withParameters.flatMap((route, i) => attacksOn(i, PARAMETERS).map((value) => ({ route, value })));
      await forEach(jobs, 8, async ({ route, value }) => {
        await attack('a parameter', { method: route.method, path: pathOf(route, value), headers: bearer() });
      });
      expectNoComplaints();
    },
    LONG,
  );

  test(
    'every route answers hostile queries and headers without a fault',
    async () => {
      const gets = routes.filter((route) => route.method === 'GET');
      await forEach(gets, 8, async (route) => {
        for (const query of attacksOn(gets.indexOf(route), QUERIES))
          await attack('a query', { method: 'GET', path: pathOf(route) + query, headers: bearer() });
      });
      const kept = routes.filter((route) => route.method !== 'DELETE');
      await forEach(kept, 8, async (route) => {
        for (const [name, headers] of attacksOn(kept.indexOf(route), HEADERS))
          await attack(name, { method: route.method, path: pathOf(route), headers: { ...bearer(), ...headers } });
      });
      expectNoComplaints();
    },
    LONG,
  );

  test(
    'every route that is not public refuses missing and hostile credentials',
    async () => {
      await forEach(
        routes.filter(({ access }) => access !== 'public'),
        8,
        async (route) => {
          for (const authorization of CREDENTIALS) {
            const heard = await attack('a credential', {
              method: route.method,
              path: pathOf(route),
              headers: { authorization },
            });
            if (heard && ![400, 401, 429, 431].includes(heard.status))
              complaints.push(`${route.operation}: ${heard.status} with ${authorization.slice(0, 40)}`);
          }
        },
      );
      expectNoComplaints();
    },
    LONG,
  );

  test(
    'every route that reads JSON answers hostile bodies without a fault',
    async () => {
      await forEach(withJson, 4, async (route) => {
        for (const body of attacksOn(withJson.indexOf(route), JSON_BODIES)) await attackBody(route, body);
      });
      expectNoComplaints();
    },
    LONG,
  );

  test(
    'every route that reads a file answers hostile files without a fault',
    async () => {
      await forEach(withFile, 2, async (route) => {
        for (const body of attacksOn(withFile.indexOf(route), FILE_BODIES)) await attackBody(route, body);
      });
      expectNoComplaints();
    },
    LONG,
  );

  async function attackBody(
    route: AnyRoute,
    { name, body, headers = {}, refused = false }: HostileBody,
  ): Promise<void> {
    // A large body is refused before it reaches a route, so one route is enough.
    if (body.length > LARGE && route !== withJson[0] && route !== withFile[0]) return;
    const path = route.method === 'DELETE' ? pathOf(route, 'none') : pathOf(route);
    for (;;) {
      const caller = bearer(callers[uploads++ % CALLERS]);
      const sent = { method: route.method, path, headers: { ...caller, ...headers }, body };
      const takesAny = route.body?.kind === 'json' && (route.body.optional || route.body.schema.safeParse(42).success);
      const mustRefuse = refused && (!takesAny || !/^(a number|a text|null|nothing but spaces)$/.test(name));
      const heard = await attack(`${route.operation} with ${name}`, sent, { mustRefuse });
      // This test is not about the rate limit of files. Attempts at passwords and codes stay refused for long.
      if (heard?.status !== 429 || route.guessable) return;
      await new Promise((resolve) => setTimeout(resolve, 1_000));
    }
  }

  test(
    'every hostile text in every field of an application gets a response without a fault',
    async () => {
      const entry = (text: string) => ({
        name: text,
        application: text,
        config: text,
        agentName: text,
        images: [{ containerImage: text, archId: 1 }],
        env: [{ key: text, value: text }],
        commands: [text],
        entrypoint: [text],
        workingDir: text,
        runAsUser: text,
        platform: text,
        runtime: text,
        pidMode: text,
        ipcMode: text,
        cpuSetCpus: text,
        capAdd: [text],
        cdiDevices: [text],
        annotations: JSON.stringify({ [text]: text }),
        extraHosts: [{ name: text, address: text }],
        volumeMappings: [{ hostDestination: text, containerDestination: text, accessMode: 'rw', type: 'volume' }],
        devices: [{ hostPath: text, containerPath: text }],
        tmpfs: [{ containerPath: text, mode: text }],
        sysctls: { [text]: text },
        ulimits: { [text]: { soft: 1, hard: 1 } },
        healthCheck: { test: ['CMD', text] },
        models: { bindPath: text, items: [{ name: text }] },
      });
      const base = { name: 'web', images: [{ containerImage: 'registry.example/a:1', archId: 1 }] };
      const jobs = TEXTS.flatMap(([name, text]) =>
        Object.entries(entry(text)).map(([field, value]) => ({ name, field, value })),
      );
      await forEach(jobs, 8, async ({ name, field, value }) => {
        const microservices = [{ ...base, [field]: value }];
        const body = JSON.stringify({ microservices });
        const heard = await attack(`${name} in ${field}`, {
          method: 'PUT',
          path: '/application/plant',
          headers: { ...bearer(), 'content-type': 'application/json' },
          body,
        });
        // A message has no character that cannot be printed, and its length is limited.
        const message = heard && heard.status >= 400 ? String(JSON.parse(heard.text).message) : '';
        if (message.length > 4_096 || /[\p{Cc}\p{Cs}\u202e\u200b]/u.test(message))
          complaints.push(`${name} in ${field}: ${message.slice(0, 200)}`);
      });
      expectNoComplaints();
    },
    LONG,
  );
});

describe('image references', () => {
  test.each([
    ['a new line', 'registry.example/a:1\nb'],
    ['a space', 'registry.example/a 1'],
    ['the parent folder', 'registry.example/../a:1'],
    ['an option', '--privileged'],
    ['capital letters', 'registry.example/Reader:1'],
    ['10 KB', `registry.example/${'a'.repeat(10_000)}:1`],
    ['a digest of the wrong length', `registry.example/a@sha256:${'0'.repeat(63)}`],
    ['a digest of an unknown algorithm', 'registry.example/a@md5:xyz'],
    ['a tag of 129 characters', `registry.example/a:${'t'.repeat(129)}`],
    ['an empty tag', 'registry.example/a:'],
    ['an empty repository', 'registry.example/:1'],
    ['a scheme', 'https://registry.example/a:1'],
    ['credentials', 'user:pass@registry.example/a:1'],
    ['a query', 'registry.example/a:1?x=y'],
    ['letters of another script', 'registry.example/рeader:1'],
    ['a NUL character', 'registry.example/a:1\0'],
    ['no characters', ''],
  ])('with %s are refused, with the value escaped and shortened', async (_, image) => {
    const microservices = [{ name: 'web', images: [{ containerImage: image, archId: 1 }] }];
    const { status, body } = await stack.rest(controller)('PUT', '/application/plant', { microservices });
    expect({ status, code: body?.code }).toEqual({ status: 400, code: expect.any(String) });
    expect(body.message.length).toBeLessThan(1_000);
  });
});

/** Headers of an agent's request; the agents take turns because of the rate limit per node. */
const asAgent = ({ uuid, key } = nodes[turn++ % nodes.length] as Agent) => ({
  authorization: `Bearer ${makeToken(uuid, key, Date.now())}`,
  [NAMES.agent]: '1.0.0',
});
let turn = 0;

describe('the agent routes', () => {
  const GETS = [
    'changes',
    'config/changes',
    'config',
    'microservices',
    'registries',
    'models',
    'knowledge',
    'runtimeClasses',
    'volumeMounts',
    'systemFiles',
    'systemFiles/content',
    `systemFiles/content?digests=${'0'.repeat(64)}`,
    'version',
    'cert',
    'tunnel',
    'exec/sessions',
    'logs/sessions',
  ];
  const WRITES: [string, string][] = [
    ['POST', 'provision'],
    ['PATCH', 'changes'],
    ['PUT', 'status'],
    ['PATCH', 'config'],
    ['PATCH', 'config/gps'],
    ['POST', 'tracking'],
    ['POST', 'controller/register'],
  ];

  async function attackAgent(what: string, sent: Sent, { mustRefuse = false } = {}): Promise<Heard | undefined> {
    const tell = (text: string) => complaints.push(`${what}: ${sent.method} ${sent.path.slice(0, 100)}: ${text}`);
    for (;;) {
      let heard: Heard;
      try {
        heard = await send({ ...sent, headers: { ...asAgent(), ...sent.headers }, path: `${BASE}/agent/${sent.path}` });
      } catch (error) {
        tell((error as Error).message);
        return undefined;
      }
      const { status, text, headers } = heard;
      if (status === 429) {
        expect(Number(headers['retry-after'])).toBeGreaterThanOrEqual(1);
        await new Promise((resolve) => setTimeout(resolve, 500));
        continue;
      }
      if (status >= 500) tell(`${status} ${text.slice(0, 300)}`);
      if (mustRefuse && status < 400) tell(`${status}, and not refused`);
      if (status >= 400 && status !== 431) {
        const body = JSON.parse(text);
        for (const member of ['name', 'message', 'code', 'error'])
          if (typeof body[member] !== 'string') tell(`no ${member} in ${text.slice(0, 200)}`);
      }
      return heard;
    }
  }

  test(
    'answer hostile paths and queries without a fault',
    async () => {
      await forEach(GETS, 2, async (path) => {
        for (const query of QUERIES)
          await attackAgent('a query', { method: 'GET', path: path + query.replace('wait=1e9', 'wait=-1e9') });
      });
      await forEach(PARAMETERS, 2, async (value) => {
        await attackAgent('a parameter', { method: 'GET', path: `microservices/${value}` }, { mustRefuse: true });
      });
      expectNoComplaints();
    },
    LONG,
  );

  test(
    'answer hostile bodies without a fault',
    async () => {
      await forEach(WRITES, 2, async ([method, path]) => {
        for (const { name, body, headers } of JSON_BODIES) {
          await attackAgent(`${path} with ${name}`, { method, path, headers, body });
        }
      });
      expectNoComplaints();
    },
    LONG,
  );

  test(
    'answer false reports without a fault, and the reconciler then writes the status of a correct report',
    async () => {
      const texts = TEXTS.map(([, text]) => text);
      const numbers = HUGE_NUMBERS;
      for (const text of texts) {
        const body = JSON.stringify({
          daemonStatus: text,
          warningMessage: text,
          systemOs: text,
          version: text,
          ipAddress: text,
          availableRuntimes: [text],
          systemFiles: { digest: text.length % 2 ? 'ab12' : text, problem: text },
          config: { networkInterface: text, logLevel: text },
          microserviceStatus: [
            {
              id: text,
              status: text,
              errorMessage: text,
              containerId: text,
              name: text,
              application: text,
              ports: [{ internal: text }],
            },
          ],
        });
        await attackAgent('a report', {
          method: 'PUT',
          path: 'status',
          headers: { 'content-type': 'application/json' },
          body,
        });
      }
      for (const number of numbers) {
        const body = `{"memoryUsage":${number},"cpuUsage":"${number}","daemonLastStart":${number},"microserviceStatus":[{"id":"${application.uuid}","status":"RUNNING","startTime":${number},"cpuUsage":${number},"restartCount":${number}}],"orders":{"reboot":${number}}}`;
        await attackAgent('a number', {
          method: 'PUT',
          path: 'status',
          headers: { 'content-type': 'application/json' },
          body,
        });
      }
      expectNoComplaints();
      const heartbeat = JSON.stringify({ daemonStatus: 'RUNNING', warningMessage: 'calm', microserviceStatus: [] });
      const type = { 'content-type': 'application/json' };
      for (const _ of nodes)
        await attackAgent('a heartbeat', { method: 'PUT', path: 'status', headers: type, body: heartbeat });
      // The earlier reports do not block the reconciler.
      await until('the node to be calm again', async () => {
        const { body } = await stack.rest(controller)('GET', `/node/${node.uuid}`);
        return body.daemonStatus === 'RUNNING' ? true : undefined;
      });
    },
    LONG,
  );

  test('refuse every forged token with 401', async () => {
    const now = Date.now();
    const tokens: [string, string][] = [
      ['no algorithm', makeToken(node.uuid, node.key, now, { header: { alg: 'none' } })],
      ['another algorithm', makeToken(node.uuid, node.key, now, { header: { alg: 'HS256' } })],
      ['an embedded key', makeToken(node.uuid, node.key, now, { header: { crit: ['b64'], jwk: {} } })],
      ['another node', makeToken('0d9e6f2a-3c4b-4d5e-8f60-718293a4b5c6', node.key, now)],
      ['a path as subject', makeToken('../../secrets', node.key, now)],
      ['an endless identity', makeToken(node.uuid, node.key, now, { claims: { jti: 'j'.repeat(4_000) } })],
      ['times that are none', makeToken(node.uuid, node.key, now, { claims: { iat: '0', exp: 'x' } })],
      ['endless life', makeToken(node.uuid, node.key, now, { claims: { exp: 9e15 } })],
      ['a time of infinity', makeToken(node.uuid, node.key, now, { claims: { exp: 1e308, iat: -1e308 } })],
      ['another use', makeToken(node.uuid, node.key, now, { claims: { tokenUse: 'local' } })],
      ['deep claims', `e30.${Buffer.from('['.repeat(3_000)).toString('base64url')}.x`],
      ['a cut signature', makeToken(node.uuid, node.key, now).slice(0, -20)],
    ];
    for (const [name, token] of tokens) {
      const heard = await attackAgent(name, {
        method: 'GET',
        path: 'config',
        headers: { authorization: `Bearer ${token}` },
      });
      expect({ name, status: heard?.status }).toEqual({ name, status: 401 });
    }
    expectNoComplaints();
  });

  test('answer a client that guesses provisioning keys with 429, and a body that is too large with 413 before it is read', async () => {
    const guess = () =>
      send({
        method: 'POST',
        path: `${BASE}/agent/provision`,
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ key: 'x'.repeat(32), type: 1 }),
      });
    let last = await guess();
    for (let i = 0; i < 60 && last.status !== 429; i++) last = await guess();
    expect(last).toMatchObject({ status: 429, headers: { 'retry-after': expect.stringMatching(/^\d+$/) } });

    const socket = await dial(controller.url);
    const heard = hear(socket, 10_000);
    const { authorization } = asAgent();
    socket.write(
      `PUT ${BASE}/agent/status HTTP/1.1\r\nHost: c\r\nAuthorization: ${authorization}\r\nContent-Length: 4000000000\r\n\r\n`,
    );
    expect((await heard).text).toMatch(/^HTTP\/1\.1 413 /);
  });
});

describe('the API between replicas', () => {
  test('refuses requests without the credentials of a replica, and hostile bodies with them', async () => {
    using internal = createSender({ origin: controller.internalUrl });
    for (const path of [
      '/internal/observations',
      '/internal/current-values',
      '/internal/tokens',
      '/',
      '/constructor',
      '/__proto__',
      '/internal/../internal/observations',
    ])
      for (const { body, headers = {} } of JSON_BODIES.slice(0, 12)) {
        const { status } = await internal({ method: 'POST', path, headers: { ...headers, ...bearer() }, body });
        expect([401, 404, 429]).toContain(status);
      }
    const account = (
      await stack.kube.request<{ status: { token: string } }>(
        'POST',
        `/api/v1/namespaces/${stack.namespace}/serviceaccounts/skerry-controller/token`,
        { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: { audiences: ['skerry.dev/internal'] } },
      )
    ).status.token;
    for (const path of ['/internal/observations', '/internal/current-values', '/internal/tokens'])
      for (const { name, body, headers = {} } of JSON_BODIES) {
        const replica = { ...headers, authorization: `Bearer ${account}` };
        const { status } = await internal({ method: 'POST', path, headers: replica, body });
        expect({ path, name, isRefused: status >= 400 && status < 500 }).toEqual({ path, name, isRefused: true });
      }
  });
});

describe('a request that is not valid HTTP', () => {
  const head = `GET ${BASE}/status HTTP/1.1\r\nHost: c\r\n`;
  test.each<[string, string, RegExp]>([
    ['nonsense', '\x16\x03\x01\x02\x00\x01\x00', /^HTTP\/1\.1 400/],
    ['another protocol', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', /^(HTTP\/1\.1 400|$)/],
    [
      'two lengths',
      `POST ${BASE}/node HTTP/1.1\r\nHost: c\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab`,
      /^HTTP\/1\.1 400/,
    ],
    [
      'a length and chunks',
      `POST ${BASE}/node HTTP/1.1\r\nHost: c\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      /^HTTP\/1\.1 400/,
    ],
    [
      'a chunk of endless length',
      `POST ${BASE}/user/login HTTP/1.1\r\nHost: c\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n`,
      /HTTP\/1\.1 400/,
    ],
    ['a header that is folded', `${head}X-A: b\r\n c\r\n\r\n`, /^HTTP\/1\.1 (400|200)/],
    ['a header without a name', `${head}: b\r\n\r\n`, /^HTTP\/1\.1 400/],
    ['a header with NUL', `${head}X-A: a\0b\r\n\r\n`, /^HTTP\/1\.1 400/],
    ['new lines without carriage returns', `${head.replaceAll('\r\n', '\n')}\n`, /^HTTP\/1\.1 (400|200)/],
    ['200 KB of headers', `${head}${`X-A: ${'b'.repeat(1_000)}\r\n`.repeat(200)}\r\n`, /^HTTP\/1\.1 431/],
    ['5,000 headers', `${head}${'a:b\r\n'.repeat(5_000)}\r\n`, /^HTTP\/1\.1 (431|200)/],
    ['an endless request line', `GET /${'a'.repeat(100_000)} HTTP/1.1\r\nHost: c\r\n\r\n`, /^HTTP\/1\.1 431/],
    ['an absolute target', 'GET http://evil.example/api/v3/status HTTP/1.1\r\nHost: c\r\n\r\n', /^HTTP\/1\.1 [24]\d\d/],
    ['two slashes', 'GET //api//v3//status HTTP/1.1\r\nHost: c\r\n\r\n', /^HTTP\/1\.1 404/],
    ['a star', 'OPTIONS * HTTP/1.1\r\nHost: c\r\n\r\n', /^HTTP\/1\.1 [24]\d\d/],
    ['a tunnel', 'CONNECT evil.example:443 HTTP/1.1\r\nHost: c\r\n\r\n', /^(HTTP\/1\.1 4|$)/],
    ['an unknown method', `PURGE ${BASE}/status HTTP/1.1\r\nHost: c\r\n\r\n`, /^HTTP\/1\.1 40[045]/],
    ['raw text in the path', `GET ${BASE}/node/\xff\xfe HTTP/1.1\r\nHost: c\r\n\r\n`, /^HTTP\/1\.1 40[014]/],
    [
      'a body before its answer',
      `POST ${BASE}/node HTTP/1.1\r\nHost: c\r\nExpect: 100-continue\r\nContent-Length: 99999999\r\n\r\n`,
      /^HTTP\/1\.1 (100|4)/,
    ],
  ])('(%s) gets the expected response or none, and no fault', async (_, text, expected) => {
    for (const url of [controller.metricsUrl, controller.internalUrl, controller.url]) {
      const socket = await dial(url);
      const heard = hear(socket, 3_000, /\r\n\r\n/);
      socket.write(Buffer.from(text, 'latin1'));
      const answer = (await heard).text;
      if (url === controller.url) expect(answer).toMatch(expected);
      else expect(answer).not.toMatch(/^HTTP\/1\.1 5/);
      socket.destroy();
    }
  });
});

test('after all hostile requests the controller is the same process, its log has no fault and no broken line, and it still works', async () => {
  process.kill(controller.pid, 0);
  expect(faults(controller.logFile)).toEqual([]);
  expect(brokenLines(controller.logFile)).toEqual([]);
  const { status, body } = await stack.rest(controller)('GET', '/application/plant');
  expect({ status, name: body.name }).toEqual({ status: 200, name: 'plant' });
  expect(({} as { isAdmin?: boolean }).isAdmin).toBeUndefined();
});
