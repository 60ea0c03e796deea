import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { fuzzing } from '../../../hack/testing/fuzz.ts';
import { HttpError } from '../../http/http-error.ts';
import { DEFAULT_LIMITS } from '../contract/limits.ts';
import { readInput } from './body.ts';

/** Multipart forms of any form. */
const { about, budget, timeout: LONG } = fuzzing({ runs: 1_000, nightlySeconds: 300 });
const BOUNDARY = 'x-boundary';

/** The file of a request with this body, as routes get it, or the refusal. */
async function fileOf(body: Buffer, type = `multipart/form-data; boundary=${BOUNDARY}`): Promise<string | HttpError> {
  const request = Object.assign(Readable.from([]), { headers: { 'content-type': type } }) as unknown as IncomingMessage;
  const options = { read: async () => body, limits: DEFAULT_LIMITS } as unknown as Parameters<typeof readInput>[2];
  try {
    const input = await readInput(request, { kind: 'file', part: 'application', templated: false } as never, options);
    return (input as { file: string }).file;
  } catch (error) {
    expect(error).toBeInstanceOf(HttpError);
    return error as HttpError;
  }
}

const form = (content: string | Buffer, head = 'name="application"; filename="a.yaml"') =>
  Buffer.concat([
    Buffer.from(`--${BOUNDARY}\r\nContent-Disposition: form-data; ${head}\r\nContent-Type: application/yaml\r\n\r\n`),
    Buffer.from(content),
    Buffer.from(`\r\n--${BOUNDARY}--\r\n`),
  ]);

test(
  `the file of a form is read as it was sent, whatever is in it (${about})`,
  async () => {
    const pieces = fc.oneof(
      fc.constantFrom('\r\n', '\n', '--', `--${BOUNDARY.slice(0, -1)}`, `\r\n-${BOUNDARY}`, '\r', '\u0000', 'é', '😀'),
      fc.string({ unit: 'grapheme', maxLength: 40 }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(pieces, { maxLength: 30 }), async (all) => {
        const content = all.join('');
        expect(await fileOf(form(content))).toBe(content.replace(/^\ufeff/, ''));
      }),
      budget,
    );
  },
  LONG,
);

test(
  `any bytes as a form are read or refused with 400, 413 or 415, and the next form is read (${about})`,
  async () => {
    const pieces = fc.oneof(
      fc
        .constantFrom(
          ...[`--${BOUNDARY}`, `--${BOUNDARY}--`, '\r\n', '\r\n\r\n', '--', '\n', ': ', ';', '=', '"', '\u0000', ','],
          ...['Content-Disposition', 'form-data', 'attachment', 'name', 'filename', 'filename*', "UTF-8''%ff%00"],
          ...['"application"', '"__proto__"', '"a.yaml"', 'Content-Type', 'multipart/mixed', 'boundary', 'text/plain'],
          ...['Content-Transfer-Encoding', 'base64', 'charset=utf-16', 'a: b', 'x'.repeat(9_000)],
        )
        .map((text) => Buffer.from(text)),
      fc.uint8Array({ maxLength: 12 }).map((bytes) => Buffer.from(bytes)),
    );
    const changes = fc.array(fc.record({ at: fc.nat(10_000), take: fc.nat(40), piece: pieces }), { maxLength: 6 });
    const types = fc.constantFrom(
      ...[`multipart/form-data; boundary=${BOUNDARY}`, `multipart/form-data; boundary="${BOUNDARY}"`],
      ...['multipart/form-data', 'multipart/form-data; boundary=', `multipart/form-data; boundary=${'b'.repeat(300)}`],
      ...['multipart/form-data; boundary="', 'multipart/form-data; charset=x; boundary=\u00ff', 'multipart/mixed'],
    );
    const type = fc.oneof({ weight: 6, arbitrary: fc.constant(`multipart/form-data; boundary=${BOUNDARY}`) }, types);
    const bodies = fc.oneof(
      { weight: 3, arbitrary: changes.map((all) => all.reduce(changed, form('kind: Application'))) },
      fc.array(pieces, { maxLength: 60 }).map((all) => Buffer.concat(all)),
    );
    await fc.assert(
      fc.asyncProperty(bodies, type, async (body, one) => {
        const outcome = await fileOf(body, one);
        if (typeof outcome !== 'string') {
          expect([400, 413, 415]).toContain(outcome.status);
          expect(outcome.message.length).toBeLessThan(1_000);
        }
        expect(({} as Record<string, unknown>).filename).toBeUndefined();
        expect(await fileOf(form('kind: Application'))).toBe('kind: Application');
      }),
      { ...budget, timeout: 10_000 },
    );
  },
  LONG,
);

function changed(body: Buffer, { at, take, piece }: { at: number; take: number; piece: Buffer }): Buffer {
  const place = at % (body.length + 1);
  return Buffer.concat([body.subarray(0, place), piece, body.subarray(place + take)]);
}
