import { once } from 'node:events';
import { request } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { silentLog } from '../../../../src/lib/log.ts';
import { atEnd } from '../../../../testing/at-end.ts';
import { temporaryFolder } from '../../../../testing/temporary-folder.ts';
import { systemClock } from '../../machine/clock.ts';
import { LocalClient } from '../client.ts';
import { FORM_BYTES } from './form.ts';
import { routesWith } from './route.ts';
import { createRouter } from './router.ts';
import { listenOnLoopback, listenOnSocket, type ServedAgent } from './server.ts';

/** Routes that take a manifest as a multipart form, over HTTP. */

const { upload } = routesWith<object>('test');
const route = upload({
  method: 'POST',
  path: '/apply',
  operation: 'apply',
  summary: '',
  access: 'open',
  reply: { form: 'bare', schema: () => z.object({}).loose() },
  handler: ({ body: { manifest, ...rest } }) => ({ ...rest, bytes: Buffer.byteLength(manifest), ...shown(manifest) }),
});
const shown = (manifest: string) => (manifest.length < 100 ? { manifest } : {});

const tokens = { verify: () => undefined, onRevoked: () => () => {} };
const agent = { metrics: { add: () => {} }, tokens, onRolesChanged: () => () => {} } as unknown as ServedAgent;
const api = { find: createRouter([['/apply', [route]]]), agent, deps: {} };
const server = await listenOnLoopback(
  0,
  { server: () => ({ cert: '', key: '' }) },
  { api, clock: systemClock(), log: silentLog },
);
const { port } = server.address() as { port: number };
atEnd(() => {
  server.close();
  server.closeAllConnections();
});

const folder = temporaryFolder();
const socket = join(folder, 'form.sock');
const onSocket = await listenOnSocket(socket, folder, { api, clock: systemClock(), log: silentLog });
atEnd(() => {
  onSocket.close();
  onSocket.closeAllConnections();
});

const BOUNDARY = 'b-1';
const TYPE = `multipart/form-data; boundary=${BOUNDARY}`;
const file = (name: string, text: string) => part(`name="${name}"; filename="a.yaml"`, text);
const field = (name: string, text: string) => part(`name="${name}"`, text);
const part = (disposition: string, text: string) =>
  `--${BOUNDARY}\r\nContent-Disposition: form-data; ${disposition}\r\n\r\n${text}\r\n`;
const end = `--${BOUNDARY}--\r\n`;
const MANIFEST = file('manifest', 'kind: Model');

interface Answer {
  status: number;
  body: Record<string, unknown> & { error?: { code: string; message: string } };
}

async function send(body: string | Buffer, type: string | undefined = TYPE): Promise<Answer> {
  const outgoing = request({ port, method: 'POST', path: '/apply', headers: type ? { 'content-type': type } : {} });
  outgoing.on('error', () => {});
  outgoing.end(body);
  const [incoming] = await once(outgoing, 'response');
  let text = '';
  for await (const piece of incoming) text += piece;
  return { status: incoming.statusCode, body: JSON.parse(text) };
}

describe('a form with a manifest', () => {
  test('gives the manifest, and flags that are false', async () => {
    const { status, body } = await send(MANIFEST + end);
    expect([status, body]).toEqual([200, { manifest: 'kind: Model', bytes: 11, dryRun: false, async: false }]);
  });

  const flags = { true: true, '1': true, yes: true, false: false, '0': false, no: false, '': false };
  for (const [text, value] of Object.entries(flags))
    test(`reads "${text}" of a flag as ${value}`, async () => {
      const { body } = await send(field('dryRun', text) + MANIFEST + field('async', text) + end);
      expect(body).toMatchObject({ dryRun: value, async: value });
    });

  test('gives the name of its source, in any order of the parts', async () => {
    const { body } = await send(MANIFEST + field('sourceName', 'größe.yaml') + end);
    expect(body.sourceName).toBe('größe.yaml');
  });

  const refusals: Record<string, [string | Buffer, RegExp, string?]> = {
    'without a content type': [MANIFEST + end, /send a multipart\/form-data body/, ''],
    'as JSON': ['{}', /send a multipart\/form-data body/, 'application/json'],
    'without a boundary': [MANIFEST + end, /send a multipart\/form-data body/, 'multipart/form-data'],
    'with another boundary than it says': [MANIFEST + end, /malformed/, 'multipart/form-data; boundary=x'],
    'without the manifest': [field('dryRun', 'yes') + end, /the file part "manifest" is missing/],
    'with two manifests': [MANIFEST + MANIFEST + end, /the part "manifest" is there twice/],
    'with a field twice': [
      field('dryRun', 'no') + field('dryRun', 'yes') + MANIFEST + end,
      /the part "dryRun" is there twice/,
    ],
    'with the manifest as a field': [field('manifest', 'kind: Model') + end, /"manifest" has no file name/],
    'with another file': [
      MANIFEST + file('other', 'x') + end,
      /the part "other" is a file; "manifest" is the only one/,
    ],
    'with a field that does not exist': [MANIFEST + field('force', 'yes') + end, /force is no member of this body/],
    'with a flag that is no flag': [MANIFEST + field('async', 'maybe') + end, /async "maybe" is not true or false/],
    'with a long field': [field('sourceName', 'x'.repeat(2000)) + MANIFEST + end, /"sourceName" has a name or a text/],
    'with a control character': [field('sourceName', 'a\u0007') + MANIFEST + end, /sourceName .* control characters/],
    'with many fields': [Array.from({ length: 9 }, (_, n) => field(`f${n}`, 'x')).join('') + end, /too many parts/],
    'with a part that does not end': [MANIFEST, /malformed/],
    'with a manifest in Latin-1': [
      Buffer.from(file('manifest', 'name: gr\u00f6\u00dfe') + end, 'latin1'),
      /the file "manifest" is not UTF-8/,
    ],
    empty: ['', /malformed|"manifest" is missing/],
  };
  for (const [name, [body, message, type = TYPE]] of Object.entries(refusals))
    test(`${name} gets 400`, async () => {
      const answer = await send(body, type);
      expect([answer.status, answer.body.error?.code]).toEqual([400, 'INVALID_ARGUMENT']);
      expect(answer.body.error?.message).toMatch(message);
    });

  const frame = Buffer.byteLength(file('manifest', '') + end);

  test('is read up to 16 MiB', async () => {
    const { status, body } = await send(file('manifest', 'x'.repeat(FORM_BYTES - frame)) + end);
    expect([status, body.bytes]).toEqual([200, FORM_BYTES - frame]);
  });

  test('gets 413 for one byte more', async () => {
    const { status, body } = await send(file('manifest', 'x'.repeat(FORM_BYTES - frame + 1)) + end);
    expect([status, body.error?.code]).toEqual([413, 'PAYLOAD_TOO_LARGE']);
  });

  test('gets 413 as soon as it is too large where it does not say its length', async () => {
    const socket = connect(port, '127.0.0.1').on('error', () => {});
    socket.write(
      `POST /apply HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: ${TYPE}\r\ntransfer-encoding: chunked\r\n\r\n`,
    );
    const head = file('manifest', '').slice(0, -2);
    const chunk = (text: string) => socket.write(`${text.length.toString(16)}\r\n${text}\r\n`);
    chunk(head);
    let text = '';
    socket.on('data', (piece) => {
      text += piece;
    });
    const mebibyte = 'x'.repeat(1024 * 1024);
    for (let n = 0; n <= 16 && text === ''; n++) if (!chunk(mebibyte)) await once(socket, 'drain');
    await expect.poll(() => text).toMatch(/^HTTP\/1.1 413 .*PAYLOAD_TOO_LARGE/s);
    socket.destroy();
  });

  test('arrives from the command line as it was, whatever is in it', async () => {
    const { signal } = new AbortController();
    const client = new LocalClient({ socket, tokenFile: join(folder, 'none'), configFile: '', signal });
    const manifest = 'kind: "gr\u00f6\u00dfe"\r\n--b-1--\r\n\n';
    const form = { manifest, sourceName: 'a "b" c.yaml', dryRun: true, async: undefined };
    const { bytes, ...rest } = await client.call<Record<string, unknown>>('POST', '/apply', { form });
    expect(rest).toEqual({ manifest, sourceName: form.sourceName, dryRun: true, async: false });
    expect(bytes).toBe(Buffer.byteLength(manifest));
  });
});
