import { expect, test } from 'vitest';
import { outputTexts, resizeOf } from './exec-text.ts';

const lines = (texts: Iterable<{ line: string }>) => Array.from(texts, ({ line }) => line).join('');

test('a text keeps its characters wherever its bytes come apart', () => {
  const text = 'a\ufeffé海😀\0\r\n';
  const bytes = Buffer.from(text);
  for (let at = 0; at <= bytes.length; at++) {
    const texts = outputTexts();
    const pieces = [bytes.subarray(0, at), bytes.subarray(at)].map((piece) => lines(texts.of('stdout', piece)));
    expect(pieces.join('')).toBe(text);
    expect(pieces.join('')).not.toContain('\ufffd');
    expect([...texts.rest()]).toEqual([]);
  }
});

test('a character of one stream does not end in the other one, and half a character at the end is shown as such', () => {
  const texts = outputTexts();
  const [half] = [Buffer.from('é').subarray(0, 1)];
  expect([...texts.of('stdout', half as Buffer)]).toEqual([]);
  expect([...texts.of('stderr', Buffer.from('x'))]).toEqual([{ stream: 'stderr', line: 'x' }]);
  expect([...texts.rest()]).toEqual([{ stream: 'stdout', line: '\ufffd' }]);
});

test('a long output comes in messages of 4 KiB', () => {
  const texts = [...outputTexts().of('stdout', Buffer.alloc(10_000, 'x'))];
  expect(texts.map(({ line }) => line.length)).toEqual([4096, 4096, 1808]);
});

test('a resize has a type and two sizes, and any other text is none', () => {
  expect(resizeOf('{"type":"resize","cols":80,"rows":24}')).toEqual({ resize: { cols: 80, rows: 24 } });
  for (const text of [
    ...['ls', '{}', 'null', '[]', '{"type":"resize"}', '{"type":"resize","cols":0,"rows":1}'],
    ...['{"type":"resize","cols":"80","rows":24}', '{"cols":80,"rows":24}', '{"type":"resize","cols":1.5,"rows":2}'],
    `{"type":"resize","cols":80,"rows":24,"x":"${'x'.repeat(300)}"}`,
  ])
    expect(resizeOf(text), text).toBeUndefined();
});
