import { execFileSync, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { WebSocket } from 'ws';
import { plainView } from '../_web.ts';
import { testStreams } from '../cli/_streams.ts';
import { policySchema } from '../domain/policy.ts';
import { until } from '../engines/_contract.ts';
import type { MemoryProgram } from '../engines/memory/_program.ts';
import { SESSION_LIMIT } from '../sessions/decide.ts';
import { LocalAgent } from './_local-agent.ts';

/** Programs and logs of containers for users of this machine, from the command line to an engine in memory. */

let local: LocalAgent;
const uuid = randomUUID();

beforeEach(async () => {
  local = await LocalAgent.start();
  await local.provision(plainView({ uuid }));
  return () => local[Symbol.asyncDispose]();
});

const program = (): Promise<MemoryProgram> => until('the program', () => local.engine.programs[0]);

/** `ms exec` with streams of its own. */
function exec(streams: Partial<ReturnType<typeof testStreams>>, ...args: string[]) {
  const all = { ...testStreams(), ...streams };
  return { ...all, end: local.cliWith({ streams: all }, 'ms', 'exec', ...args) };
}

/** A client of the route that does not know what it is about. */
async function openSocket(query = '?command=sleep'): Promise<WebSocket> {
  const ws = new WebSocket(`ws://agent/v1/ms/web/exec${query}`, {
    headers: { authorization: `Bearer ${local.token}` },
    createConnection: () => connect(local.config.socket),
  });
  onTestFinished(() => ws.terminate());
  await once(ws, 'open');
  return ws;
}

test('500 exec sockets that send nothing take the sessions of the node, and the command line is answered beside them', async () => {
  const sockets = Array.from({ length: 500 }, () => {
    const ws = new WebSocket('ws://agent/v1/ms/web/exec?command=sleep', {
      headers: { authorization: `Bearer ${local.token}` },
      createConnection: () => connect(local.config.socket),
    });
    onTestFinished(() => ws.terminate());
    return ws.on('error', () => {});
  });
  const inState = (state: number) => sockets.filter(({ readyState }) => readyState === state).length;
  await until('the end of all others', () => inState(WebSocket.CLOSED) === 500 - SESSION_LIMIT, 100_000);
  expect(inState(WebSocket.OPEN)).toBe(SESSION_LIMIT);
  expect(local.engine.programs.length).toBe(SESSION_LIMIT);
  expect(await local.cli('status')).toMatchObject({ code: 0 });
  expect((await local.cli('ms', 'ls')).out).toMatch(/web +RUNNING/);
}, 120_000);

describe('ms exec', () => {
  test('passes any bytes and the exit code, also while the controller is away', async () => {
    await local.controller.close();
    const bytes = Buffer.from(Uint8Array.from({ length: 256 }, (_, i) => i));
    const { output, errors, end } = exec({ input: Readable.from([bytes]) }, '-i', 'shop.web', '--', 'cat', '-n');
    const started = await program();
    expect(started.options).toMatchObject({ command: ['cat', '-n'], tty: false });
    await until('the end of the input', () => started.stdinClosed);
    expect(Buffer.concat(started.written)).toEqual(bytes);
    started.print(bytes);
    started.print('wrong', 'stderr');
    started.exit(3);
    expect(await end).toEqual({ code: 3, out: '', err: '' });
    expect([output.bytes, errors.text]).toEqual([bytes, 'wrong']);
  });

  test('without --stdin shows the program the end of its input at once', async () => {
    const { end } = exec({}, 'web', 'true');
    const started = await program();
    await until('the end of the input', () => started.stdinClosed);
    started.exit(0);
    expect((await end).code).toBe(0);
  });

  test('needs a terminal for --tty, else the program gets none', async () => {
    const { end } = exec({}, '-it', 'web', '--', 'top');
    const started = await program();
    expect(started.options).toMatchObject({ command: ['top'], tty: false });
    started.exit(0);
    expect(await end).toMatchObject({
      code: 0,
      err: 'note: the standard input is no terminal, so the program gets none\n',
    });
  });

  test('without a command is a shell, and Ctrl-C is a key for it before it has written anything', async () => {
    const modes: boolean[] = [];
    const setRawMode = (isRaw: boolean) => modes.push(isRaw);
    const input = Object.assign(new PassThrough(), { isTTY: true, setRawMode });
    const { end } = exec({ input }, 'web');
    const started = await program();
    expect(started.options).toMatchObject({ tty: true, env: ['TERM=xterm-256color'] });
    expect(started.options.command[0]).toBe('sh');
    input.write('\x03');
    await until('the key', () => Buffer.concat(started.written).toString() === '\x03');
    started.exit(130);
    expect((await end).code).toBe(130);
    expect(modes).toEqual([true, false]);
  });

  test('as a process on a terminal passes the size of its window and restores it', async () => {
    const { folder, configFile } = local;
    const file = (name: string) => join(folder, name);
    const agent = `${process.execPath} ${join(import.meta.dirname, '../main.ts')}`;
    writeFileSync(
      file('inside.sh'),
      [
        'stty cols 91 rows 37',
        `tty > ${file('tty.txt')}`,
        `${agent} --config ${configFile} ms exec -it shop.web`,
        'code=$?',
        `stty -a > ${file('after.txt')}`,
        'exit $code',
      ].join('\n'),
    );
    const child = spawn('script', ['-qfec', `sh ${file('inside.sh')}`, '/dev/null'], {
      env: { ...process.env, TERM: 'xterm' },
    });
    let out = '';
    child.stdout.on('data', (data) => {
      out += data;
    });
    const ended = once(child, 'close');
    const started = await program();
    await until('the size', () => started.sizes.includes('91x37'));
    execFileSync('stty', ['-F', readFileSync(file('tty.txt'), 'utf8').trim(), 'cols', '120', 'rows', '50']);
    await until('the new size', () => started.sizes.includes('120x50'));
    started.print('prompt> ');
    await until('the prompt', () => out.includes('prompt> '));
    // A bare line feed is what a full-screen program means by it.
    started.print('down\nbelow ');
    await until('the lines', () => out.includes('below '));
    expect(out).toContain('down\nbelow ');
    child.stdin.write('ls\r\x03\x04');
    await until('the keys', () => Buffer.concat(started.written).toString() === 'ls\r\x03\x04');
    started.exit(3);
    expect(await ended).toEqual([3, null]);
    expect(readFileSync(file('after.txt'), 'utf8')).toMatch(/\sopost .* icanon .* echo /s);
  });

  test('an output that takes nothing stops the program, and all bytes arrive once it does', async () => {
    const held = testStreams().output;
    held.isHeld = true;
    const { end } = exec({ output: held }, 'web', 'cat');
    const started = await program();
    const piece = Buffer.alloc(256 * 1024, 7);
    for (let i = 0; i < 240; i++) started.print(piece);
    started.exit(0);
    let before = -1;
    await until('that nothing is read any more', async () => {
      before = started.pieces;
      await new Promise((resolve) => setTimeout(resolve, 300));
      return before > 0 && started.pieces === before;
    });
    expect(started.pieces).toBeLessThan(240);
    held.free();
    expect((await end).code).toBe(0);
    await until('all bytes', () => held.length === 240 * piece.length);
  });

  test('that is interrupted ends its program', async () => {
    const stop = new AbortController();
    const end = local.cliWith({ signal: stop.signal }, 'ms', 'exec', 'web', '--', 'sleep', '60');
    const started = await program();
    stop.abort();
    expect((await end).code).toBe(130);
    await until('the end of the program', () => started.hasEnded);
  });

  test('whose connection breaks ends its program at once', async () => {
    const ws = await openSocket();
    const started = await program();
    ws.terminate();
    await until('the end of the program', () => started.hasEnded, 20_000);
  });

  test('ends with the agent, and says so', async () => {
    const { end } = exec({}, 'web', 'sleep');
    const started = await program();
    await local[Symbol.asyncDispose]();
    expect(await end).toMatchObject({ code: 1, err: expect.stringContaining('the agent of the node stops') });
    expect(started.hasEnded).toBe(true);
  });

  test('is not what the policy forbids to users of the controller', async () => {
    const { output, end } = exec({}, 'web', 'sleep');
    const started = await program();
    local.agent.setPolicy(policySchema.parse({ exec: false, logs: false }));
    const { requests } = local.controller;
    await until('the list of sessions', () => requests.some(({ path }) => path === '/agent/exec/sessions'));
    started.print('on');
    await until('the output', () => output.text === 'on');
    started.exit(0);
    expect((await end).code).toBe(0);
  });

  test('counts against the limit of sessions of the node', async () => {
    const [first] = await Promise.all(Array.from({ length: SESSION_LIMIT }, () => openSocket()));
    await until('all programs', () => local.engine.programs.length === SESSION_LIMIT);
    expect(await exec({}, 'web', 'true').end).toMatchObject({
      code: 1,
      err: expect.stringContaining(`the node has ${SESSION_LIMIT} sessions, which is the limit`),
    });
    first?.terminate();
    await until('a program that has ended', () => local.engine.programs.some(({ hasEnded }) => hasEnded));
    const { end } = exec({}, 'web', 'true');
    const started = await until('one more program', () => local.engine.programs[SESSION_LIMIT]);
    started.exit(0);
    expect((await end).code).toBe(0);
  });

  const failures: Record<string, [string[], number, RegExp]> = {
    'an unknown microservice': [['boat', '--', 'true'], 4, /\[NOT_FOUND\]: no microservice "boat" on this node/],
    'no microservice': [[], 2, /the microservice is missing/],
    'too many arguments': [['web', ...Array(65).fill('x')], 2, /command: 64 arguments at most, not 65/],
    'a flag of the program without -- before it': [['web', 'ls', '--all'], 2, /"ms exec" has no flag --all/],
  };
  for (const [name, [args, code, message]] of Object.entries(failures))
    test(`of ${name} is refused in words`, async () => {
      expect(await exec({}, ...args).end).toMatchObject({ code, err: expect.stringMatching(message) });
      expect(local.engine.programs).toEqual([]);
    });

  test('of a microservice that does not run is refused in words', async () => {
    expect((await local.cli('ms', 'stop', 'web')).code).toBe(0);
    expect(await exec({}, 'web', 'true').end).toMatchObject({
      code: 1,
      err: 'Error[SESSION_ENDED]: the program could not be started: the microservice does not run\n',
    });
  });
});

describe('the route of exec sessions', () => {
  const path = '/v1/ms/web/exec';

  test('starts a shell with a terminal for a query without a command and without tty', async () => {
    await openSocket('');
    expect((await program()).options).toMatchObject({
      command: [expect.stringMatching(/^sh/), '-c', expect.anything()],
      tty: true,
    });
  });

  test('is for WebSockets', async () => {
    const { status, body } = await local.ask('GET', path);
    expect([status, body.error?.message]).toEqual([400, 'an exec session is a WebSocket: ask for an upgrade']);
  });

  test('is closed to microservices, whatever their role, and to TCP', async () => {
    const everything = { apiGroups: ['*'], resources: ['*'], verbs: ['*'] };
    const [view] = local.controller.microservices;
    const serviceAccount = { name: 'web', rules: [everything] };
    local.controller.change({ microservices: [{ ...view, uuid, revision: 'r2', serviceAccount }] });
    const token = () => local.files.read(`serviceaccounts/${uuid}`)?.get('token');
    const bearer = Buffer.from(await until('the token', token)).toString();
    await until('the rules', async () => (await local.ask('GET', '/v1/ms', undefined, bearer)).status === 200);
    expect((await local.ask('GET', path, undefined, bearer)).status).toBe(403);
    for (const each of [bearer, local.token]) {
      const headers = { authorization: `Bearer ${each}` };
      expect((await fetch(`http://127.0.0.1:${local.port}${path}`, { headers })).status).toBe(403);
    }
  });
});

describe('ms logs', () => {
  function print(line: string, at?: string): void {
    const [container] = [...local.engine.running().values()].flat();
    local.engine.logOf(container?.id ?? '').print(line, at);
  }

  test('takes the flags of kubectl skerry logs', async () => {
    for (let i = 0; i < 150; i++) print(`${i}`, new Date(Date.parse('2026-05-01T10:00:00Z') + i).toISOString());
    const logs = async (...args: string[]) =>
      (await local.cli('ms', 'logs', 'web', ...args)).out.split('\n').length - 1;
    expect(await logs()).toBe(100);
    expect(await logs('--tail', '2')).toBe(2);
    expect(await logs('--tail', '-1')).toBe(150);
    expect(await logs('--since-time', '2026-05-01T10:00:00Z')).toBe(150);
    expect(await logs('--since', '2026-05-01T10:00:00.140Z')).toBe(10);
  });

  test('--previous has the run before the present one, and says when none is known', async () => {
    const former = () => local.cli('ms', 'logs', 'web', '-p');
    const printNow = (line: string) =>
      print(line, new Date([...local.engine.running().values()].flat()[0]?.startedAt ?? 0).toISOString());
    expect(await former()).toMatchObject({
      code: 5,
      err: expect.stringMatching(/no former run: none is known of this container/),
    });
    printNow('former');
    expect((await local.cli('ms', 'restart', 'web')).code).toBe(0);
    printNow('present');
    expect(await former()).toMatchObject({ code: 0, out: 'former\n' });
    expect(await local.cli('ms', 'logs', 'web', '-p', '-f')).toMatchObject({
      code: 2,
      err: expect.stringMatching(/a former run writes nothing more/),
    });
  });

  test('passes on what a container wrote as it is, and escapes it in JSON without a change of its meaning', async () => {
    const line = '\u001b[31mrot \u009b0m\u007f \u00fc\u6d77';
    print(line);
    expect((await local.cli('ms', 'logs', 'web')).out).toBe(`${line}\n`);
    const { out } = await local.cli('ms', 'logs', 'web', '--output', 'json');
    expect(out).not.toMatch(/(?!\n)\p{Cc}/u);
    expect(JSON.parse(out)).toMatchObject({ entries: [{ line }] });
  });

  test('--follow goes on when the container starts again, each line once', async () => {
    const stop = new AbortController();
    let shown = '';
    const out = (text: string) => {
      shown += text;
    };
    print('1');
    const end = local.cliWith({ out, signal: stop.signal }, 'ms', 'logs', '-f', 'web');
    await until('the first line', () => shown === '1\n');
    expect((await local.cli('ms', 'restart', 'web')).code).toBe(0);
    print('2');
    await until('the next line', () => shown === '1\n2\n');
    stop.abort();
    expect((await end).code).toBe(0);
  });

  test('as a process ends with the reader of its output, and at a signal', async () => {
    print('first');
    const follow = () => {
      const main = join(import.meta.dirname, '../main.ts');
      const child = spawn(process.execPath, [main, '--config', local.configFile, 'ms', 'logs', '-f', 'web']);
      onTestFinished(() => void child.kill('SIGKILL'));
      return { child, ended: once(child, 'close') };
    };
    const [piped, stopped] = [follow(), follow()];
    for (const { child } of [piped, stopped]) await once(child.stdout, 'data');
    piped.child.stdout.destroy();
    stopped.child.kill('SIGINT');
    expect(await stopped.ended).toEqual([0, null]);
    const printing = setInterval(() => print('more'), 50);
    expect(await piped.ended.finally(() => clearInterval(printing))).toEqual([0, null]);
  });
});
