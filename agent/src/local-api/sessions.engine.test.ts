import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { pushImage } from '../../../hack/image.ts';
import { programFiles, shellImage } from '../../../hack/shell-image.ts';
import type {} from '../../../hack/testing/provided.ts';
import { silentLog } from '../../../src/lib/log.ts';
import { createTestAgent } from '../_agent.ts';
import { parseConfig } from '../domain/config.ts';
import type { CompleteEngine } from '../engine-port/engine.ts';
import { cleanUp, until } from '../engines/_contract.ts';
import { suiteEngines } from '../engines/_outside.ts';
import { type OwnTestEngine, startOwnEngine } from '../engines/_private.ts';
import { openEngine } from '../engines/open.ts';
import { FakeController } from '../link/_fake-controller.ts';
import { systemClock } from '../machine/clock.ts';
import { localMachine } from '../machine/machine.ts';
import type { ExecText } from '../sessions/exec-text.ts';
import { NO_PROCESS } from './_no-process.ts';
import { openText, portOf, refusalOf } from './_text-client.ts';
import { ControlChannels } from './routes/workload/control-channels.ts';
import { localApi } from './routes.ts';
import { listenOnSocket } from './server/server.ts';
import { AdminToken } from './server/token.ts';

/** Exec sessions and log streams on real engines, with curl and the WebSocket of Node as clients. Killed engines with SKERRY_NIGHTLY. */

const NIGHTLY = process.env.SKERRY_NIGHTLY !== undefined;
const run = promisify(execFile);
const FILES = programFiles({ dd: '/bin/dd', tr: '/usr/bin/tr', stty: '/bin/stty' });

/** An agent with one microservice that runs on an engine, and its local API. */
async function startAgent(url: string) {
  const folder = mkdtempSync(join(tmpdir(), 'skerry-sessions-'));
  const uuid = randomUUID();
  const { reference: imageId } = await pushImage(
    inject('registryUrl'),
    'local-sessions/shell',
    '1',
    shellImage({ files: FILES }),
  );
  const controller = await new FakeController().listen();
  const config = parseConfig(`diskDirectory: ${folder}\nrunDirectory: ${folder}/run\n`, join(folder, 'config.yaml'));
  const engines: CompleteEngine[] = [];
  const clock = systemClock();
  const agent = createTestAgent({
    folder,
    engine: (instance) => {
      const engine = openEngine({ url, instance });
      engines.push(engine);
      return engine;
    },
    machine: localMachine(folder),
  });
  const stop = new AbortController();
  const done = agent.run(stop.signal);
  const channels = new ControlChannels(agent);
  const adminToken = new AdminToken(config.tokenFile, agent);
  const api = localApi({
    ...{ agent, adminToken, channels },
    ...NO_PROCESS,
  });
  adminToken.write();
  const token = readFileSync(config.tokenFile, 'utf8').trim();
  const server: Server = await listenOnSocket(config.socket, config.runDirectory, { clock, log: silentLog, api });
  const commands = ['/bin/sh', '-c', 'echo begun; exec sleep 3600'];
  controller.microservices = [
    { uuid, name: 'web', application: 'shop', imageId, registryId: 1, revision: 'r1', commands },
  ];
  await agent.provision(controller.joinString);
  const isRunning = () => controller.microservice(uuid)?.status === 'RUNNING';
  await until('RUNNING', isRunning);
  const where = { socket: config.socket, token };
  /** A request by curl. */
  async function curl(method: string, path: string, body?: unknown) {
    const { stdout } = await run('curl', [
      ...['-sS', '--max-time', '60', '--unix-socket', config.socket, '-X', method],
      ...['-H', `authorization: Bearer ${token}`, '-w', '\n%{http_code}'],
      ...(body === undefined ? [] : ['-H', 'content-type: application/json', '-d', JSON.stringify(body)]),
      `http://agent${path}`,
    ]);
    const at = stdout.lastIndexOf('\n');
    return { status: Number(stdout.slice(at + 1)), body: JSON.parse(stdout.slice(0, at)) };
  }
  async function create(command: string[], options: object = {}) {
    const { status, body } = await curl('POST', '/v1/ms/web/exec/sessions', { command, ...options });
    expect(status, JSON.stringify(body)).toBe(200);
    return body.data as { sessionId: string; wsUrl: string; status: string };
  }
  return {
    ...{ where, uuid, curl, create, agent, isRunning },
    attach: ({ wsUrl }: { wsUrl: string }) => openText<ExecText>(where, wsUrl),
    /** The exit code of a program that takes no input, and all that it writes. */
    async exec(command: string[]) {
      const client = await openText<ExecText>(where, (await create(command, { tty: false, stdin: false })).wsUrl);
      await client.closed;
      const last = client.messages.at(-1) as Extract<ExecText, { stream: 'control' }>;
      return { exitCode: last.exitCode, out: outOf(client.messages) };
    },
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
      channels[Symbol.dispose]();
      stop.abort();
      await done;
      await Promise.all(engines.map((engine) => cleanUp(engine)));
      await controller.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

const outOf = (messages: readonly ExecText[], stream = 'stdout') =>
  messages.flatMap((each) => (each.stream === stream ? [each.line] : [])).join('');

for (const { kind, url } of inject('everyEngine'))
  describe(kind, () => {
    let local: Awaited<ReturnType<typeof startAgent>>;
    beforeAll(async () => {
      local = await startAgent(url);
    }, 120_000);
    afterAll(() => local[Symbol.asyncDispose](), 60_000);

    test('a terminal that curl makes has the size that was asked for, and each later one, and its exit code', async () => {
      const made = await local.create(['sh'], { cols: 99, rows: 33 });
      expect(made.status).toBe('ACTIVE');
      const port = await portOf(local.where.socket);
      const headers = { authorization: `Bearer ${local.where.token}` };
      const ws = new WebSocket(`ws://127.0.0.1:${port}${made.wsUrl}`, { headers } as never);
      const messages: ExecText[] = [];
      const closed = new Promise<number>((resolve) => {
        ws.onclose = ({ code }) => resolve(code);
      });
      ws.onmessage = ({ data }) => messages.push(JSON.parse(String(data)));
      await once(ws as never, 'open');
      ws.send(Buffer.from('stty size\n'));
      await until('the size', () => outOf(messages).includes('33 99'));
      ws.send('{"type":"resize","cols":120,"rows":50}');
      const typing = setInterval(() => ws.send(Buffer.from('stty size\n')), 500);
      await until('the new size', () => outOf(messages).includes('50 120')).finally(() => clearInterval(typing));
      ws.send(Buffer.from('exit 3\n'));
      expect(await closed).toBe(1000);
      expect(messages.at(-1)).toMatchObject({ stream: 'control', exitCode: 3 });
      const { body } = await local.curl('GET', `/v1/ms/web/exec/sessions/${made.sessionId}`);
      expect(body.data).toMatchObject({ running: false, exitCode: 3 });
    }, 60_000);

    test('a program without a terminal has its two streams, and its input as it was sent', async () => {
      const both = await local.attach(
        await local.create(['sh', '-c', 'echo out; echo err >&2; exit 9'], { tty: false }),
      );
      await both.closed;
      expect([outOf(both.messages), outOf(both.messages, 'stderr')]).toEqual(['out\n', 'err\n']);
      expect(both.messages.at(-1)).toMatchObject({ exitCode: 9 });
      const cat = await local.attach(await local.create(['cat'], { tty: false }));
      const text = 'é海😀\ufeff\n'.repeat(3000);
      const bytes = Buffer.from(text);
      for (let at = 0; at < bytes.length; at += 1001) cat.ws.send(bytes.subarray(at, at + 1001));
      cat.ws.send(Buffer.alloc(0));
      await cat.closed;
      expect(outOf(cat.messages)).toBe(text);
      expect(cat.messages.at(-1)).toMatchObject({ exitCode: 0 });
    }, 60_000);

    test('a program that the container does not have ends with its exit code', async () => {
      for (const tty of [false, true]) {
        const { status, body } = await local.curl('POST', '/v1/ms/web/exec/sessions', { command: ['nothing'], tty });
        if (status === 409) expect(body.error.message).toMatch(/could not be started/);
        else {
          const client = await local.attach(body.data);
          await client.closed;
          expect(JSON.stringify(client.messages.at(-1))).toMatch(/"exitCode":12[67]|could not be started/);
        }
      }
    }, 60_000);

    test('a client that does not read stops the program; once it reads, it gets all 10 MB', async () => {
      const flood = 'dd if=/dev/zero bs=100000 count=100 2>/dev/null | tr "\\0" x; echo done > /tmp/done';
      const client = await local.attach(await local.create(['sh', '-c', flood], { tty: false }));
      client.ws.pause();
      const isDone = async () => (await local.exec(['sh', '-c', 'test -e /tmp/done'])).exitCode === 0;
      // Each look takes longer than the whole output would.
      for (let look = 0; look < 3; look++) expect(await isDone()).toBe(false);
      client.ws.resume();
      await client.closed;
      expect(outOf(client.messages).length).toBe(10_000_000);
      expect(await isDone()).toBe(true);
    }, 60_000);

    test('a session that is stopped ends its program in the container', async () => {
      const { sessionId } = await local.create(['sh', '-c', 'echo $$ > /tmp/pid; exec sleep 3000'], { tty: false });
      const running = async () => (await local.exec(['sh', '-c', 'read p < /tmp/pid && kill -0 $p'])).exitCode === 0;
      await until('the program', running);
      expect((await local.curl('DELETE', `/v1/ms/web/exec/sessions/${sessionId}`)).status).toBe(200);
      expect(await running()).toBe(false);
      expect((await refusalOf(local.where, `/v1/ms/web/exec/sessions/${sessionId}:attach`)).status).toBe(404);
    }, 60_000);

    test('a log stream has the times of the engine', async () => {
      const log = await openText<{ ts: string; line: string }>(local.where, '/v1/ms/web/logs:stream?timestamps=true');
      const { ts, line } = await log.until('the line', (each) => each.line.endsWith('begun'));
      expect(line).toBe(`${ts} begun`);
      expect(Date.now() - Date.parse(ts)).toBeLessThan(120_000);
    }, 60_000);

    test('the container has the stamp that the inspection shows', async () => {
      const { body } = await local.curl('GET', '/v1/ms/web');
      expect(body).toMatchObject({
        desiredState: 'running',
        labels: {
          ...{ 'skerry.dev/role': 'workload', 'skerry.dev/scope': 'managed', 'skerry.dev/runtime-engine': kind },
          ...{ 'app.kubernetes.io/instance': 'shop.web', 'app.kubernetes.io/managed-by': 'skerry-agent' },
        },
      });
      expect(Math.abs(Date.now() - Date.parse(body.createdAt))).toBeLessThan(120_000);
      const { out } = await local.exec(['sh', '-c', 'echo $SKERRY_SCOPE $SKERRY_ROLE $SKERRY_RUNTIME_ENGINE']);
      expect(out).toBe(`managed workload ${kind}\n`);
    }, 60_000);

    test('a session ends with its container in the middle, and the log stream continues', async () => {
      const log = await openText<{ line: string }>(local.where, '/v1/ms/web/logs:stream');
      const client = await local.attach(await local.create(['sh']));
      expect((await local.curl('POST', '/v1/ms/web/kill', {})).status).toBe(200);
      expect(await client.closed).toBe(1000);
      expect(client.messages.at(-1)).toMatchObject({ stream: 'control' });
      expect((client.messages.at(-1) as { exitCode?: number }).exitCode).not.toBe(0);
      // A second kill, before the next start, finds nothing to end.
      await local.curl('POST', '/v1/ms/web/start');
      await until('the second run', () => log.messages.filter(({ line }) => line === 'begun').length === 2);
    }, 60_000);
  });

for (const { kind } of suiteEngines())
  describe.runIf(NIGHTLY)(`${kind} that is killed`, () => {
    const started = new AsyncDisposableStack();
    let own: OwnTestEngine;
    let local: Awaited<ReturnType<typeof startAgent>>;

    beforeAll(async () => {
      own = started.use(await startOwnEngine(kind));
      local = started.use(await startAgent(own.url));
    }, 120_000);
    afterAll(() => started.disposeAsync(), 60_000);

    test('ends its sessions without an exit code of their own; a log stream continues, and sessions begin again', async () => {
      const log = await openText<{ line: string }>(local.where, '/v1/ms/web/logs:stream');
      const client = await local.attach(await local.create(['cat'], { tty: false }));
      await own.kill();
      const refused = await local.curl('POST', '/v1/ms/web/exec/sessions', { command: ['cat'] });
      expect([409, 504]).toContain(refused.status);
      await client.closed;
      expect(client.messages.at(-1)).toMatchObject({ stream: 'control' });
      expect((client.messages.at(-1) as { exitCode?: number }).exitCode).not.toBe(0);
      await own.start();
      await until('RUNNING', async () => (await local.curl('GET', '/v1/ms/web?summary=true')).body.state === 'RUNNING');
      const again = async () => (await local.exec(['sh', '-c', 'exit 4']).catch(() => undefined))?.exitCode === 4;
      await until('a session', again);
      expect(log.ws.readyState).toBe(log.ws.OPEN);
    }, 180_000);
  });
