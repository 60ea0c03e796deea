import {
  appendFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { temporaryFolder } from '../../../../testing/temporary-folder.ts';
import type { LogLine, LogOptions } from '../../engine-port/logs.ts';
import { boundLog, LineReader, readLogFiles } from './log-file.ts';

const row = (text: string, { second = 0, stream = 'stdout', tag = 'F' } = {}) =>
  `2026-11-28T00:00:0${second}.123456789Z ${stream} ${tag} ${text}\n`;
const newLog = (text: string) => {
  const path = join(temporaryFolder(), 'log');
  writeFileSync(path, text);
  return path;
};
const ended = async () => false;
/** Bounds a log, and answers whether it was opened again. */
async function bounded(path: string, bytes: number, isRunning = false): Promise<boolean> {
  let isOpened = false;
  const reopen = async () => {
    isOpened = true;
  };
  await boundLog(path, { bytes, isRunning, reopen });
  return isOpened;
}
/** How many files of a log this process has open. */
const filesOpen = (path: string) =>
  readdirSync('/proc/self/fd').filter((descriptor) => {
    try {
      return readlinkSync(`/proc/self/fd/${descriptor}`).startsWith(path);
    } catch {
      return false;
    }
  }).length;
const MIB = 1024 * 1024;

async function read(path: string, options: Partial<LogOptions> = {}, isRunning = ended): Promise<string[]> {
  const lines: LogLine[] = [];
  for await (const line of readLogFiles(path, { tail: Infinity, ...options }, isRunning)) lines.push(line);
  return lines.map(({ line }) => line);
}

describe('lines of a log', () => {
  test('have their time and their stream; pieces of one line are joined for each stream', () => {
    const text = [
      row('be', { tag: 'P' }),
      row('wrong', { stream: 'stderr' }),
      row('gun', { second: 1 }),
      row('a  b '),
    ].join('');
    const reader = new LineReader();
    const found = [...Buffer.from(text)].flatMap((byte) => [...reader.add(Buffer.from([byte]))]);
    expect(found).toEqual([
      { ts: '2026-11-28T00:00:00.123456789Z', stream: 'stderr', line: 'wrong' },
      { ts: '2026-11-28T00:00:00.123456789Z', stream: 'stdout', line: 'begun' },
      { ts: '2026-11-28T00:00:00.123456789Z', stream: 'stdout', line: 'a  b ' },
    ]);
  });

  test('keep characters that stand in two pieces', () => {
    const [first, second] = [Buffer.from('ä').subarray(0, 1), Buffer.from('ä').subarray(1)];
    const head = (tag: string) => Buffer.from(`2026-11-28T00:00:00Z stdout ${tag} `);
    const piece = Buffer.concat([head('P'), first, Buffer.from('\n'), head('F'), second, Buffer.from('\n')]);
    expect([...new LineReader().add(piece)].map(({ line }) => line)).toEqual(['ä']);
  });

  test('rows that are no lines of a log are passed over', () => {
    expect(
      [...new LineReader().add(Buffer.from(`noise\n\n${row('x')}2026 stdin F y\n`))].map(({ line }) => line),
    ).toEqual(['x']);
  });
});

describe('the log of a container', () => {
  test('has its last lines, and the lines of the times that are asked for', async () => {
    const path = newLog([0, 1, 2].map((second) => row(`${second}`, { second })).join(''));
    expect(await read(path, { tail: 2 })).toEqual(['1', '2']);
    expect(await read(path, { since: Date.parse('2026-11-28T00:00:01Z') })).toEqual(['1', '2']);
    expect(await read(path, { until: Date.parse('2026-11-28T00:00:01.5Z') })).toEqual(['0', '1']);
  });

  test('is empty where there is no file', async () => {
    expect(await read(join(temporaryFolder(), 'none'), { follow: true })).toEqual([]);
  });

  test('a followed log has each line once, over two files that replace it', async () => {
    const path = newLog(row('1') + row('2'));
    let look = 0;
    const isRunning = async () => {
      look++;
      if (look === 1) appendFileSync(path, row('3'));
      if (look === 2) {
        await bounded(path, statSync(path).size);
        writeFileSync(path, row('4'));
      }
      if (look === 3) {
        appendFileSync(path, row('5'));
        await bounded(path, statSync(path).size);
        writeFileSync(path, row('6'));
      }
      return look < 4;
    };
    expect(await read(path, { tail: 1, follow: true }, isRunning)).toEqual(['2', '3', '4', '5', '6']);
  });

  test('a followed log holds no more than two files open, however often it is replaced', async () => {
    const path = newLog(row('0'));
    const open: number[] = [];
    const isRunning = async () => {
      open.push(filesOpen(path));
      await bounded(path, statSync(path).size);
      writeFileSync(path, row(`${open.length}`));
      return open.length < 5;
    };
    expect(await read(path, { follow: true }, isRunning)).toEqual(['0', '1', '2', '3', '4', '5']);
    expect(Math.max(...open)).toBeLessThanOrEqual(2);
    expect(filesOpen(path)).toBe(0);
  });

  test('a long log is read in turns with the rest of the agent', async () => {
    const path = newLog(row('x').repeat(10_000));
    let isTaken = false;
    setImmediate(() => {
      isTaken = true;
    });
    expect(await read(path, { since: Date.parse('2027-01-01') })).toEqual([]);
    expect(isTaken).toBe(true);
  });

  test('a log that grew far beyond its size keeps its last whole lines', async () => {
    const path = newLog(Array.from({ length: 1000 }, (_, at) => row(`${at}`)).join(''));
    expect(await bounded(path, 2000)).toBe(true);
    expect(await bounded(path, 2000)).toBe(false);
    expect(statSync(`${path}.1`).size).toBeLessThanOrEqual(2000);
    const lines = await read(path);
    expect(lines.at(-1)).toBe('999');
    expect(readFileSync(`${path}.1`, 'utf8')).toMatch(/^2026-/);
    expect(lines.length).toBeGreaterThan(30);
  });

  test('a log that grew far beyond its size makes room on a full disk', async () => {
    const path = newLog(row('x').repeat(1000));
    writeFileSync(`${path}.1`, row('before'));
    symlinkSync('/dev/full', `${path}.cut`);
    expect(await bounded(path, 2000)).toBe(true);
    expect([path, `${path}.1`, `${path}.cut`].filter(existsSync)).toEqual([]);
  });

  test('a log that grew far beyond a large size keeps 16 MiB', async () => {
    const path = newLog('');
    truncateSync(path, 30 * MIB);
    appendFileSync(path, `\n${row('last')}`);
    expect(await bounded(path, 20 * MIB)).toBe(true);
    expect(statSync(`${path}.1`).size).toBe(16 * MIB);
    expect(readFileSync(`${path}.1`).subarray(-100).toString()).toMatch(/\n2026-.*last\n$/);
  });

  test('a log that an agent renamed before it was killed is opened again while its container runs', async () => {
    const path = newLog('');
    rmSync(path);
    expect(await bounded(path, 2000, true)).toBe(true);
    expect(await bounded(path, 2000)).toBe(false);
  });
});
