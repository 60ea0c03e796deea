import { appendFileSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { until } from '../engines/_contract.ts';
import { systemClock } from './clock.ts';
import { readText } from './disk.ts';
import { watchText } from './watch-text.ts';

let file: string;
let seen: (string | undefined)[];

beforeEach(() => {
  file = join(temporaryFolder(), 'config.yaml');
  seen = [];
});

function follow(clock = systemClock()): void {
  const stop = new AbortController();
  const done = watchText(file, () => void seen.push(readText(file)), stop.signal, clock);
  onTestFinished(async () => {
    stop.abort();
    await done;
  });
}
const isSeen = (text: string | undefined) => until('the change', () => seen.length > 0 && seen.at(-1) === text);

test('a file that was written to, replaced, moved away and made again is read each time', async () => {
  writeFileSync(file, 'a');
  follow();
  appendFileSync(file, 'b');
  await isSeen('ab');
  // As editors do.
  writeFileSync(`${file}.new`, 'c');
  renameSync(`${file}.new`, file);
  await isSeen('c');
  rmSync(file);
  await isSeen(undefined);
  writeFileSync(file, 'd');
  await isSeen('d');
});

test('a file is read once it is whole, and a change of another file beside it is none', async () => {
  writeFileSync(file, 'old');
  // Time is the next look at a file that changes; the rounds are longer apart.
  const looks: (() => void)[] = [];
  const after = (ms: number, callback: () => void) => {
    if (ms < 1000) looks.push(callback);
    return () => {};
  };
  const nextLook = () => until('that a look is wanted', () => looks.shift());
  follow({ ...systemClock(), after });
  writeFileSync(`${file}~`, 'x');
  writeFileSync(file, '');
  let text = '';
  for (let at = 0; at < 10; at++) {
    const look = await nextLook();
    text += `line ${at}\n`;
    appendFileSync(file, `line ${at}\n`);
    look();
  }
  (await nextLook())();
  await isSeen(text);
  expect(seen).toEqual([text]);
});

test('a file in a directory that is made later is read', async () => {
  const folder = join(temporaryFolder(), 'later');
  file = join(folder, 'config.yaml');
  let wake = () => {};
  // Time is the next round of looks.
  const after = (_ms: number, callback: () => void) => {
    wake = callback;
    return () => {};
  };
  const clock = { ...systemClock(), after };
  const stop = new AbortController();
  const done = watchText(file, () => void seen.push(readText(file)), stop.signal, clock);
  mkdirSync(folder);
  writeFileSync(file, 'a');
  await until('the change', () => {
    wake();
    return seen.length > 0;
  });
  expect(seen).toEqual(['a']);
  stop.abort();
  await done;
});
