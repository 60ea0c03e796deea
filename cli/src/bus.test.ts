import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import type { KubeClient } from '../../src/kube/mod.ts';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { createPlugin } from './_plugin.ts';
import { readJson } from './context/controller-read.ts';

/** A controller with one answer. */
let answer: { status: number; body: string } = { status: 200, body: '' };
const asked: Pick<IncomingMessage, 'url' | 'headers'>[] = [];
const server = createServer((request, response) => {
  asked.push({ url: request.url, headers: request.headers });
  response.writeHead(answer.status, { 'content-type': 'application/json' }).end(answer.body);
});
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
afterAll(() => void server.close());
const { port } = server.address() as AddressInfo;
const CREDENTIALS = '-----BEGIN NATS USER JWT-----\neyJ0\n';
const found = { status: 200, body: JSON.stringify({ credsBase64: Buffer.from(CREDENTIALS).toString('base64') }) };
beforeEach(() => {
  asked.length = 0;
  answer = found;
});

const plugin = createPlugin({} as KubeClient, 'skerry', {
  env: { SKERRY_CONTROLLER: `http://127.0.0.1:${port}`, SKERRY_TOKEN: 'secret' },
});
const folder = temporaryFolder();

describe('kubectl skerry bus creds', () => {
  test('prints the credentials of a user, whose names may have any characters', async () => {
    expect(await plugin('bus', 'creds', 'shop floor', 'a/b')).toMatchObject({ code: 0, out: CREDENTIALS });
    expect(asked).toEqual([
      expect.objectContaining({
        url: '/api/v3/bus/accounts/shop%20floor/users/a%2Fb/creds',
        headers: expect.objectContaining({ authorization: 'Bearer secret' }),
      }),
    ]);
  });

  test('writes a file that its owner alone can read, and replaces none', async () => {
    const file = join(folder, 'sensor.creds');
    expect(await plugin('bus', 'creds', 'shop', 'sensor', '--file', file)).toMatchObject({ code: 0 });
    expect(readFileSync(file, 'utf8')).toBe(CREDENTIALS);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    writeFileSync(file, 'mine');
    const again = await plugin('bus', 'creds', 'shop', 'sensor', '--file', file);
    expect(again).toMatchObject({ code: 1, err: expect.stringContaining(`${file}: EEXIST`) });
    expect(readFileSync(file, 'utf8')).toBe('mine');
  });

  test.each([
    { status: 401, body: { message: 'expired' }, says: /does not accept the token \(expired\).*--service-account/ },
    { status: 403, body: { message: 'get on bususers/creds' }, says: /not permitted: get on bususers\/creds/ },
    { status: 404, body: { message: 'there is no bus user "x"' }, says: /there is no bus user "x"/ },
    { status: 502, body: 'a proxy', says: /it answered with 502/ },
    { status: 200, body: {}, says: /answered without credentials/ },
  ])('an answer of $status ends it with the words of the controller', async ({ status, body, says }) => {
    answer = { status, body: typeof body === 'string' ? body : JSON.stringify(body) };
    expect(await plugin('bus', 'creds', 'shop', 'x')).toMatchObject({
      code: 1,
      out: '',
      err: expect.stringMatching(says),
    });
  });

  test('a response without an end is not kept in memory', async () => {
    answer = { status: 200, body: ' '.repeat(1024 * 1024 + 1) };
    expect(await plugin('bus', 'creds', 'shop', 'x')).toMatchObject({
      code: 1,
      err: expect.stringMatching(/more than 1048576 bytes/),
    });
  });
});

test('a read passes over a connection that stands already', async () => {
  const through = connect(port, '127.0.0.1');
  const request = { url: 'ws://skerry.test.svc/api/v3/bus', headers: {}, through };
  expect(await readJson(request, new AbortController().signal)).toEqual(JSON.parse(found.body));
  expect(asked[0]?.headers.host).toMatch(/^skerry\.test\.svc/);
});
