import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { atEnd } from '../../testing/at-end.ts';
import { endFullState } from './quota.ts';

const HEADER = { revision: '10' };
const COMPACTED = { status: 400, message: 'etcdserver: mvcc: required revision has been compacted' };
const DISK_FULL = { status: 500, message: 'no space left on device' };

/** Answers as etcd 3.6 did in this state. */
async function etcd({ alarms, failures = {} }: { alarms: object[]; failures?: Record<string, typeof COMPACTED> }) {
  const requests: [string, object][] = [];
  const server = createServer(async (incoming, outgoing) => {
    const path = String(incoming.url).replace('/v3/', '');
    const body = JSON.parse(await text(incoming));
    requests.push([path, body]);
    const failure = failures[path];
    outgoing.statusCode = failure?.status ?? 200;
    outgoing.end(JSON.stringify(failure ?? { header: HEADER, ...(body.action === 'GET' && { alarms }) }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  atEnd(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { end: () => endFullState(AbortSignal.timeout(10_000), url), requests };
}

const LOOK = ['maintenance/alarm', { action: 'GET' }];
const FREE = [
  ['kv/compaction', { revision: '10', physical: true }],
  ['maintenance/defragment', {}],
];
const NOSPACE = { memberID: '443', alarm: 'NOSPACE' };
const END = ['maintenance/alarm', { action: 'DEACTIVATE', ...NOSPACE }];

test('an etcd that has reached its quota gets its room back, and takes writes again', async () => {
  const { end, requests } = await etcd({ alarms: [NOSPACE, { memberID: '443', alarm: 'CORRUPT' }] });
  expect(await end()).toBe(true);
  expect(requests).toEqual([LOOK, ...FREE, END]);
});

test('an etcd below its quota is left alone', async () => {
  const { end, requests } = await etcd({ alarms: [] });
  expect(await end()).toBe(false);
  expect(requests).toEqual([LOOK]);
});

test('a start after another start that ended in between ends the state too', async () => {
  const { end, requests } = await etcd({ alarms: [NOSPACE], failures: { 'kv/compaction': COMPACTED } });
  expect(await end()).toBe(true);
  expect(requests).toEqual([LOOK, ...FREE, END]);
});

test('the alarm stays where no room was given back', async () => {
  const { end, requests } = await etcd({ alarms: [NOSPACE], failures: { 'maintenance/defragment': DISK_FULL } });
  await expect(end()).rejects.toThrow('no space left on device');
  expect(requests).toEqual([LOOK, ...FREE]);
});
