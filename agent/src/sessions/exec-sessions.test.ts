import { randomUUID } from 'node:crypto';
import { beforeEach, expect, test } from 'vitest';
import { silentLog } from '../../../src/lib/log.ts';
import { NO_SESSION_FILES } from '../_agent.ts';
import { latestOf } from '../engine-port/container.ts';
import { until } from '../engines/_contract.ts';
import type { MemoryEngine } from '../engines/memory/_engine.ts';
import { VirtualClock } from '../machine/_virtual-clock.ts';
import { runContainer } from './_agent.ts';
import { type AskedExec, EXEC_TIMES, ExecSessions, WAITING_EXECS } from './exec-sessions.ts';
import type { TextSocket, TextSocketListener } from './text-socket.ts';

/** Exec sessions without a client, in virtual time, on an engine in memory. */

const microservice = randomUUID();
let engine: MemoryEngine;
let clock: VirtualClock;
let execs: ExecSessions;
let began: string[];
let isBusy: boolean;

beforeEach(async () => {
  ({ engine } = await runContainer(microservice));
  clock = new VirtualClock();
  const [container] = await engine.containers();
  began = [];
  isBusy = false;
  execs = new ExecSessions({
    ...{ engine, clock, random: Math.random, log: silentLog, ...NO_SESSION_FILES },
    containerOf: (uuid) => latestOf(container ? [container] : [], uuid),
    stateOf: () => undefined,
    runsOf: () => undefined,
    refusal: () => (isBusy ? 'the node is busy' : undefined),
    began: (_run, { session }) => void began.push(session),
  });
});

const asked = (change: Partial<AskedExec> = {}): AskedExec => ({
  ...{ id: randomUUID(), microservice, command: ['cat'], tty: false, stdin: true, stdout: true, stderr: true },
  ...change,
});
const create = (change: Partial<AskedExec> = {}, signal = new AbortController().signal) =>
  execs.create(asked(change), signal);
const program = () => until('the program', () => engine.programs.at(-1));

test('a program without a terminal is PENDING; its exit code is known until its time to attach has passed', async () => {
  expect(await create({ id: 's' })).toEqual({ status: 'PENDING', expiresAt: clock.wall() + EXEC_TIMES.attach });
  expect(execs.status('s', microservice)).toEqual({ running: true, exitCode: null });
  (await program()).exit(7);
  await until('the end', () => !execs.status('s', microservice).running);
  expect(execs.status('s', microservice)).toEqual({ running: false, exitCode: 7 });
  await clock.advance(EXEC_TIMES.attach);
  expect(() => execs.status('s', microservice)).toThrow(/no exec session "s"/);
});

test('a program to which no client attaches within 10 minutes ends', async () => {
  await create({ id: 's' });
  const started = await program();
  await clock.advance(EXEC_TIMES.attach - 1);
  expect(started.hasEnded).toBe(false);
  await clock.advance(1);
  await until('the end', () => started.hasEnded);
  expect(() => execs.status('s', microservice)).toThrow(/no exec session/);
});

test('a terminal is ACTIVE once the engine shows its program, and an error after 15 s without it, which ends it', async () => {
  const first = create({ tty: true });
  (await program()).hasStarted = true;
  expect(await first).toMatchObject({ status: 'ACTIVE' });
  engine.faults.before = (operation) => {
    if (operation === 'exec') return new Promise(() => {});
  };
  const late = create({ id: 'late', tty: true }).catch((error) => error);
  await until('its beginning', () => began.includes('late'));
  await clock.advance(EXEC_TIMES.start);
  expect(await late).toMatchObject({ code: 'EXEC_START_TIMEOUT' });
  expect(() => execs.status('late', microservice)).toThrow(/no exec session/);
});

test('a terminal whose program the engine does not show is no success', async () => {
  engine.faults.after = () => {
    for (const each of engine.programs) each.hasStarted = false;
  };
  const made = create({ tty: true }).catch((error) => error);
  const started = await program();
  await clock.advance(EXEC_TIMES.start);
  expect(await made).toMatchObject({ code: 'EXEC_START_TIMEOUT' });
  await until('its end', () => started.hasEnded);
});

test('a terminal that cannot be started is refused in the words of the engine', async () => {
  engine.faults.before = (operation) => {
    if (operation === 'exec') throw new Error('no room for it');
  };
  await expect(create({ tty: true })).rejects.toMatchObject({
    code: 'CONFLICT',
    message: 'the program could not be started: no room for it',
  });
});

test('a request for a terminal that is given up ends its program', async () => {
  engine.faults.after = () => {
    for (const each of engine.programs) each.hasStarted = false;
  };
  const gone = new AbortController();
  void create({ tty: true }, gone.signal).catch(() => {});
  const started = await program();
  gone.abort();
  await until('its end', () => started.hasEnded);
});

test('output that no client takes stops the program, as a full pipe does', async () => {
  await create();
  const started = await program();
  for (let i = 0; i < 100; i++) started.print(Buffer.alloc(16 * 1024, 'x'));
  await until('some output', () => started.pieces > 2);
  for (let turn = 0; turn < 100; turn++) await new Promise(setImmediate);
  expect(started.pieces).toBeLessThan(10);
});

test('a program without an input has its end at once, and a terminal its size', async () => {
  await create({ stdin: false, tty: true, size: { cols: 91, rows: 37 } });
  const started = await program();
  await until('the size', () => started.sizes.includes('91x37'));
  expect(started.stdinClosed).toBe(true);
});

test('ten programs wait for clients, and no further one; one fewer makes room', async () => {
  await Promise.all(Array.from({ length: WAITING_EXECS }, (_, at) => create({ id: `s${at}` })));
  await expect(create()).rejects.toThrow(/10 exec sessions wait for a client, which is the limit/);
  await execs.stop('s0', microservice);
  expect(engine.programs[0]?.hasEnded).toBe(true);
  expect(await create()).toMatchObject({ status: 'PENDING' });
});

test('a session of another microservice, and any unknown one, is not found', async () => {
  await create({ id: 's' });
  for (const [id, of] of [
    ['s', randomUUID()],
    ['t', microservice],
  ] as const) {
    expect(() => execs.status(id, of)).toThrow(/no exec session/);
    await expect(execs.stop(id, of)).rejects.toThrow(/no exec session/);
    expect(() => execs.attach(id, of, () => expect.fail('it was taken'))).toThrow(/no exec session/);
  }
});

test('a session is refused of a microservice that does not run, and beyond the limit of the node', async () => {
  await expect(create({ microservice: randomUUID() })).rejects.toThrow('the microservice does not run');
  isBusy = true;
  await expect(create()).rejects.toThrow('the node is busy');
  expect(engine.programs).toEqual([]);
});

/** Waits for a condition without a pause. */
async function turns(condition: () => boolean): Promise<void> {
  for (let turn = 0; turn < 1_000 && !condition(); turn++) await new Promise(setImmediate);
  expect(condition()).toBe(true);
}

/** A client in this process. */
function client() {
  const received: object[] = [];
  const closed: number[] = [];
  let listener: TextSocketListener | undefined;
  return {
    ...{ received, closed },
    leave: () => listener?.closed(1006, ''),
    accept(given: TextSocketListener): TextSocket {
      listener = given;
      return {
        send: async (value) => void received.push(value),
        close: (code) => void closed.push(code),
        ...{ drop() {}, pause() {}, resume() {} },
      };
    },
  };
}

test('a client stays for 24 hours, and its program ends with it in words', async () => {
  await create({ id: 's' });
  const { received, closed, accept } = client();
  execs.attach('s', microservice, accept);
  const started = await program();
  await clock.advance(EXEC_TIMES.attached - 1);
  expect(started.hasEnded).toBe(false);
  await clock.advance(1);
  await until('the end', () => started.hasEnded);
  const line = 'the session has lasted for 24 hours';
  expect([received, closed]).toEqual([[{ stream: 'control', line, exitCode: null }], [1000]]);
});

test('the exit codes of the last 100 sessions are known, each for 10 minutes after its end', async () => {
  for (let at = 0; at <= 100; at++) {
    await create({ id: `s${at}` });
    execs.attach(`s${at}`, microservice, client().accept);
    await turns(() => engine.programs.length > at);
    engine.programs[at]?.exit(5);
    await turns(() => !execs.status(`s${at}`, microservice).running);
  }
  await until('the first one to be forgotten', () => {
    try {
      return !execs.status('s0', microservice);
    } catch {
      return true;
    }
  });
  expect(execs.status('s1', microservice)).toEqual({ running: false, exitCode: 5 });
  await clock.advance(EXEC_TIMES.attach);
  expect(() => execs.status('s100', microservice)).toThrow(/no exec session/);
});

test('a session whose client has left is not known any more', async () => {
  await create({ id: 's' });
  const { accept, leave } = client();
  execs.attach('s', microservice, accept);
  leave();
  const started = await program();
  await until('the end', () => started.hasEnded);
  await until('404', () => {
    try {
      return !execs.status('s', microservice);
    } catch {
      return true;
    }
  });
});
