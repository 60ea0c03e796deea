import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { PassThrough, Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { until } from '../../agent/src/engines/_contract.ts';
import type { MemoryEngine } from '../../agent/src/engines/memory/_engine.ts';
import type { MemoryProgram } from '../../agent/src/engines/memory/_program.ts';
import { runContainer, startSessions } from '../../agent/src/sessions/_agent.ts';
import { startStack } from '../sessions/_stack.ts';
import { Sink } from './_sink.ts';
import { type AttachOptions, attach } from './attach.ts';
import { readLog } from './read-log.ts';
import type { FrameSocketRequest } from './socket.ts';

/** The user's end, through the controller's sockets to a program of an agent, which is in memory. */

let stack: Awaited<ReturnType<typeof startStack>>;
beforeAll(async () => {
  stack = await startStack();
  return () => stack[Symbol.asyncDispose]();
});

let engine: MemoryEngine;
let container: string;
let agent: Awaited<ReturnType<typeof startSessions>>;
beforeEach(async () => {
  ({ engine, container } = await runContainer(stack.web));
  agent = await startSessions(stack, { engine, container: () => [...engine.running().values()].flat()[0] });
  return () => agent[Symbol.asyncDispose]();
});

const request = (path: string, role = 'admin') => ({
  url: `${stack.url}${path}`,
  headers: { authorization: `Bearer ${role}` },
});
const exec = (query = 'command=x&tty=false') => request(`/microservices/exec/${stack.web}?${query}`);
const program = (): Promise<MemoryProgram> => until('the program', () => engine.programs[0]);

function start(options: Partial<AttachOptions> = {}, asked: FrameSocketRequest = exec()) {
  const [output, errors] = [new Sink(), new Sink()];
  const notices: string[] = [];
  const end = attach(asked, {
    ...{ output, errors, isTerminal: false, signal: new AbortController().signal },
    notice: (text) => void notices.push(text.trim()),
    ...options,
  });
  return { output, errors, notices, end };
}

test('input, output, errors and the exit code of a program pass, and texts of the controller are no output', async () => {
  const { output, errors, notices, end } = start({ input: Readable.from([Buffer.from('in')]) });
  const started = await program();
  await until('the end of the input', () => started.stdinClosed);
  expect(Buffer.concat(started.written).toString()).toBe('in');
  started.print('out');
  started.print('wrong', 'stderr');
  started.exit(3);
  expect(await end).toEqual({ exitCode: 3 });
  expect([output.text, errors.text]).toEqual(['out', 'wrong']);
  expect(notices).toEqual(['Waiting for the agent of the node to connect.', 'Connected.']);
});

test('a program without --stdin sees the end of its input at once', async () => {
  const { end } = start();
  const started = await program();
  await until('the end of the input', () => started.stdinClosed);
  started.exit(0);
  expect(await end).toEqual({ exitCode: 0 });
});

test('a terminal gets the size of the window, and again when it changes', async () => {
  const output = Object.assign(new Sink(), { columns: 91, rows: 37 });
  const { end } = start({ isTerminal: true, input: new PassThrough(), output }, exec('tty=true'));
  const started = await program();
  await until('the size', () => started.sizes.includes('91x37'));
  Object.assign(output, { columns: 120, rows: 50 });
  output.emit('resize');
  await until('the new size', () => started.sizes.includes('120x50'));
  started.exit(0);
  await end;
});

test('an output that takes nothing stops the program, and all bytes arrive once it does', async () => {
  const { output, end } = start();
  output.isHeld = true;
  const started = await program();
  const piece = Buffer.alloc(256 * 1024, 7);
  for (let i = 0; i < 240; i++) started.print(piece);
  started.exit(0);
  let before = -1;
  while (started.pieces !== before) {
    before = started.pieces;
    await delay(300);
  }
  expect(started.pieces).toBeLessThan(240);
  output.free();
  expect(await end).toEqual({ exitCode: 0 });
  await until('all bytes', () => output.length === 240 * piece.length);
}, 60_000);

test('a program that reads nothing stops the reading of the input', async () => {
  let taken = 0;
  const input = Readable.from(
    (async function* () {
      for (; taken < 240; taken++) yield Buffer.alloc(256 * 1024, 1);
    })(),
    { objectMode: false },
  );
  const { end } = start({ input });
  const started = await program();
  started.readsStdin = false;
  let before = -1;
  while (taken !== before) {
    before = taken;
    await delay(300);
  }
  expect(taken).toBeLessThan(240);
  started.exit(0);
  expect(await end).toEqual({ exitCode: 0 });
}, 60_000);

test('bytes that may lack some, since the connection to the agent was lost, are an error; a terminal goes on', async () => {
  const { end } = start();
  const started = await program();
  started.print('one');
  agent.link.cut();
  expect(await end).toMatchObject({ failed: { reason: expect.stringMatching(/on its way is missing/) } });
  await until('the end of the program', () => started.hasEnded);

  const terminal = start({ isTerminal: true, input: new PassThrough() }, exec('tty=true'));
  const shell = await until('the shell', () => engine.programs[1]);
  await until('the connection', () => terminal.notices.includes('Connected.'));
  agent.link.cut();
  await until('the return', () => terminal.notices.includes('Connected again.'));
  shell.exit(4);
  expect(await terminal.end).toEqual({ exitCode: 4 });
});

test('an interrupted command ends its program', async () => {
  const stop = new AbortController();
  const { end } = start({ signal: stop.signal });
  const started = await program();
  stop.abort();
  expect(await end).toEqual({ interrupted: true });
  await until('the end of the program', () => started.hasEnded);
});

describe('raw mode of a terminal', () => {
  function makeTerminal() {
    const modes: boolean[] = [];
    const setRawMode = (isRaw: boolean) => modes.push(isRaw);
    return { modes, input: Object.assign(new PassThrough(), { isTTY: true, setRawMode }) };
  }

  test('is left as soon as the command is interrupted, and once', async () => {
    const { modes, input } = makeTerminal();
    const stop = new AbortController();
    const { end } = start({ isTerminal: true, input, signal: stop.signal }, exec('tty=true'));
    await until('raw mode', () => modes.length === 1);
    stop.abort();
    expect(modes).toEqual([true, false]);
    expect(await end).toEqual({ interrupted: true });
    expect(modes).toEqual([true, false]);
  });

  test('begins with the session, so that Ctrl-C is a signal while the controller does not answer', async () => {
    const silent = createServer().listen(0, '127.0.0.1');
    const accepted = once(silent, 'connection') as Promise<[Socket]>;
    onTestFinished(() => void silent.close());
    await once(silent, 'listening');
    const { modes, input } = makeTerminal();
    const stop = new AbortController();
    const url = `ws://127.0.0.1:${(silent.address() as AddressInfo).port}/`;
    const { end } = start({ isTerminal: true, input, signal: stop.signal }, { url, headers: {} });
    const [connection] = await accepted;
    onTestFinished(() => void connection.destroy());
    expect(modes).toEqual([]);
    stop.abort();
    expect(await end).toEqual({ interrupted: true });
  });
});

test('an interrupted command whose input is not taken ends within seconds', async () => {
  const stop = new AbortController();
  let taken = 0;
  const input = Readable.from(
    (async function* () {
      for (; taken < 240; taken++) yield Buffer.alloc(256 * 1024, 1);
    })(),
    { objectMode: false },
  );
  const { end } = start({ input, signal: stop.signal });
  const started = await program();
  started.readsStdin = false;
  let before = -1;
  while (taken !== before) {
    before = taken;
    await delay(300);
  }
  expect(taken).toBeLessThan(240);
  stop.abort();
  expect(await end).toEqual({ interrupted: true });
}, 30_000);

test('a refusal has the status and the words of the controller', async () => {
  const viewer = request(`/microservices/exec/${stack.web}`, 'viewer');
  expect(await start({}, viewer).end).toMatchObject({ failed: { status: 403, reason: expect.stringMatching(/exec/) } });
  const unknown = request('/microservices/exec/99999999-9999-4999-8999-999999999999');
  expect(await start({}, unknown).end).toMatchObject({
    failed: { code: 1008, reason: expect.stringMatching(/no microservice with the uuid 9999/) },
  });
  const nowhere: FrameSocketRequest = { url: 'ws://127.0.0.1:1/', headers: {} };
  expect(await start({}, nowhere).end).toMatchObject({
    failed: { code: 1006, reason: expect.stringMatching(/ECONN/) },
  });
});

test('the lines of a log arrive with the times at which they were written, and its end is known', async () => {
  engine.logOf(container).print('one');
  engine.logOf(container).print('two');
  const lines: { text: string; at: number | undefined }[] = [];
  const end = await readLog(
    request(`/microservices/${stack.web}/logs?follow=false`),
    { line: (line) => void lines.push(line), problem: expect.unreachable, notice: () => {} },
    new AbortController().signal,
  );
  expect(end).toMatchObject({ isComplete: true, isProblem: false });
  expect(lines.map(({ text }) => text)).toEqual(['one', 'two']);
  for (const { at } of lines) expect(at).toBeLessThanOrEqual(Date.now());
});
