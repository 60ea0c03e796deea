import fc from 'fast-check';
import { expect, it } from 'vitest';
import { readExecFrames, type Written } from './exec-frames.ts';

const frame = (stream: Written['stream'], data: string | Uint8Array) => {
  const header = Buffer.from([stream === 'stderr' ? 2 : 1, 0, 0, 0, 0, 0, 0, 0]);
  header.writeUInt32BE(data.length, 4);
  return Buffer.concat([header, Buffer.from(data as string)]);
};

async function read(pieces: readonly Buffer[]) {
  async function* given() {
    for (const piece of pieces) yield Buffer.from(piece);
  }
  const written: { stream: string; text: string }[] = [];
  for await (const { stream, data } of readExecFrames(given()))
    written.push({ stream, text: Buffer.from(data).toString('latin1') });
  return written;
}

it('output of one stream that comes in one piece is passed on as one', async () => {
  const piece = Buffer.concat([
    frame('stdout', 'a'),
    frame('stdout', 'bc'),
    frame('stdout', ''),
    frame('stdout', 'def'),
  ]);
  expect(await read([piece])).toEqual([{ stream: 'stdout', text: 'abcdef' }]);
});

it('the order of the two streams is kept', async () => {
  const piece = Buffer.concat([frame('stdout', 'a'), frame('stderr', 'b'), frame('stderr', 'c'), frame('stdout', 'd')]);
  expect(await read([piece])).toEqual([
    { stream: 'stdout', text: 'a' },
    { stream: 'stderr', text: 'bc' },
    { stream: 'stdout', text: 'd' },
  ]);
});

it('a part of a frame is passed on before the rest of it has come', async () => {
  const whole = frame('stderr', 'abcdef');
  expect(await read([whole.subarray(0, 11)])).toEqual([{ stream: 'stderr', text: 'abc' }]);
  expect(await read([whole.subarray(0, 5)])).toEqual([]);
});

it('however the bytes are cut into pieces, each stream has all of its bytes in their order', async () => {
  const frames = fc.array(
    fc.record({
      stream: fc.constantFrom('stdout' as const, 'stderr' as const),
      data: fc.uint8Array({ maxLength: 40 }),
    }),
    { maxLength: 12 },
  );
  await fc.assert(
    fc.asyncProperty(frames, fc.array(fc.integer({ min: 1, max: 30 }), { minLength: 1 }), async (given, sizes) => {
      const bytes = Buffer.concat(given.map(({ stream, data }) => frame(stream, data)));
      const pieces: Buffer[] = [];
      for (let at = 0, i = 0; at < bytes.length; i++) {
        const size = sizes[i % sizes.length] as number;
        pieces.push(bytes.subarray(at, at + size));
        at += size;
      }
      const runs = (all: { stream: string; text: string }[]) =>
        all.reduce<{ stream: string; text: string }[]>((done, { stream, text }) => {
          const last = done.at(-1);
          if (text && last?.stream === stream) last.text += text;
          else if (text) done.push({ stream, text });
          return done;
        }, []);
      const expected = given.map(({ stream, data }) => ({ stream, text: Buffer.from(data).toString('latin1') }));
      expect(runs(await read(pieces))).toEqual(runs(expected));
    }),
  );
});
