import { randomUUID } from 'node:crypto';
import { beforeEach, describe, expect, test } from 'vitest';
import { plainView } from '../_web.ts';
import { until } from '../engines/_contract.ts';
import { LocalAgent } from './_local-agent.ts';
import { openText, portOf, refusalOf } from './_text-client.ts';

/** Logs over WebSockets of the local API, on an engine in memory. */

let local: LocalAgent;
const uuid = randomUUID();
const PATH = '/v1/ms/web/logs:stream';

beforeEach(async () => {
  local = await LocalAgent.start();
  await local.provision(plainView({ uuid }));
  return () => local[Symbol.asyncDispose]();
});

interface Line {
  ts: string;
  stream: string;
  line: string;
}

const where = () => ({ socket: local.config.socket, token: local.token });
const open = (query = '', path = PATH) => openText<Line>(where(), path + query);

function print(line: string, at?: string): void {
  const [container] = [...local.engine.running().values()].flat();
  local.engine.logOf(container?.id ?? '').print(line, at);
}

const AT = '2026-05-01T10:00:00.';

describe('the log stream of a microservice', () => {
  test('has the last 50 lines with the time of the engine, and each new one', async () => {
    for (let i = 100; i < 160; i++) print(`${i}`, `${AT}${i}Z`);
    const log = await open();
    await log.until('the last line', ({ line }) => line === '159');
    expect(log.messages).toHaveLength(50);
    expect(log.messages[0]).toEqual({ ts: `${AT}110Z`, stream: 'stdout', line: '110' });
    print('new', `${AT}900Z`);
    expect(await log.until('the new line', ({ line }) => line === 'new')).toMatchObject({ ts: `${AT}900Z` });
  });

  test('takes tail, since, until and timestamps, and ends when it has all until then', async () => {
    for (let i = 100; i < 160; i++) print(`${i}`, `${AT}${i}Z`);
    const last = await open('?tail=2');
    await last.until('the last line', ({ line }) => line === '159');
    expect(last.messages).toHaveLength(2);
    const some = await open(`?since=${AT}120Z&until=${AT}122Z&timestamps=true`);
    expect(await some.closed).toBe(1000);
    expect(some.messages.map(({ line }) => line)).toEqual([120, 121, 122].map((at) => `${AT}${at}Z ${at}`));
  });

  test('continues when the container starts again', async () => {
    print('1');
    const log = await open();
    await log.until('the first line', ({ line }) => line === '1');
    expect((await local.cli('ms', 'restart', 'web')).code).toBe(0);
    print('2');
    await log.until('the next line', ({ line }) => line === '2');
    expect(log.messages.map(({ line }) => line)).toEqual(['1', '2']);
  });

  test('is refused with HTTP before the upgrade', async () => {
    const refusals: [string, number][] = [
      [`${PATH}?tail=0`, 400],
      [`${PATH}?since=yesterday`, 400],
      [`${PATH}?timestamps=perhaps`, 400],
      ['/v1/ms/boat/logs:stream', 404],
      ['/v1/system/logs:stream?tailLines=x', 400],
    ];
    for (const [path, status] of refusals) expect((await refusalOf(where(), path)).status, path).toBe(status);
    expect((await refusalOf(where(), PATH, { origin: 'https://evil.example' })).status).toBe(403);
    expect((await local.ask('GET', PATH)).status).toBe(400);
  });

  test('is served to a client that nobody here wrote', async () => {
    print('for everyone');
    const port = await portOf(local.config.socket);
    const ws = new WebSocket(`ws://127.0.0.1:${port}${PATH}`, {
      headers: { authorization: `Bearer ${local.token}` },
    } as never);
    const received = await new Promise<string>((resolve) => {
      ws.onmessage = ({ data }) => resolve(String(data));
    });
    expect(JSON.parse(received)).toMatchObject({ line: 'for everyone' });
    ws.close();
  });

  test('ends with the agent, which says so', async () => {
    const log = await openText<{ error: string }>(where(), PATH);
    await local[Symbol.asyncDispose]();
    expect(await log.closed).toBe(1000);
    expect(log.messages.at(-1)).toEqual({ error: 'the agent of the node stops' });
  });

  test('is one of 50 sessions, also among 200 that say nothing', async () => {
    const answers = await Promise.all(
      Array.from({ length: 200 }, () =>
        open().then(
          () => 'open',
          () => 'refused',
        ),
      ),
    );
    expect(answers.filter((answer) => answer === 'open')).toHaveLength(50);
    expect((await refusalOf(where(), PATH)).status).toBe(409);
  }, 60_000);
});

describe('a microservice whose role grants logs', () => {
  async function bearer(): Promise<string> {
    const [view] = local.controller.microservices;
    const rules = [{ apiGroups: ['*'], resources: ['microservices'], verbs: ['get'] }];
    local.controller.change({
      microservices: [{ ...view, uuid, revision: 'r2', serviceAccount: { name: 'web', rules } }],
    });
    const token = await until('the token', () => local.files.read(`serviceaccounts/${uuid}`)?.get('token'));
    const text = Buffer.from(token).toString();
    await until('the rules', async () => (await local.ask('GET', '/v1/ms', undefined, text)).status === 200);
    return text;
  }

  test('reads logs of its application, five at once, and never the log of the agent', async () => {
    const token = await bearer();
    const own = { ...where(), token };
    for (let i = 0; i < 5; i++) await openText(own, PATH);
    expect(await refusalOf(own, PATH)).toMatchObject({ status: 409, text: expect.stringContaining('5 logs') });
    await open();
    expect((await refusalOf(own, '/v1/system/logs:stream')).status).toBe(403);
  });
});

describe('the log stream of the agent', () => {
  test('has the former entries, and each new one', async () => {
    const log = await open('', '/v1/system/logs:stream');
    await log.until('the first entry', ({ line }) => JSON.parse(line).message === 'Hello');
    local.logs.write({ timestamp: '2026-02-01T00:00:00.000Z', level: 'INFO', message: 'again' });
    expect(await log.until('the new entry', ({ line }) => JSON.parse(line).message === 'again')).toMatchObject({
      ts: '2026-02-01T00:00:00.000Z',
      stream: 'stdout',
    });
  });
});
