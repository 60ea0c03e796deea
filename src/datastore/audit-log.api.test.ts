import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { LABELS } from '../api/names.ts';
import { CORE_RESOURCES, type Secret } from '../api/resources.ts';
import { startTestCluster } from '../rest/_cluster.ts';
import type { AuditEvent } from '../rules/audit.ts';
import { createAuditLog } from './audit-log.ts';
import { createSegments } from './audit-segments.ts';
import { createStores, followStores } from './stores.ts';

/** The audit log on a real API server. */
const signal = AbortSignal.timeout(60_000);
const { kube: client, namespace } = await startTestCluster();

const event = (resourceId: string): Omit<AuditEvent, 'id' | 'timestamp'> => ({
  eventType: 'HTTP',
  endpointType: 'user',
  actorId: 'ann',
  method: 'POST',
  resourceType: 'applications',
  resourceId,
  endpointPath: '/application',
  ipAddress: '',
  status: 'SUCCESS',
  statusCode: 201,
  statusMessage: '',
  requestId: randomUUID(),
});
const secrets = async () =>
  (await client.list<Secret>(CORE_RESOURCES.secrets, { namespace, labelSelector: LABELS.auditLog })).items;

test('two replicas write one segment, each shows the events of both, and no store follows it', async () => {
  const stores = createStores({ namespace });
  const stop = new AbortController();
  const reflectors = followStores(stores, { client }, stop.signal);
  await stores.secrets.whenSynced(signal);
  const one = createAuditLog({ segments: createSegments({ client, namespace }) });
  const other = createAuditLog({ segments: createSegments({ client, namespace }) });
  const idsOf = async (log: typeof one) =>
    (await log.read({ limit: 10, offset: 0 }, signal)).events.map(({ resourceId }) => resourceId).sort();

  one.record(event('a'));
  await one.flush();
  one.record(event('b'));
  await one.flush();
  other.record(event('c'));
  await other.flush();
  expect(await secrets()).toHaveLength(1);
  expect(await idsOf(one)).toEqual(['a', 'b', 'c']);
  expect(await idsOf(other)).toEqual(['a', 'b', 'c']);

  // A store that followed the segments would have them before an object that was made after them.
  await client.create(CORE_RESOURCES.secrets, {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: 'later', namespace },
  });
  await expect.poll(() => stores.secrets.get(namespace, 'later')?.metadata.name).toBe('later');
  expect(stores.secrets.list().filter(({ metadata }) => metadata.labels?.[LABELS.auditLog])).toEqual([]);

  expect(await other.removeBefore(Number.POSITIVE_INFINITY, signal)).toBe(3);
  expect(await secrets()).toEqual([]);
  one.record(event('d'));
  await one[Symbol.asyncDispose]();
  expect(await idsOf(other)).toEqual(['d']);
  await other[Symbol.asyncDispose]();
  stop.abort();
  for (const reflector of reflectors) await reflector[Symbol.asyncDispose]();
});

test('a process that starts goes on with the segment of its forerunner, whether or not that ended in order', async () => {
  await createAuditLog({ segments: createSegments({ client, namespace }) }).removeBefore(
    Number.POSITIVE_INFINITY,
    signal,
  );
  for (let start = 0; start < 10; start++) {
    const log = createAuditLog({ segments: createSegments({ client, namespace }) });
    log.record(event(`of-start-${start}`));
    // Every second process is only dropped once it has written.
    if (start % 2 === 0) await log[Symbol.asyncDispose]();
    else await log.flush();
  }
  expect(await secrets()).toHaveLength(1);
  const log = createAuditLog({ segments: createSegments({ client, namespace }) });
  expect((await log.read({ limit: 100, offset: 0 }, signal)).total).toBe(10);
  await log[Symbol.asyncDispose]();
});

test('a segment that is damaged does not hide the others', async () => {
  const log = createAuditLog({ segments: createSegments({ client, namespace }) });
  const metadata = { name: 'skerry-audit-1-damaged', namespace, labels: { [LABELS.auditLog]: 'true' } };
  await client.create(CORE_RESOURCES.secrets, {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata,
    data: { events: 'bm8gZ3ppcA==' },
  });
  log.record(event('whole'));
  await log.flush();
  const { events } = await log.read({ limit: 10, offset: 0 }, signal);
  expect(events.map(({ resourceId }) => resourceId)).toContain('whole');
  await log[Symbol.asyncDispose]();
});
