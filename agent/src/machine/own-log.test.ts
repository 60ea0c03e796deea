import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import type { LogOptions } from '../engine-port/logs.ts';
import { bufferedSink, createLog, type LogBuffer } from './log.ts';
import { logFileWriter } from './log-files.ts';
import { ownLogReader } from './own-log.ts';

let folder: string;
beforeEach(() => {
  folder = temporaryFolder();
});

/** The messages of all lines that were asked for. */
async function read(options: LogOptions, directory: string | undefined, sink: LogBuffer): Promise<string[]> {
  const messages: string[] = [];
  for await (const line of ownLogReader(sink, directory)(options, new AbortController().signal))
    messages.push(messageOf(line));
  return messages;
}

const messageOf = ({ line }: { line: string }) => JSON.parse(line).message as string;

/** A log whose files take two lines each. */
function start() {
  const write = logFileWriter(
    folder,
    () => ({ total: 800, files: 4 }),
    () => {},
  );
  const sink = bufferedSink('INFO', 2, write);
  let now = Date.parse('2026-01-01T00:00:00Z');
  const log = createLog(sink, () => {
    now += 1_000;
    return now;
  });
  return { sink, log };
}

test('the last lines are found across files, also after they have left the memory', async () => {
  const { sink, log } = start();
  for (let i = 1; i <= 6; i++) log.info({}, `line ${i}`);
  expect(await read({ tail: 4 }, folder, sink)).toEqual(['line 3', 'line 4', 'line 5', 'line 6']);
  const third = Date.parse('2026-01-01T00:00:03Z');
  expect(await read({ tail: 2, until: third }, folder, sink)).toEqual(['line 2', 'line 3']);
  expect(await read({ tail: 9, since: third }, folder, sink)).toEqual(['line 3', 'line 4', 'line 5', 'line 6']);
});

test('following shows each line once, whether it stood in a file or came later', async () => {
  const { sink, log } = start();
  log.info({}, 'before');
  const stop = new AbortController();
  const lines = ownLogReader(sink, folder)({ tail: 10, follow: true }, stop.signal);
  expect(messageOf((await lines.next()).value)).toBe('before');
  log.info({}, 'after');
  expect(messageOf((await lines.next()).value)).toBe('after');
  const next = lines.next();
  stop.abort();
  expect((await next).done).toBe(true);
});

test('following continues while the files are rotated and removed, each line once', async () => {
  const { sink, log } = start();
  const words = Array.from({ length: 20 }, (_, at) => `line ${at}`);
  log.info({}, 'before');
  const stop = new AbortController();
  const lines = ownLogReader(sink, folder)({ tail: 10, follow: true }, stop.signal);
  const seen = [messageOf((await lines.next()).value)];
  for (const word of words) {
    log.info({}, word);
    seen.push(messageOf((await lines.next()).value));
  }
  stop.abort();
  expect(seen).toEqual(['before', ...words]);
  // The first ones are in no file any more.
  expect(await read({ tail: 100 }, folder, sink)).not.toContain('line 0');
});

test('each line has the time at which it was written, whether it stood in a file, in memory, or came later', async () => {
  const { sink, log } = start();
  log.info({}, 'before');
  for (const directory of [folder, undefined]) {
    const stop = new AbortController();
    const lines = ownLogReader(sink, directory)({ tail: 1, follow: true }, stop.signal);
    const before = (await lines.next()).value;
    log.info({}, 'after');
    const after = (await lines.next()).value;
    stop.abort();
    for (const { line, ts } of [before, after]) expect(ts).toBe(JSON.parse(line).timestamp);
  }
});

test('without files the lines in memory are shown', async () => {
  const { sink, log } = start();
  for (const word of ['one', 'two', 'three']) log.info({}, word);
  writeFileSync(join(folder, 'agent.log'), 'not read');
  expect(await read({ tail: 10 }, undefined, sink)).toEqual(['two', 'three']);
});

test('lines far from the end of a long file are found, and each line is whole wherever blocks meet', async () => {
  const at = (index: number) => new Date(Date.parse('2026-01-01T00:00:00Z') + index * 1_000).toISOString();
  const line = (index: number) =>
    JSON.stringify({ timestamp: at(index), message: `line ${index}`, text: 'é海'.repeat(40 + (index % 7)) });
  const lines = Array.from({ length: 20_000 }, (_, index) => line(index));
  writeFileSync(join(folder, 'agent.log'), `${lines.join('\n')}\n`);
  const sink = bufferedSink('INFO', 2, () => {});
  const first = await read({ tail: 3, until: Date.parse(at(2)) }, folder, sink);
  expect(first).toEqual(['line 0', 'line 1', 'line 2']);
  const all = await read({ tail: Infinity }, folder, sink);
  expect(all).toEqual(lines.map((_, index) => `line ${index}`));
  expect(await read({ tail: 5, since: Date.parse(at(19_997)) }, folder, sink)).toEqual(
    [19_997, 19_998, 19_999].map((index) => `line ${index}`),
  );
});

test('a line that is longer than a block is read, and a file without an end of line', async () => {
  const long = JSON.stringify({ timestamp: '2026-01-01T00:00:00Z', message: 'x'.repeat(700_000) });
  const last = JSON.stringify({ timestamp: '2026-01-01T00:00:01Z', message: 'last' });
  writeFileSync(join(folder, 'agent.log'), `${long}\n${last}`);
  const messages = await read(
    { tail: 10 },
    folder,
    bufferedSink('INFO', 2, () => {}),
  );
  expect(messages.map(({ length }) => length)).toEqual([700_000, 4]);
});

test('lines that a full disk has not taken are shown behind the lines of the files, each once', async () => {
  const { sink, log } = start();
  log.info({}, 'on the disk');
  const lost = bufferedSink('INFO', 3, () => {});
  const [entry] = sink.entries;
  if (entry) lost.write(entry);
  for (const message of ['lost', 'lost, too'])
    lost.write({ timestamp: '2026-01-02T00:00:00Z', level: 'INFO', message });
  expect(await read({ tail: 10 }, folder, lost)).toEqual(['on the disk', 'lost', 'lost, too']);
  expect(await read({ tail: 1 }, folder, lost)).toEqual(['lost, too']);
});
