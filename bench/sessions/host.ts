import { setTimeout as sleep } from 'node:timers/promises';
import { FRAME_TYPES } from '../../src/wire/frames.ts';
import { serveCalls } from '../child.ts';
import { assertAllAnswered, closedLoop } from '../load.ts';
import type { Calls, Planned } from './calls.ts';
import { addressOf, type End, openEnd, userHeaders } from './end.ts';

/** The process with both ends of many sessions. */
const CONCURRENCY = 16;
/** until what was written has arrived */
const ARRIVAL_MS = 30_000;
const users: End[] = [];
const agents: End[] = [];
let lineType: number = FRAME_TYPES.STDOUT;
let read = 0;

async function openOne(args: Parameters<Calls['open']>[0], { microservice, token }: Planned, i: number): Promise<void> {
  const { url, kind } = args;
  const path = kind === 'exec' ? `/microservices/exec/${microservice}` : `/microservices/${microservice}/logs`;
  const user = await openEnd(url, path, userHeaders(args.token, i));
  users.push(user);
  const { sessionId } = await user.next((frame) => frame.sessionId !== undefined);
  const folder = kind === 'exec' ? 'exec' : 'logs';
  const headers = { authorization: `Bearer ${token}`, 'x-forwarded-for': addressOf(i) };
  agents.push(await openEnd(url, `/agent/${folder}/microservice/${microservice}/${sessionId}`, headers));
  user.onFrame = ({ type, notice }) => {
    if (type === lineType && !notice) read++;
  };
}

serveCalls<Calls>({
  async open(args) {
    lineType = args.kind === 'exec' ? FRAME_TYPES.STDOUT : FRAME_TYPES.LOG_LINE;
    assertAllAnswered(
      await closedLoop(args.sessions.length, CONCURRENCY, (i) => openOne(args, args.sessions[i] as Planned, i)),
    );
  },

  async write({ perSecond, seconds, bytes }) {
    read = 0;
    const line = Buffer.alloc(bytes, 'x');
    const total = Math.round(perSecond * seconds * agents.length);
    const began = performance.now();
    for (let written = 0; written < total; ) {
      const due = Math.min(total, ((performance.now() - began) / 1_000) * perSecond * agents.length);
      for (; written < due; written++) agents[written % agents.length]?.send(lineType as 1 | 6, line);
      await sleep(5);
    }
    const until = performance.now() + ARRIVAL_MS;
    while (read < total && performance.now() < until) await sleep(10);
    return { written: total, read };
  },

  async close() {
    await Promise.all(users.splice(0).map((user) => user.close()));
    await Promise.allSettled(agents.splice(0).map((agent) => agent.close()));
  },
});
