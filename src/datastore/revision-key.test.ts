import { expect, test } from 'vitest';
import type { Secret } from '../api/resources.ts';
import { createVirtualClock } from '../kube/_util.ts';
import { ApiError, TransportError } from '../kube/mod.ts';
import { silentLog } from '../lib/log.ts';
import { REVISION_KEY_SECRET, readRevisionKey } from './revision-key.ts';

const SECRET: Secret = {
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { name: REVISION_KEY_SECRET },
  data: { key: 'k' },
};

/** An API server that answers the first reads with these errors, and then with the Secret. */
function makeSource(errors: Error[], secret: Secret = SECRET) {
  const clock = createVirtualClock();
  const find = async () => {
    const error = errors.shift();
    if (error) throw error;
    return secret as never;
  };
  const client = { find, get: find, create: find };
  return { clock, source: { client, namespace: 'skerry', log: silentLog, clock } };
}

const signal = new AbortController().signal;

test.each([
  ['does not know the roles of the controller yet', new ApiError(403, { reason: 'Forbidden' }, 'get')],
  ['does not know the account of the controller yet', new ApiError(401, { reason: 'Unauthorized' }, 'get')],
  ['is not reachable', new TransportError('refused', 'connect ECONNREFUSED')],
])('a controller starts although the API server %s', async (_, error) => {
  const { clock, source } = makeSource([error, error, error]);
  const key = readRevisionKey(source, signal);
  await clock.advance(10_000);
  expect(await key).toBe('k');
});

test('a controller that is never admitted ends with the error of the API server', async () => {
  const forbidden = new ApiError(403, { reason: 'Forbidden', message: 'secrets is forbidden' }, 'get');
  const { clock, source } = makeSource(Array.from({ length: 100 }, () => forbidden));
  const ended = expect(readRevisionKey(source, signal)).rejects.toThrow('secrets is forbidden');
  await clock.advance(120_000);
  await ended;
});

test('a damaged Secret ends the start at once, with what to do', async () => {
  const { source } = makeSource([], { ...SECRET, data: {} });
  await expect(readRevisionKey(source, signal)).rejects.toThrow('restore it from a backup');
});
