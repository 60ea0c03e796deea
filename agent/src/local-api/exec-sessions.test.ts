import { randomUUID } from 'node:crypto';
import { beforeEach, describe, expect, test } from 'vitest';
import { plainView } from '../_web.ts';
import { until } from '../engines/_contract.ts';
import type { MemoryProgram } from '../engines/memory/_program.ts';
import { SESSION_LIMIT } from '../sessions/decide.ts';
import type { ExecText } from '../sessions/exec-text.ts';
import { LocalAgent } from './_local-agent.ts';
import { openText, refusalOf } from './_text-client.ts';

/** Exec sessions over the local API, with clients on its unix socket and an engine in memory. */

let local: LocalAgent;
const uuid = randomUUID();
const PATH = '/v1/ms/web/exec/sessions';

beforeEach(async () => {
  local = await LocalAgent.start();
  await local.provision(plainView({ uuid }));
  return () => local[Symbol.asyncDispose]();
});

const where = () => ({ socket: local.config.socket, token: local.token });
const program = (at = 0): Promise<MemoryProgram> => until('the program', () => local.engine.programs[at]);

interface Made {
  sessionId: string;
  wsUrl: string;
  expiresAt: string;
  status: string;
}

async function create(body: Record<string, unknown> = {}): Promise<Made> {
  const { status, body: answer } = await local.ask('POST', PATH, { command: ['cat'], ...body });
  expect(status, JSON.stringify(answer)).toBe(200);
  return answer.data as unknown as Made;
}

const attach = ({ wsUrl }: Made) => openText<ExecText>(where(), wsUrl);
const statusOf = async ({ sessionId }: Made) => (await local.ask('GET', `${PATH}/${sessionId}`)).body.data;

describe('an exec session', () => {
  test('starts a terminal, passes input, sizes and output, and ends with the exit code', async () => {
    const made = await create({ command: ['sh', '-l'], cols: 80, rows: 24 });
    expect(made).toMatchObject({ status: 'ACTIVE', wsUrl: `/v1/ms/${uuid}/exec/sessions/${made.sessionId}:attach` });
    const left = Date.parse(made.expiresAt) - Date.now();
    expect(left).toBeGreaterThan(590_000);
    expect(left).toBeLessThanOrEqual(600_000);
    const started = await program();
    expect(started.options).toMatchObject({ command: ['sh', '-l'], tty: true, env: ['TERM=xterm-256color'] });
    started.print('before ');
    const client = await attach(made);
    await client.until('what was written before', (each) => each.stream === 'stdout' && each.line === 'before ');
    client.ws.send(Buffer.from('ls\r'));
    client.ws.send('{"type":"resize","cols":120,"rows":50}');
    await until('the size', () => started.sizes.join() === '80x24,120x50');
    await until('the input', () => Buffer.concat(started.written).toString() === 'ls\r');
    expect(await statusOf(made)).toEqual({
      ...{ sessionId: made.sessionId, microserviceUuid: uuid, running: true, exitCode: null },
    });
    started.print('after');
    started.exit(3);
    expect(await client.closed).toBe(1000);
    expect(client.messages).toEqual([
      { stream: 'stdout', line: 'before ' },
      { stream: 'stdout', line: 'after' },
      { stream: 'control', line: 'the program ended with exit code 3', exitCode: 3 },
    ]);
    expect(await statusOf(made)).toMatchObject({ running: false, exitCode: 3 });
    expect((await refusalOf(where(), made.wsUrl)).status).toBe(409);
  });

  test('has the output and the exit code of a program that ended before the client came', async () => {
    const made = await create({ tty: false });
    expect(made.status).toBe('PENDING');
    const started = await program();
    started.print('out');
    started.print('err', 'stderr');
    started.exit(0);
    await until('the end', async () => (await statusOf(made))?.running === false);
    const client = await attach(made);
    expect(await client.closed).toBe(1000);
    expect(client.messages).toEqual([
      { stream: 'stdout', line: 'out' },
      { stream: 'stderr', line: 'err' },
      { stream: 'control', line: 'the program ended with exit code 0', exitCode: 0 },
    ]);
  });

  test('an empty message ends the input, and one without an output has none', async () => {
    const made = await create({ tty: false, stdout: false });
    const client = await attach(made);
    const started = await program();
    client.ws.send(Buffer.alloc(0));
    await until('the end of the input', () => started.stdinClosed);
    started.print('hidden');
    started.print('shown', 'stderr');
    started.exit(0);
    await client.closed;
    expect(client.messages.map(({ line }) => line)).toEqual(['shown', 'the program ended with exit code 0']);
  });

  test('ends with a reason when its client sends any other text, and its program with it', async () => {
    const made = await create();
    const client = await attach(made);
    const reason = new Promise((resolve) => client.ws.on('close', (_code, text) => resolve(String(text))));
    client.ws.send('ls\n');
    expect(await client.closed).toBe(1008);
    expect(await reason).toMatch(/a text message is \{"type":"resize".*input is sent as binary messages/);
    const started = await program();
    await until('the end of the program', () => started.hasEnded);
    expect(started.written).toEqual([]);
  });

  test('ends with its client, and is not known any more', async () => {
    const made = await create();
    (await attach(made)).ws.terminate();
    const started = await program();
    await until('the end of the program', () => started.hasEnded);
    await until('404', async () => (await local.ask('GET', `${PATH}/${made.sessionId}`)).status === 404);
  });

  test('is stopped with its program, whether it has a client or not', async () => {
    for (const hasClient of [false, true]) {
      const made = await create();
      const client = hasClient ? await attach(made) : undefined;
      const { status, body } = await local.ask('DELETE', `${PATH}/${made.sessionId}`);
      expect([status, body.data]).toEqual([200, { status: 'ok', sessionId: made.sessionId }]);
      expect((await program(hasClient ? 1 : 0)).hasEnded).toBe(true);
      if (client) expect(await client.closed).toBe(1000);
      expect((await local.ask('DELETE', `${PATH}/${made.sessionId}`)).status).toBe(404);
    }
  });

  test('has one client', async () => {
    const made = await create();
    await attach(made);
    expect(await refusalOf(where(), made.wsUrl)).toMatchObject({
      status: 409,
      text: expect.stringContaining('has a client already'),
    });
  });

  test('keeps its memory bounded for a client that does not read, and gives it everything once it does', async () => {
    const made = await create({ tty: false });
    const client = await attach(made);
    client.ws.pause();
    const started = await program();
    const count = 320;
    for (let i = 0; i < count; i++) started.print(Buffer.alloc(32 * 1024, i % 2 ? 'a' : 'b'));
    started.exit(0);
    let before = -1;
    await until('that nothing is read any more', async () => {
      before = started.pieces;
      await new Promise((resolve) => setTimeout(resolve, 200));
      return before > 0 && started.pieces === before;
    });
    expect(started.pieces).toBeLessThan(count);
    client.ws.resume();
    await client.closed;
    const received = client.messages.reduce(
      (sum, { stream, line }) => sum + (stream === 'stdout' ? line.length : 0),
      0,
    );
    expect(received).toBe(count * 32 * 1024);
    expect(client.messages.at(-1)).toMatchObject({ exitCode: 0 });
  });

  test('ends with the agent, which says so', async () => {
    const client = await attach(await create());
    const started = await program();
    await local[Symbol.asyncDispose]();
    await client.closed;
    expect(client.messages).toEqual([{ stream: 'control', line: 'the agent of the node stops', exitCode: null }]);
    expect(started.hasEnded).toBe(true);
  });

  test('ends with its container in the middle', async () => {
    const client = await attach(await create());
    const [container] = await local.engine.containers();
    local.engine.exit(container?.id ?? '', 1);
    await client.closed;
    expect(client.messages.at(-1)).toMatchObject({ stream: 'control', exitCode: 137 });
  });

  test('ends with the engine in the middle, in words and without an exit code', async () => {
    const made = await create();
    const client = await attach(made);
    (await program()).lose();
    await client.closed;
    expect(client.messages).toEqual([{ stream: 'control', line: 'the engine does not answer', exitCode: null }]);
    expect(await statusOf(made)).toMatchObject({ running: false, exitCode: null });
  });

  test('counts against the limit of sessions of the node, of which 200 at once take no more', async () => {
    const answers = await Promise.all(
      Array.from({ length: 200 }, async () => local.ask('POST', PATH, { command: ['cat'], tty: false })),
    );
    const made = answers.filter(({ status }) => status === 200).map(({ body }) => body.data as unknown as Made);
    expect(made.length).toBe(10);
    const refused = answers.find(({ status }) => status !== 200);
    expect(refused).toMatchObject({
      status: 409,
      body: { error: { message: expect.stringMatching(/which is the limit/) } },
    });
    for (const each of made) await attach(each);
    while (local.engine.programs.length < SESSION_LIMIT) await attach(await create());
    expect(await local.ask('POST', PATH, { command: ['cat'] })).toMatchObject({
      body: { error: { code: 'CONFLICT', message: expect.stringContaining(`${SESSION_LIMIT} sessions`) } },
    });
  }, 60_000);

  const wrong: Record<string, [Record<string, unknown>, RegExp]> = {
    'no command': [{ command: undefined }, /command is required/],
    'an empty command': [{ command: [] }, /command is not at least 1 items long/],
    'an empty program': [{ command: [''] }, /the program is empty/],
    'a command of 65 arguments': [{ command: Array(65).fill('x') }, /64 arguments at most, not 65/],
    'a size of 0': [{ cols: 0, rows: 1 }, /cols "0" is not a whole number from 1 to 65535/],
    'a width alone': [{ cols: 80 }, /cols: with rows, or without both/],
    'a text for tty': [{ tty: 'yes' }, /tty "yes" is not true or false/],
  };
  for (const [what, [body, message]] of Object.entries(wrong))
    test(`with ${what} is refused`, async () => {
      expect(await local.ask('POST', PATH, { command: ['cat'], ...body })).toMatchObject({
        status: 400,
        body: { error: { code: 'INVALID_ARGUMENT', message: expect.stringMatching(message) } },
      });
      expect(local.engine.programs).toEqual([]);
    });

  test('is 409 for a microservice that does not run, and 404 for an unknown one', async () => {
    expect((await local.cli('ms', 'stop', 'web')).code).toBe(0);
    expect((await local.ask('POST', PATH, { command: ['cat'] })).body.error).toMatchObject({
      code: 'CONFLICT',
      message: 'the microservice does not run',
    });
    expect((await local.ask('POST', '/v1/ms/boat/exec/sessions', { command: ['cat'] })).status).toBe(404);
  });
});

describe('the handshake of an exec session', () => {
  test('is refused of an unknown session, and of the session of another microservice, before the upgrade', async () => {
    const other = randomUUID();
    const { controller } = local;
    controller.change({ microservices: [...controller.microservices, plainView({ uuid: other, name: 'db' })] });
    await until('the other one', () => controller.microservice(other)?.status === 'RUNNING');
    const { sessionId } = await create();
    for (const path of [`${PATH}/${randomUUID()}:attach`, `/v1/ms/db/exec/sessions/${sessionId}:attach`])
      expect(await refusalOf(where(), path)).toMatchObject({ status: 404, text: expect.stringContaining('NOT_FOUND') });
    expect((await local.ask('GET', `/v1/ms/db/exec/sessions/${sessionId}`)).status).toBe(404);
    expect((await local.ask('DELETE', `/v1/ms/db/exec/sessions/${sessionId}`)).status).toBe(404);
  });

  test('is refused of a web page of any other machine', async () => {
    const { wsUrl } = await create();
    for (const origin of ['https://evil.example', 'null', 'http://localhost.evil.example'])
      expect((await refusalOf(where(), wsUrl, { origin })).status).toBe(403);
    expect(await statusOf({ sessionId: wsUrl.split('/').at(-1)?.split(':')[0] } as Made)).toMatchObject({
      running: true,
    });
  });

  test('is refused with the token of a microservice, and over TCP', async () => {
    const { wsUrl } = await create();
    const answer = await fetch(`http://127.0.0.1:${local.port}${wsUrl}`, {
      headers: { authorization: `Bearer ${local.token}` },
    });
    expect(answer.status).toBe(403);
    expect((await refusalOf({ ...where(), token: 'x' }, wsUrl)).status).toBe(401);
  });
});
