import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import { afterAll, describe, expect, test } from 'vitest';
import { DEX_CLIENT, DEX_PASSWORD, DEX_USERS, type Dex, startDex } from '../hack/dex.ts';
import { freePort } from '../hack/ports.ts';
import { manifest } from '../testing/manifest.ts';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import { createStack, until } from './_stack.ts';

/**
 * The provider of the users away, frozen, and talking nonsense, with the bundle of the controller and a real Dex: only logins and `/status`
 * notice. Each phase ends with the provider as it was.
 */
const folder = temporaryFolder();
const [dexPort, port] = [await freePort(), await freePort()];
const PUBLIC_URL = `http://127.0.0.1:${port}`;
const openDex = () =>
  startDex({ dir: folder, port: dexPort, redirectUris: [`${PUBLIC_URL}/api/v3/user/oauth/callback`] });
let dex: Dex = await openDex();
afterAll(() => dex.stop());

const stack = await createStack();
const env = {
  AUTH_MODE: 'external',
  OIDC_ISSUER_URL: dex.issuer,
  OIDC_CLIENT_ID: DEX_CLIENT.clientId,
  OIDC_CLIENT_SECRET: DEX_CLIENT.clientSecret,
  SKERRY_OIDC_CA_FILE: dex.caFile,
  CONTROLLER_PUBLIC_URL: PUBLIC_URL,
};
const controller = await stack.startController({ env: { ...env, SERVER_PORT: String(port) } });
const agent = await stack.startAgent('gw-provider', controller);

interface Answer {
  status: number;
  body: Record<string, string>;
}

async function ask(
  path: string,
  { token, body, url = controller.url }: { token?: string; body?: object; url?: string } = {},
) {
  const response = await fetch(`${url}/api/v3${path}`, {
    method: body ? 'POST' : 'GET',
    headers: {
      ...(token && { authorization: `Bearer ${token}` }),
      ...(body && { 'content-type': 'application/json' }),
    },
    ...(body && { body: JSON.stringify(body) }),
  });
  return { status: response.status, body: JSON.parse((await response.text()) || '{}') } satisfies Answer;
}
const logIn = () => ask('/user/login', { body: { email: DEX_USERS.ann.email, password: DEX_PASSWORD } });
const newToken = (timeoutMs = 60_000) =>
  until(
    'a login',
    async () => {
      const { status, body } = await logIn();
      if (status !== 200) throw new Error(`${status} ${body.message}`);
      return body.accessToken ?? '';
    },
    // Attempts from one address are bounded.
    { intervalMs: 1_000, timeoutMs },
  );
const statusOf = (token: string, url?: string) =>
  ask('/iofog-list', { token, ...(url && { url }) }).then(({ status }) => status);
const isReady = async (url = controller.metricsUrl) => (await fetch(`${url}/readyz`)).status;

/** Until an edit of the node has reached its machine. */
let seconds = 10;
async function agentFollows(): Promise<void> {
  seconds += 1;
  const spec = { watchdogEnabled: false, statusFrequency: seconds };
  await stack.apply(manifest('EdgeNode', { name: 'gw-provider' }, spec));
  const hasEdit = async () => {
    const { stdout } = await agent.cli('config', '--output', 'json');
    return JSON.parse(stdout).statusFrequencySeconds === seconds;
  };
  await until('the machine to have the edit', hasEdit);
}

/** What stands in for Dex at its port. */
async function serve(answer: (response: ServerResponse) => unknown): Promise<Server> {
  const server = createServer({ cert: readFileSync(dex.tls.cert), key: readFileSync(dex.tls.key) }, (_, response) => {
    response.on('error', () => {});
    answer(response);
  });
  await once(server.listen(dexPort, '127.0.0.1'), 'listening');
  return server;
}

const nonsense = (answer: (response: ServerResponse) => unknown) => async () => {
  await dex.stop();
  const server = await serve(answer);
  return async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
    dex = await openDex();
  };
};

/** What happens to the provider; resolves with its end. */
const TROUBLES: Record<string, () => Promise<() => unknown>> = {
  away: async () => {
    await dex.stop();
    return async () => {
      dex = await openDex();
    };
  },
  frozen: async () => {
    dex.pause();
    return () => dex.resume();
  },
  'a server that answers with other JSON': nonsense((response) =>
    response
      .writeHead(200, { 'content-type': 'application/json' })
      .end('{"access_token":{"a":1},"keys":"none","issuer":[]}'),
  ),
  'a server that answers with errors of its own': nonsense((response) =>
    response.writeHead(500, { 'content-type': 'text/html' }).end('<h1>secret of the provider</h1>'),
  ),
  'a server that never ends its answer': nonsense((response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    const more = setInterval(() => response.write(`"${'x'.repeat(1_000)}"`), 5);
    response.once('close', () => clearInterval(more));
  }),
};

/** The others are for the night. */
const BY_DAY: readonly string[] = ['away', 'frozen'];
const isChosen = ([name]: [string, unknown]) => process.env.SKERRY_NIGHTLY !== undefined || BY_DAY.includes(name);

describe.each(Object.entries(TROUBLES).filter(isChosen))('while the provider is %s', (name, begin) => {
  test('known tokens, agents and the readiness of pods stay, and /status alone says why nobody can log in', async () => {
    const [used, unused] = [await newToken(), await newToken()];
    expect(await statusOf(used)).toBe(200);
    expect((await ask('/status')).body.message).toBeUndefined();

    const end = await begin();
    let isOver = false;
    const recover = async () => {
      if (!isOver) await end();
      isOver = true;
    };
    try {
      await onlyLoginsNotice([used, unused]);
      if (name === 'away') await startsWithoutTheProvider(used, recover);
    } finally {
      await recover();
    }
    await newToken();
    expect((await ask('/status')).body.message).toBeUndefined();
  }, 180_000);
});

/** The checks of a phase: `tokens` are known. */
async function onlyLoginsNotice(tokens: readonly string[]): Promise<void> {
  const began = performance.now();
  const refused = await logIn();
  // A reply may take five seconds, whatever it is made of.
  expect(performance.now() - began).toBeLessThan(20_000);
  expect(refused).toMatchObject({
    status: 503,
    body: { message: expect.stringContaining('the OpenID provider cannot be asked') },
  });
  expect(refused.body.message).not.toContain('secret of the provider');
  for (const token of tokens) expect(await statusOf(token)).toBe(200);
  expect(await isReady()).toBe(200);
  await agentFollows();
  const { status, body } = await ask('/status');
  // Agents connect only where it answers 200.
  expect([status, body.status]).toEqual([200, 'online']);
  expect(body.message).toContain(`the OpenID provider cannot be asked: ${dex.issuer}`);
  expect(body.message).not.toContain('secret of the provider');
}

/** A pod that starts meanwhile serves agents, and says of tokens that it cannot tell; it needs no further start. */
async function startsWithoutTheProvider(token: string, end: () => unknown): Promise<void> {
  const late = await stack.startController({ env, isForAgents: true });
  expect(await isReady(late.metricsUrl)).toBe(200);
  expect(await statusOf(token, late.url)).toBe(503);
  expect(await statusOf(stack.token, late.url)).toBe(200);
  await end();
  await until('the later pod to know the provider', async () => {
    const { body } = await ask('/user/login', {
      url: late.url,
      body: { email: DEX_USERS.ann.email, password: DEX_PASSWORD },
    });
    return body.accessToken !== undefined && (await statusOf(body.accessToken, late.url)) === 200;
  });
  await late.stop();
}

test('tokens of keys that the provider no longer has are refused, once its next keys are known', async () => {
  const former = await newToken();
  expect(await statusOf(former)).toBe(200);
  await dex.stop();
  // Its keys are in memory: the next process has others.
  dex = await openDex();
  // It is asked for its keys every ten seconds at most.
  const next = await newToken(30_000);
  expect(await statusOf(next)).toBe(200);
  expect(await statusOf(former)).toBe(401);
  const [, claims] = next.split('.');
  expect(await statusOf(`${former.split('.')[0]}.${claims}.${former.split('.')[2]}`)).toBe(401);
}, 120_000);
