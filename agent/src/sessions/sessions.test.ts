import { join } from 'node:path';
import { beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { startStack } from '../../../src/sessions/_stack.ts';
import { FRAME_TYPES as T } from '../../../src/wire/frames.ts';
import { SESSION_TIMES } from '../../../src/wire/sessions.ts';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { until } from '../engines/_contract.ts';
import type { MemoryEngine } from '../engines/memory/_engine.ts';
import type { MemoryProgram } from '../engines/memory/_program.ts';
import { systemClock } from '../machine/clock.ts';
import { programsOnDisk } from '../machine/started-programs.ts';
import { runContainer, startSessions } from './_agent.ts';

/** Sessions from a user's socket through the controller's sockets to a program, which is in memory. */

let stack: Awaited<ReturnType<typeof startStack>>;
beforeAll(async () => {
  stack = await startStack();
  return () => stack[Symbol.asyncDispose]();
});

let engine: MemoryEngine;
let container: string;
beforeEach(async () => {
  ({ engine, container } = await runContainer(stack.web));
});

const exec = (query = '') => stack.user(`/microservices/exec/${stack.web}${query}`);
const logs = (query = '') => stack.user(`/microservices/${stack.web}/logs${query}`);
const program = (): Promise<MemoryProgram> => until('the program', () => engine.programs[0]);

/** The container of the microservice, as the supervisor of an agent knows it. */
const shown = () => [...engine.running().values()].flat()[0];

/** The sessions of an agent, until the end of the test. */
async function start(options: Partial<Parameters<typeof startSessions>[1]> = {}) {
  const agent = await startSessions(stack, { engine, container: shown, ...options });
  onTestFinished(() => agent[Symbol.asyncDispose]());
  return agent;
}

/** An agent, a user with an exec session, and the program that started for it. */
async function begin(query?: string, options?: Parameters<typeof start>[0]) {
  const agent = await start(options);
  const user = await exec(query);
  return { agent, user, started: await program() };
}

describe('an exec session', () => {
  test('passes bytes, sizes and the end of input on, and brings the exit code back', async () => {
    const { user, started } = await begin('?command=cat&command=-&tty=true');
    expect(started.options).toMatchObject({ command: ['cat', '-'], tty: true });
    const all = Uint8Array.from({ length: 256 }, (_, i) => i);
    user.send(T.CONTROL, '{"resize":{"cols":132,"rows":43}}');
    user.send(T.STDIN, all);
    user.send(T.CONTROL, '{"stdinClosed":true}');
    await until('the end of the input', () => started.stdinClosed);
    expect(Buffer.concat(started.written)).toEqual(Buffer.from(all));
    expect(started.sizes).toEqual(['132x43']);
    started.print(Buffer.from(all));
    expect(Buffer.from((await user.until('STDOUT')).data)).toEqual(Buffer.from(all));
    started.print('wrong', 'stderr');
    await user.until('STDERR wrong');
    started.exit(3);
    expect((await user.closed).code).toBe(1000);
    expect(user.seen.slice(-2)).toEqual(['CONTROL {"exitCode":3}', 'CLOSE the program ended with exit code 3']);
  });

  test('without a command is a shell with a terminal, and says so when there is none', async () => {
    const { user, started } = await begin();
    expect(started.options).toMatchObject({ tty: true, env: ['TERM=xterm-256color'] });
    expect(started.options.command[0]).toBe('sh');
    started.exit(127);
    await user.until('CLOSE the container has no shell');
    expect(user.seen.join()).not.toContain('exitCode');
  });

  test('ends in words and without an exit code when the engine ends', async () => {
    await start();
    const user = await exec();
    (await program()).lose();
    expect((await user.closed).code).toBe(1000);
    expect(user.seen.at(-1)).toBe('CLOSE the engine does not answer');
    expect(user.seen.join()).not.toContain('exitCode');
  });

  test('ends its program when the user leaves', async () => {
    const { user, started } = await begin();
    user.ws.close();
    await until('the end of the program', () => started.hasEnded);
  });

  test('lives on while the connection is lost', async () => {
    const { user, started, agent } = await begin();
    started.print('before');
    await user.until('STDOUT before');
    agent.link.cut();
    await user.until('STDERR Connected again.');
    expect(started.hasEnded).toBe(false);
    started.print('after');
    await user.until('STDOUT after');
    user.send(T.STDIN, 'typed');
    await until('the input', () => String(Buffer.concat(started.written)) === 'typed');
    expect(engine.programs).toHaveLength(1);
  });

  test('a user that does not read stops the program, not the memory of the agent', async () => {
    const { user, started } = await begin();
    user.ws.pause();
    const piece = Buffer.alloc(256 * 1024, 'x');
    const count = 240;
    for (let i = 0; i < count; i++) started.print(piece);
    let last = -1;
    await until('that nothing is read any more', async () => {
      const before = last;
      last = started.pieces;
      await new Promise((resolve) => setTimeout(resolve, 200));
      return last > 0 && last === before;
    });
    expect(last).toBeLessThan(count);
    user.ws.terminate();
    await until('the end of the program', () => started.hasEnded);
  });

  test('what a program does not read waits, and nothing is lost', async () => {
    const { user, started } = await begin();
    started.readsStdin = false;
    const piece = Buffer.alloc(256 * 1024, 'y');
    for (let i = 0; i < 32; i++) user.send(T.STDIN, piece);
    await until('the first piece', () => started.written.length === 1);
    started.read();
    const bytes = () => started.written.reduce((sum, { length }) => sum + length, 0);
    await until('all of it', () => bytes() === 32 * piece.length);
  });

  test('the policy of the machine refuses it in words, and ends a session that runs', async () => {
    const { user, started, agent } = await begin();
    agent.setPolicy({ exec: false });
    await user.until('CLOSE the policy of the machine allows no exec sessions');
    await until('the end of the program', () => started.hasEnded);
    const another = await exec();
    await another.until('CLOSE the policy of the machine allows no exec sessions');
    const log = await logs('?follow=false');
    await log.until('LOG_STOP');
    expect(engine.programs).toHaveLength(1);
  });

  test('in a microservice without a running container is refused in words', async () => {
    await start({ container: () => undefined });
    const user = await exec();
    await user.until('CLOSE the program could not be started: the microservice does not run');
  });

  test('on an engine without the capability is refused in words', async () => {
    await start({ engine: { capabilities: new Set() } });
    const user = await exec();
    await user.until(
      'CLOSE the program could not be started: the container engine of this machine starts no programs in containers',
    );
    const log = await logs('?follow=false');
    await log.until('LOG_ERROR the container engine of this machine keeps no logs of containers');
  });

  test('of a user that does not read does not keep the agent from its end', async () => {
    const clock = {
      ...systemClock(),
      after: (ms: number, callback: () => void) => systemClock().after(ms / 20, callback),
    };
    const { agent, user, started } = await begin('', { clock });
    user.ws.pause();
    for (let i = 0; i < 240; i++) started.print(Buffer.alloc(256 * 1024, 'x'));
    let before = -1;
    while (started.pieces !== before) {
      before = started.pieces;
      await new Promise((resolve) => setTimeout(resolve, 300));
    }
    await agent[Symbol.asyncDispose]();
    expect(started.hasEnded).toBe(true);
    user.ws.terminate();
  });

  test('brings the exit code to a user who reads on long after its end, also when the connection was lost meanwhile', async () => {
    const { user, started, agent } = await begin('?command=cat');
    user.ws.pause();
    await until('a link that takes nothing', async () => {
      const before = started.pieces;
      started.print(Buffer.alloc(256 * 1024, 'z'));
      await until('the piece to be taken', () => started.pieces > before);
      await new Promise((resolve) => setTimeout(resolve, 10));
      return agent.link.isFull();
    });
    started.exit(3);
    await new Promise((resolve) => setTimeout(resolve, 1.2 * SESSION_TIMES.close));
    agent.link.cut();
    user.ws.resume();
    await user.until('CONTROL {"exitCode":3}');
    expect((await user.closed).code).toBe(1000);
    expect(user.seen.filter((one) => one.startsWith('CONTROL'))).toHaveLength(1);
  }, 60_000);

  test('continues when the clock of the machine jumps, also with another connection', async () => {
    const clock = { ...systemClock(), wall: () => Date.now() + skew };
    let skew = 0;
    const agent = await start({ clock });
    const [user, log] = [await exec(), await logs()];
    const started = await program();
    // A session that is not connected yet does not connect again.
    engine.logOf(container).print('begun');
    await log.until('LOG_LINE begun');
    for (const jump of [3_600_000, -3_600_000]) {
      skew = jump;
      agent.link.cut();
      await until('both to be connected again', () => {
        const count = (words: string) => [...user.seen, ...log.seen].filter((one) => one.endsWith(words)).length;
        return count('Connected again.') + count('connected again') >= (jump > 0 ? 2 : 4);
      });
      started.print(`output ${jump}`);
      engine.logOf(container).print(`line ${jump}`);
      await user.until(`STDOUT output ${jump}`);
      await log.until(`LOG_LINE line ${jump}`);
    }
    expect(started.hasEnded).toBe(false);
    expect(log.seen.filter((one) => one.startsWith('LOG_LINE line'))).toHaveLength(2);
  });

  test('whose agent was killed ends when the agent is back, and so does its program', async () => {
    const programs = programsOnDisk(join(temporaryFolder(), 'programs'));
    const { agent: killed, user, started } = await begin('', { programs });
    expect(programs.left()).toEqual([{ container, id: '1' }]);
    killed.link.close();
    const { endProgram } = engine;
    engine.endProgram = async () => {
      engine.endProgram = endProgram;
      throw new Error('the engine does not answer');
    };
    await start({ programs });
    await user.until('CLOSE the agent was started again, and what ran in this session has ended');
    await until('the end of the program', () => started.hasEnded);
    await until('that it is forgotten', () => programs.left().length === 0);
  });

  test('leaves nothing to a next process of the agent when its program has ended', async () => {
    const programs = programsOnDisk(temporaryFolder());
    await start({ programs });
    const user = await exec();
    (await program()).exit(0);
    await user.closed;
    expect(programs.left()).toEqual([]);
  });

  test('ends with the agent, and says so', async () => {
    const { agent, user, started } = await begin();
    await agent[Symbol.asyncDispose]();
    await user.until('CLOSE the agent of the node stops');
    expect(started.hasEnded).toBe(true);
  });
});

test('of sizes that follow each other within a moment the engine gets the last one last', async () => {
  const { user, started } = await begin('?command=sh&tty=true');
  const released = Promise.withResolvers<void>();
  const asked: string[] = [];
  const set: string[] = [];
  started.resize = async (columns, rows) => {
    asked.push(`${columns}x${rows}`);
    // As an engine that is busy with the first request when the others come.
    if (asked.length === 1) await released.promise;
    set.push(`${columns}x${rows}`);
  };
  for (const cols of [100, 110, 120]) user.send(T.CONTROL, JSON.stringify({ resize: { cols, rows: 50 } }));
  user.send(T.STDIN, 'x');
  await until('what came behind the sizes', () => started.written.length > 0);
  expect(asked).toEqual(['100x50']);
  released.resolve();
  await until('the last size', () => set.includes('120x50'));
  expect(set.at(-1)).toBe('120x50');
});

describe('a log session', () => {
  const linesOf = (user: Awaited<ReturnType<typeof logs>>) =>
    user.frames.flatMap(({ type, notice, data }) =>
      type === T.LOG_LINE && !notice ? [String(Buffer.from(data))] : [],
    );

  test('has the last lines, then those that come, also after the container started again and the link was cut', async () => {
    const agent = await start();
    for (const line of ['1', '2', '3']) engine.logOf(container).print(line);
    const user = await logs('?tail=2');
    await user.until('LOG_LINE 3');
    engine.exit(container, 1);
    engine.logOf(container).print('4');
    await engine.start(container);
    engine.logOf(container).print('5');
    await user.until('LOG_LINE 5');
    agent.link.cut();
    await user.until('LOG_LINE connected again');
    engine.logOf(container).print('6');
    await user.until('LOG_LINE 6');
    expect(linesOf(user)).toEqual(['2', '3', '4', '5', '6']);
  });

  test('that does not follow ends with its last line', async () => {
    await start();
    engine.logOf(container).print('only');
    const user = await logs('?follow=false');
    await user.until('LOG_STOP');
    expect(linesOf(user)).toEqual(['only']);
    expect((await user.closed).code).toBe(1000);
  });

  test('of the former run has its lines alone', async () => {
    const [running] = await engine.containers();
    if (!running) throw new Error('there is no container');
    const at = running.startedAt;
    for (const [line, ms] of [
      ['first', 100],
      ['former', 2_100],
      ['present', 4_100],
    ] as const)
      engine.logOf(container).print(line, new Date(at + ms).toISOString());
    const present = { ...running, startedAt: at + 4_000 };
    const runs = { id: container, startedAt: at + 4_000, finishedAt: 0, begins: at + 3_500, former: at + 1_500 };
    const agent = await start({ container: () => present, runsOf: () => runs });
    const user = await logs('?previous=true');
    await user.until('LOG_STOP');
    expect(linesOf(user)).toEqual(['former']);
    const local: string[] = [];
    const asked = { tail: 10, previous: true };
    for await (const { line } of agent.sessions.local.logs(stack.web, asked, new AbortController().signal))
      local.push(line);
    expect(local).toEqual(['former']);
  });

  test('of a former run that is not known is refused in words', async () => {
    await start();
    const user = await logs('?previous=true');
    await user.until('LOG_STOP');
    expect(user.seen.at(-2)).toMatch(/^LOG_ERROR no former run: none is known of this container;/);
  });

  const failed = {
    status: 'FAILED',
    reason: 'ImagePullFailed',
    errorMessage: 'manifest unknown',
  } as const;
  const NOT_STARTED =
    'LOG_ERROR the microservice has not started, so there is no log: FAILED (ImagePullFailed): manifest unknown';

  test('of a microservice that never started has the error of its start, and ends', async () => {
    const agent = await start({ container: () => undefined, stateOf: () => failed });
    const user = await logs('?follow=false');
    await user.until('LOG_STOP');
    expect(user.seen.slice(-2)).toEqual([NOT_STARTED, 'LOG_STOP']);
    const read = () => agent.sessions.local.logs(stack.web, { tail: 1 }, new AbortController().signal);
    expect(read).toThrow('manifest unknown');
  });

  test('that follows one that never started has the error of its start, and goes on with its lines', async () => {
    let isThere = false;
    await start({ stateOf: () => failed, container: () => (isThere ? shown() : undefined) });
    const user = await logs();
    await user.until(NOT_STARTED);
    engine.logOf(container).print('begun');
    isThere = true;
    await user.until('LOG_LINE begun');
  });

  test('of a container that has ended has its lines, and a terminal is refused', async () => {
    const [ended] = await engine.containers();
    engine.logOf(container).print('panic');
    engine.exit(container, 1);
    await start({ container: () => ended && { ...ended, state: 'exited' } });
    const user = await logs('?follow=false');
    await user.until('LOG_STOP');
    expect(linesOf(user)).toEqual(['panic']);
    const terminal = await exec();
    await terminal.until('CLOSE the program could not be started: the microservice does not run');
  });

  test('that does not follow and is cut while its lines are on their way says that lines may be missing', async () => {
    const agent = await start();
    const rest = Promise.withResolvers<void>();
    engine.logs = async function* () {
      yield { line: 'first', ts: '2026-01-01T00:00:01Z', stream: 'stdout' };
      await rest.promise;
      yield { line: 'last', ts: '2026-01-01T00:00:02Z', stream: 'stdout' };
    };
    const user = await logs('?follow=false');
    await user.until('LOG_LINE first');
    agent.link.cut();
    await user.until('LOG_LINE connected again');
    rest.resolve();
    await user.until('LOG_STOP');
    const problems = user.seen.filter((one) => one.startsWith('LOG_ERROR'));
    expect(problems).toEqual(['LOG_ERROR the connection to the node was lost meanwhile, lines may be missing']);
  });

  test('of the node has what the agent logs, and the policy can refuse it', async () => {
    const ownLog = async function* () {
      yield { line: 'of the agent', ts: '2026-01-01T00:00:01.500Z' };
    };
    const agent = await start({ ownLog });
    const path = `/node/${stack.nodeUuid}/logs?follow=false`;
    const user = await stack.user(path);
    await user.until('LOG_STOP');
    expect(linesOf(user)).toEqual(['of the agent']);
    expect(user.frames.at(-2)?.timestamp).toBe(Date.parse('2026-01-01T00:00:01.500Z'));
    agent.setPolicy({ logs: false });
    const another = await stack.user(path);
    await another.until('LOG_ERROR the policy of the machine allows no log sessions');
    await another.until('LOG_STOP');
  });
});

test('a controller without sessions is asked once, however often it says that they changed', async () => {
  const asked: string[] = [];
  const client = () => ({
    async document(path: string) {
      asked.push(path);
      return undefined;
    },
    socket: () => ({ url: 'ws://127.0.0.1:1', headers: {} }),
  });
  const agent = await start({ client });
  agent.sessions.changed();
  await until('the first request', () => asked.length > 0);
  for (let i = 0; i < 100; i++) {
    agent.sessions.changed();
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect(asked).toEqual(['/agent/exec/sessions', '/agent/logs/sessions']);
});

test('a terminal begins before the list of logs has come', async () => {
  const logs = Promise.withResolvers<undefined>();
  const view = { sessionId: 's', microserviceUuid: stack.web, agentConnected: false, status: 'PENDING' };
  const lists = { body: JSON.stringify({ execSessions: [view] }), etag: undefined };
  const dialled: string[] = [];
  const client = () => ({
    document: (path: string) => (path.includes('/logs/') ? logs.promise : Promise.resolve(lists)),
    socket(path: string) {
      dialled.push(path);
      return { url: 'ws://127.0.0.1:1', headers: {} };
    },
  });
  const agent = await start({ client });
  agent.sessions.changed();
  await until('the connection of the terminal', () => dialled.length > 0).finally(() => logs.resolve(undefined));
  expect(dialled[0]).toBe(`/agent/exec/microservice/${stack.web}/s`);
});
