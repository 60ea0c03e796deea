import { expect, test } from 'vitest';
import type { LogLine } from '../../engine-port/logs.ts';
import { eachOnce } from './each-once.ts';

const line = (ts: string, text: string): LogLine => ({ ts, stream: 'stdout', line: text });

async function read(lines: LogLine[]): Promise<string[]> {
  async function* written() {
    yield* lines;
  }
  const shown: string[] = [];
  for await (const { line } of eachOnce(written())) shown.push(line);
  return shown;
}

test('lines that an engine repeats are shown once, equal lines of other times and other lines of one time all', async () => {
  const lines = [line('1', 'a'), line('2', 'a'), line('2', 'b'), line('1', 'a'), line('2', 'b'), line('3', 'b')];
  expect(await read(lines)).toEqual(['a', 'a', 'b', 'b']);
});

test('lines long ago are not remembered', async () => {
  const many = Array.from({ length: 1_000 }, (_, at) => line(String(at), 'x'));
  expect(await read([...many, line('0', 'x'), line('999', 'x')])).toHaveLength(1_001);
});
