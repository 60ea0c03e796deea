import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createJsonLines } from './json-lines.ts';

const bytes = (text: string) => new TextEncoder().encode(text);

/** The documents of `text` when it arrives in chunks, split at these positions. */
function parse(text: string, cuts: readonly number[], maxBytes = 10_000): unknown[] {
  const whole = bytes(text);
  const lines = createJsonLines(maxBytes);
  const places = [0, ...cuts.map((cut) => cut % (whole.length + 1)).sort((a, b) => a - b), whole.length];
  const result: unknown[] = [];
  for (let i = 1; i < places.length; i++) result.push(...lines.push(whole.subarray(places[i - 1], places[i])));
  lines.end();
  return result;
}

describe('a stream of JSON lines', () => {
  test('gives the same documents however it is split into chunks, even within a character', () => {
    fc.assert(
      fc.property(fc.array(fc.jsonValue()), fc.array(fc.nat()), (documents, cuts) => {
        const text = documents.map((document) => `${JSON.stringify(document)}\n`).join('');
        expect(parse(text, cuts)).toEqual(documents.map((document) => JSON.parse(JSON.stringify(document))));
      }),
    );
  });

  test('gives the documents before a line that is not JSON, then throws', () => {
    const lines = createJsonLines(100);
    const seen: unknown[] = [];
    const read = () => {
      for (const line of lines.push(bytes('{"a":1}\n{"b":\n{"c":3}\n'))) seen.push(line);
    };
    expect(read).toThrow(expect.objectContaining({ code: 'malformed' }));
    expect(seen).toEqual([{ a: 1 }]);
  });

  test('accepts a line of the maximum length and throws for one byte more', () => {
    const line = (length: number) => `"${'x'.repeat(length - 2)}"\n`;
    expect(parse(line(64), [10, 20], 64)).toHaveLength(1);
    expect(() => parse(line(65), [10, 20], 64)).toThrow(expect.objectContaining({ code: 'too-large' }));
  });

  test('throws for an endless line as soon as it exceeds the maximum length', () => {
    const lines = createJsonLines(1_000);
    const chunk = bytes('x'.repeat(600));
    expect([...lines.push(chunk)]).toEqual([]);
    expect(() => [...lines.push(chunk)]).toThrow(expect.objectContaining({ code: 'too-large' }));
  });

  test('throws the error of a broken connection when it ends within a line', () => {
    expect(() => parse('{"a":1}\n{"b"', [])).toThrow(expect.objectContaining({ code: 'lost' }));
  });

  test('skips empty lines', () => {
    expect(parse('\n{"a":1}\n\r\n', [])).toEqual([{ a: 1 }]);
  });
});
