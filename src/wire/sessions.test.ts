import { expect, test } from 'vitest';
import { type Control, readControl, writeControl } from './sessions.ts';

test.each<[string, Control | undefined]>([
  ['keepalive', { keepalive: true }],
  ['close\n', { close: true }],
  ['{"resize":{"cols":80,"rows":24}}', { resize: { cols: 80, rows: 24 } }],
  ['{"stdinClosed":true}', { stdinClosed: true }],
  ['{"exitCode":137}', { exitCode: 137 }],
  ['{"resize":{"cols":0,"rows":24}}', undefined],
  ['{"resize":{"cols":80,"rows":65536}}', undefined],
  ['{"stdinClosed":false}', undefined],
  ['{"exitCode":"0"}', undefined],
  ['{"later":1}', undefined],
  ['{', undefined],
  ['', undefined],
  [`{"exitCode":0${' '.repeat(2_000)}}`, undefined],
])('CONTROL %j means %j', (text, meaning) => {
  expect(readControl(Buffer.from(text))).toEqual(meaning);
});

test('every CONTROL that is written can be read', () => {
  const all: Control[] = [
    { keepalive: true },
    { close: true },
    { resize: { cols: 1, rows: 65_535 } },
    { stdinClosed: true },
    { exitCode: 0 },
  ];
  for (const one of all) expect(readControl(writeControl(one))).toEqual(one);
});

test('a CONTROL in the middle of a larger buffer is read alone', () => {
  const larger = Buffer.from('xxkeepalivexx');
  expect(readControl(larger.subarray(2, 11))).toEqual({ keepalive: true });
});
