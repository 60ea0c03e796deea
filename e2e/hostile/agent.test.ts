import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, expect, test } from 'vitest';
import { ROUTES } from '../../agent/src/local-api/routes.ts';
import { createStack } from '../_stack.ts';
import { HEADERS, HUGE_NUMBERS, JSON_BODIES, PARAMETERS, QUERIES, TEXTS } from './_attacks.ts';
import { brokenLines, faults, memoryOf } from './_process.ts';
import { createSender, dial, forEach, hear, type Sender, type Sent } from './_send.ts';

/** Hostile requests to the local API of an agent process, at the socket with the admin's token and at the open port. */
const LONG = 600_000;
const MIB = 2 ** 20;
/** MiB after which the heap has the size that it keeps */
const WARMTH = 150;
const AMOUNT = Number(process.env.SKERRY_HOSTILE_MIB ?? 256);

const complaints: string[] = [];

const stack = await createStack();
const controller = await stack.startController({ env: { LOG_LEVEL: 'info' } });
const agent = await stack.startAgent('gw-h', controller);
const run = join(agent.dir, 'data/run');
const token = readFileSync(join(run, 'token'), 'utf8').trim();
const socket = createSender({ socketPath: join(run, 'api.sock') });
const port = createSender({ origin: `http://127.0.0.1:${agent.port}` });
afterAll(async () => {
  socket[Symbol.dispose]();
  port[Symbol.dispose]();
  await stack[Symbol.asyncDispose]();
});

async function attack(what: string, sent: Sent, send: Sender): Promise<number> {
  const tell = (text: string) => complaints.push(`${what}: ${sent.method} ${sent.path.slice(0, 100)}: ${text}`);
  const headers = { ...(send === socket && { authorization: `Bearer ${token}` }), ...sent.headers };
  const heard = await send({ ...sent, headers }).catch((error: Error) => {
    tell(error.message);
    return undefined;
  });
  if (!heard) return 0;
  const { status, text } = heard;
  if (status >= 500 && status !== 501 && !sent.path.includes('health/ready')) tell(`${status} ${text.slice(0, 300)}`);
  if (status >= 400 && status !== 431 && !sent.path.includes('health')) {
    const error = JSON.parse(text || '{}').error;
    for (const member of ['code', 'message', 'requestId'])
      if (typeof error?.[member] !== 'string') tell(`no ${member}: ${text.slice(0, 200)}`);
  }
  return status;
}

function expectNoComplaints(): void {
  const found = complaints.splice(0);
  expect(found.slice(0, 20), `${found.length} complaints`).toEqual([]);
}

/** Routes that stop or reload the agent are left out: a request that succeeds would end the test. */
const isHarmless = ({ path }: { path: string }) => !/\/(stop|reload)$/.test(path);
const routes = ROUTES.filter(isHarmless);

test(
  'every route of the local API but stop and reload answers hostile parameters, queries and headers without a fault',
  async () => {
    for (const send of [socket, port]) {
      await forEach(
        routes.filter(({ path }) => path.includes('{')),
        4,
        async ({ method, path }) => {
          for (const value of PARAMETERS)
            await attack('a parameter', { method, path: path.replace(/\{\w+\}/, value) }, send);
        },
      );
      await forEach(
        routes.filter(({ method, path }) => method === 'GET' && !path.includes('{')),
        4,
        async ({ path }) => {
          for (const query of [
            ...QUERIES,
            '?source=constructor',
            '?tail=__proto__',
            '?tail=1e9',
            '?since=NaN',
            '?follow=constructor',
          ])
            await attack('a query', { method: 'GET', path: path + query }, send);
          for (const [name, headers] of HEADERS) await attack(name, { method: 'GET', path, headers }, send);
        },
      );
      for (const path of [
        '//',
        '///x',
        '/..',
        '/%',
        '/v1/ms/..%2f..',
        '/v1//ms',
        '/V1/MS',
        '/v1/ms/x/y/z',
        '/__proto__',
        '/constructor',
        '/v1/ms?summary=constructor',
      ])
        expect(await attack('a path', { method: 'GET', path }, send)).toBeLessThan(500);
    }
    expectNoComplaints();
  },
  LONG,
);

test(
  'every route of the local API that reads a body, but stop and reload, answers every hostile body without a fault',
  async () => {
    const bodies = [
      ...JSON_BODIES,
      ...TEXTS.flatMap(([name, text]) => [
        {
          name,
          body: JSON.stringify({ provisioningKey: text, signal: text, set: { [text]: text, logLevel: text } }),
          headers: { 'content-type': 'application/json' },
        },
        {
          name,
          body: JSON.stringify({ provisioningKey: `skerry://127.0.0.1:1/${text}?ca=${text}` }),
          headers: { 'content-type': 'application/json' },
        },
      ]),
      ...HUGE_NUMBERS.map((number) => ({
        name: number,
        body: `{"set":{"diskLimit":${number},"statusFrequency":${number},"localApiPort":${number}}}`,
        headers: {},
      })),
    ];
    const writes = routes.filter(({ method }) => method === 'POST' || method === 'PATCH');
    await forEach(writes, 4, async ({ method, path }) => {
      for (const { name, body, headers } of bodies)
        await attack(name, { method, path: path.replace(/\{\w+\}/, 'nobody'), headers, body }, socket);
    });
    expectNoComplaints();
  },
  LONG,
);

test('a request to the local API without a valid token gets 401, and the open port serves nothing but probes', async () => {
  for (const { method, path, access } of ROUTES) {
    if (access === 'open') continue;
    for (const authorization of [
      '',
      'Bearer',
      `Bearer ${token.slice(0, -4)}AAAA`,
      `Bearer ${'a'.repeat(10_000)}`,
      'Bearer e30.e30.e30',
    ]) {
      const asked = path.replace(/\{\w+\}/, 'nobody');
      expect((await socket({ method, path: asked, headers: { authorization } })).status, `${method} ${path}`).toBe(401);
    }
    const { status } = await port({
      method,
      path: path.replace(/\{\w+\}/, 'nobody'),
      headers: { authorization: `Bearer ${token}` },
    });
    expect(status, `${method} ${path} at the open port`).toBe(403);
  }
});

test('a body that is too large for the local API gets 413', async () => {
  const body = JSON.stringify({ provisioningKey: 'x'.repeat(2 * MIB) });
  expect(await attack('a large body', { method: 'POST', path: '/v1/system/provision', body }, socket)).toBe(413);
  expectNoComplaints();
});

test(
  'the local API closes slow and idle connections and answers probes meanwhile',
  async () => {
    const origin = `http://127.0.0.1:${agent.port}`;
    const idle = await Promise.all(Array.from({ length: 200 }, () => dial(origin)));
    const slow = await dial(origin);
    slow.write('GET /v1/health/live HTTP/1.1\r\nHost: a\r\n');
    const drip = setInterval(() => slow.write('X-A: b\r\n'), 500);
    const began = performance.now();
    const ended = hear(slow, 120_000);
    while (performance.now() - began < 5_000) {
      expect((await port({ method: 'GET', path: '/v1/health/live' })).status).toBe(200);
      await sleep(200);
    }
    expect((await ended).text).toMatch(/^(HTTP\/1\.1 408|$)/);
    clearInterval(drip);
    for (const each of [...idle, slow]) each.destroy();
  },
  LONG,
);

test(
  `${AMOUNT} MiB of hostile input do not let the memory of the agent grow`,
  async () => {
    const bodies = JSON_BODIES.filter(({ body }) => body.length > 10_000).map(({ body }) => body);
    bodies.push(Buffer.alloc(12 * MIB, ' '));
    let sent = 0;
    const round = async () =>
      forEach(Array.from({ length: 4 }, () => bodies).flat(), 8, async (body) => {
        await attack('a flood', { method: 'POST', path: '/v1/system/provision', body }, socket);
        sent += body.length;
      });
    // Eight bodies of 12 MiB are read at once: the heap first grows to what these take.
    while (sent < WARMTH * MIB) await round();
    await sleep(1_000);
    const warm = memoryOf(agent.pid).now;
    while (sent < (WARMTH + AMOUNT) * MIB) await round();
    await sleep(2_000);
    const { now, peak } = memoryOf(agent.pid);
    const figures = `${(sent / MIB).toFixed(0)} MiB sent to the agent; RSS ${warm.toFixed(0)} MiB warm, ${now.toFixed(0)} after, peak ${peak.toFixed(0)}`;
    process.stderr.write(`${figures}\n`);
    expect(now - warm, figures).toBeLessThan(64);
    expect(peak, figures).toBeLessThan(384);
    expectNoComplaints();
  },
  LONG,
);

test('after all hostile requests the agent is the same process, its log has no fault and no broken line, and it still answers', async () => {
  process.kill(agent.pid, 0);
  expect(faults(agent.logFile)).toEqual([]);
  expect(brokenLines(agent.logFile)).toEqual([]);
  expect((await agent.cli('status')).code).toBe(0);
});
