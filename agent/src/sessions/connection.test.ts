import { expect, test } from 'vitest';
import { silentLog } from '../../../src/lib/log.ts';
import type { FrameListener, FrameSocket } from '../../../src/session-client/socket.ts';
import { FRAME_TYPES, type Frame } from '../../../src/wire/frames.ts';
import { SESSION_TIMES } from '../../../src/wire/sessions.ts';
import { NO_SESSION_FILES } from '../_agent.ts';
import { VirtualClock } from '../machine/_virtual-clock.ts';
import { systemClock } from '../machine/clock.ts';
import { runContainer } from './_agent.ts';
import { SessionConnection } from './connection.ts';
import { runExec } from './exec-session.ts';

/** Sockets that the test opens and closes. */
function makeSockets() {
  const sockets: { listener: FrameListener; sent: number[]; isOpen: boolean; linger?: number }[] = [];
  const dial = (listener: FrameListener): FrameSocket => {
    const one: (typeof sockets)[number] = { listener, sent: [], isOpen: true };
    sockets.push(one);
    return {
      get isOpen() {
        return one.isOpen;
      },
      async send({ type }) {
        one.sent.push(type);
      },
      ...{ pause() {}, resume() {}, leave() {}, drop() {} },
      close(linger) {
        one.linger = linger;
      },
    };
  };
  return { sockets, dial };
}

const activation: Frame = { type: FRAME_TYPES.ACTIVATION, data: Buffer.from('{}') };
const output: Frame = { type: FRAME_TYPES.STDOUT, data: Buffer.from('x') };
const clock = systemClock();

test('a frame that is sent over a connection that the other side has closed waits for the next one', async () => {
  const { sockets, dial } = makeSockets();
  const nothing = () => {};
  const connection = new SessionConnection({
    kind: 'exec',
    dial,
    clock,
    random: () => 0,
    started: nothing,
    frame: nothing,
  });
  const run = connection.run();
  sockets[0]?.listener.frame(activation);
  await connection.send(output);
  Object.assign(sockets[0] as object, { isOpen: false });
  const sent = connection.send(output);
  sockets[0]?.listener.closed({ code: 1001, reason: '' });
  await expect.poll(() => sockets.length).toBe(2);
  sockets[1]?.listener.frame(activation);
  await sent;
  expect(sockets.map((socket) => socket.sent)).toEqual([[FRAME_TYPES.STDOUT], [FRAME_TYPES.STDOUT]]);
  connection.end();
  sockets[1]?.listener.closed({ code: 1000, reason: '' });
  await run;
});

test.each([
  ['that has ended', undefined],
  ['that is refused', 5_000],
])('a session %s waits 10 minutes in all for a user who takes nothing', async (_, linger) => {
  const { sockets, dial } = makeSockets();
  const clock = new VirtualClock();
  const connection = new SessionConnection({
    ...{ kind: 'exec', dial, clock, random: () => 0, started() {}, frame() {} },
  });
  const run = connection.run();
  sockets[0]?.listener.frame(activation);
  const before = clock.now();
  const finished = connection.finish([output], linger);
  await clock.advance(linger ?? SESSION_TIMES.linger);
  await finished;
  expect(clock.now() - before + (sockets[0]?.linger ?? Number.NaN)).toBe(SESSION_TIMES.linger);
  sockets[0]?.listener.closed({ code: 1000, reason: '' });
  await run;
});

test('a terminal that is refused before it is connected starts no program', async () => {
  const { sockets, dial } = makeSockets();
  const { engine } = await runContainer('web');
  const session = { kind: 'exec', id: 's', microservice: 'web', agentConnected: false, path: '/s' } as const;
  const run = runExec(session, undefined, {
    ...{ engine, clock, random: () => 0, log: silentLog, ...NO_SESSION_FILES },
    dial: (_path, listener) => dial(listener),
    containerOf: () => [...engine.running().values()].flat()[0],
    stateOf: () => undefined,
    runsOf: () => undefined,
  });
  run.refuse('the policy of the machine allows no exec sessions');
  sockets[0]?.listener.frame(activation);
  await expect.poll(() => sockets[0]?.sent).toEqual([FRAME_TYPES.CLOSE]);
  sockets[0]?.listener.closed({ code: 1000, reason: '' });
  await run.done;
  expect(engine.programs).toEqual([]);
});
