import { randomUUID } from 'node:crypto';
import { KubeConfig } from '@kubernetes/client-node';
import { beforeAll, expect, inject, onTestFinished, test } from 'vitest';
import { API_VERSION } from '../api/names.ts';
import type { ConfigMap } from '../api/resources.ts';
import type { Application } from '../api/v3/index.ts';
import { createClient, type KubeClient } from '../kube/mod.ts';
import { silentLog } from '../lib/log.ts';
import { formatEpochLog, formatPosition, isIssued, latestPosition, parseEpochLog } from '../rules/epoch.ts';
import { RESOURCES } from '../subjects/kinds.ts';
import { createEpochs, type Epochs } from './epochs.ts';
import { createStores, followStores } from './stores.ts';

/** The epoch log on a real API server. A restore writes back what the ConfigMap was once. */
let client: KubeClient;
let namespace: string;

beforeAll(() => {
  const config = () => {
    const made = new KubeConfig();
    made.loadFromFile(inject('kubeconfig'));
    return made;
  };
  client = createClient({ config });
  return () => client[Symbol.asyncDispose]();
});

async function makeNamespace() {
  namespace = `epochs-${randomUUID().slice(0, 8)}`;
  await client.request('POST', '/api/v1/namespaces', { metadata: { name: namespace } });
}

/** One replica; `leads` counts changes from now on. */
async function startReplica({ leads = false } = {}) {
  const stop = new AbortController();
  const stores = createStores({ namespace });
  const mirrors = followStores(stores, { client }, stop.signal);
  await Promise.all(Object.values(stores).map((store) => store.whenSynced()));
  const lost: string[] = [];
  const epochs = createEpochs({ client, namespace, stores, log: silentLog });
  epochs.onRestored((position) => lost.push(position));
  const leading = leads ? epochs.lead(client, stop.signal) : undefined;
  onTestFinished(async () => {
    stop.abort();
    await leading;
    for (const mirror of mirrors) await mirror[Symbol.asyncDispose]();
  });
  if (leads) await expect.poll(() => epochs.epochLog.length, { timeout: 10_000 }).toBeGreaterThan(0);
  return { epochs, lost };
}

const read = () => client.get<ConfigMap>(RESOURCES.configMaps, { namespace, name: 'skerry-epochs' });
const stored = async () => parseEpochLog((await read()).data?.epochs);
const positionIn = ({ epochLog }: Epochs) => {
  const position = latestPosition(epochLog);
  if (!position) throw new Error('no epoch');
  return position;
};
const apply = (name: string) =>
  client.create<Application>(RESOURCES.applications, {
    apiVersion: API_VERSION,
    kind: 'Application',
    metadata: { name, namespace },
    spec: { microservices: [] },
  } as never);
const restore = async (text: string) =>
  client.replace(RESOURCES.configMaps, { ...(await read()), data: { epochs: text } });

test('a leader begins an epoch; each change of an application raises the sequence number, which the other replicas read', async () => {
  await makeNamespace();
  const leader = await startReplica({ leads: true });
  const other = await startReplica();
  await other.epochs.verify();
  const before = positionIn(leader.epochs);
  expect(positionIn(other.epochs)).toEqual(before);
  await apply('a');
  await expect
    .poll(() => positionIn(leader.epochs).sequenceNumber, { timeout: 10_000 })
    .toBe(before.sequenceNumber + 1);
  await expect.poll(() => positionIn(other.epochs).sequenceNumber, { timeout: 10_000 }).toBe(before.sequenceNumber + 1);
  // Many changes at once raise it a few times.
  await Promise.all(Array.from({ length: 20 }, (_, i) => apply(`many-${i}`)));
  await expect
    .poll(() => positionIn(leader.epochs).sequenceNumber, { timeout: 10_000 })
    .toBeGreaterThan(before.sequenceNumber + 1);
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  expect(positionIn(leader.epochs).sequenceNumber).toBeLessThan(before.sequenceNumber + 8);
  const next = await startReplica({ leads: true });
  expect(positionIn(next.epochs).epoch).toBe(before.epoch + 1);
  expect(isIssued(next.epochs.epochLog, positionIn(leader.epochs))).toBe(true);
  expect([...leader.lost, ...other.lost, ...next.lost]).toEqual([]);
});

test('after a restore, the first replica that notices it begins an epoch, and a lost position stays recognisable', async () => {
  await makeNamespace();
  const leader = await startReplica({ leads: true });
  const snapshot = formatEpochLog(await stored());
  await apply('later');
  await expect.poll(() => positionIn(leader.epochs).sequenceNumber, { timeout: 10_000 }).toBeGreaterThan(0);
  const lost = positionIn(leader.epochs);
  const other = await startReplica();
  await other.epochs.verify();
  await restore(snapshot);
  await other.epochs.verify();
  await leader.epochs.verify();
  expect(isIssued(other.epochs.epochLog, lost)).toBe(false);
  expect(isIssued(leader.epochs.epochLog, lost)).toBe(false);
  expect([...leader.lost, ...other.lost]).toContain(formatPosition(lost));
  // The restored datastore counts past any number that the lost one had.
  for (let i = 0; i < 3; i++) {
    await apply(`on-${i}`);
    await new Promise((resolve) => setTimeout(resolve, 1_100));
  }
  expect(positionIn(leader.epochs).sequenceNumber).toBeGreaterThan(lost.sequenceNumber);
  expect(isIssued(await stored(), lost)).toBe(false);
});

test('an agent with a position of the former datastore causes a new epoch in an empty or replaced datastore', async () => {
  await makeNamespace();
  const { epochs, lost } = await startReplica({ leads: true });
  const position = { epoch: 7, id: '0123abcd', sequenceNumber: 12 };
  await epochs.beginEpochAfter(position);
  expect(lost).toEqual(['7.0123abcd.12']);
  expect(positionIn(epochs).epoch).toBe(8);
  expect(isIssued(await stored(), position)).toBe(false);
  // A second agent of the former datastore causes no further epoch.
  await epochs.beginEpochAfter({ ...position, sequenceNumber: 11 });
  expect(lost).toHaveLength(1);
  await client.delete(RESOURCES.configMaps, { namespace, name: 'skerry-epochs' });
  const known = positionIn(epochs);
  await epochs.verify();
  expect(isIssued(await stored(), known)).toBe(false);
  expect(lost).toHaveLength(2);
});

test('an agent that is ahead of a lagging store causes no new epoch', async () => {
  await makeNamespace();
  const leader = await startReplica({ leads: true });
  const late = await startReplica();
  await late.epochs.verify();
  await apply('a');
  await expect.poll(() => positionIn(leader.epochs).sequenceNumber, { timeout: 10_000 }).toBeGreaterThan(0);
  await late.epochs.beginEpochAfter(positionIn(leader.epochs));
  expect(late.lost).toEqual([]);
  expect(positionIn(late.epochs)).toEqual(positionIn(leader.epochs));
});
