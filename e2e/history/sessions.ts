import { setTimeout as sleep } from 'node:timers/promises';
import { type Client, openClient } from '../../src/sessions/_client.ts';
import { FRAME_TYPES } from '../../src/wire/frames.ts';
import type { Operation } from './history.ts';
import type { SessionAction } from './model.ts';

/** Time between two numbers that a user types. */
const TYPED_MS = 100;

/** A user has a terminal or a log open for a while; what it shows are numbers. */
export async function holdSession(
  { origin, token, uuid }: { origin: string; token: string; uuid: string },
  { what, forMs, leaves }: SessionAction,
): Promise<Pick<Operation, 'outcome' | 'said' | 'typed' | 'shown'>> {
  const path = what === 'exec' ? `exec/${uuid}?command=cat&tty=false` : `${uuid}/logs?tail=10`;
  const url = `${origin.replace(/^http/, 'ws')}/api/v3/microservices/${path}`;
  const opened = await openClient(url, { authorization: `Bearer ${token}` });
  if ('status' in opened)
    return { outcome: opened.status < 500 ? 'refused' : 'unknown', said: `${opened.status} ${opened.body.message}` };
  let typed = 0;
  const typing = setInterval(() => {
    if (what === 'exec' && opened.ws.readyState === opened.ws.OPEN) opened.send(FRAME_TYPES.STDIN, `${++typed}\n`);
  }, TYPED_MS);
  const ended = await Promise.race([opened.closed, sleep(forMs)]);
  clearInterval(typing);
  if (leaves === 'cut') opened.ws.terminate();
  else opened.ws.close(1000);
  await opened.closed;
  const said = ended ? `closed with ${ended.code} ${ended.reason}` : 'left';
  return { outcome: 'done', said, typed, shown: shownBy(opened, what) };
}

function shownBy({ frames }: Client, what: SessionAction['what']): number[] {
  const wanted = what === 'exec' ? FRAME_TYPES.STDOUT : FRAME_TYPES.LOG_LINE;
  const pieces = frames.flatMap(({ type, notice, data }) =>
    type === wanted && !notice ? [String(Buffer.from(data))] : [],
  );
  // A frame of a log is one line; a terminal may split a line.
  const lines = pieces.join(what === 'exec' ? '' : '\n').split('\n');
  return lines.flatMap((line) => (/^\d+$/.test(line.trim()) ? [Number(line)] : []));
}
