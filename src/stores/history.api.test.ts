import { randomUUID } from 'node:crypto';
import { KubeConfig } from '@kubernetes/client-node';
import { beforeAll, expect, inject, onTestFinished, test } from 'vitest';
import { API_VERSION } from '../api/names.ts';
import type { ConfigMap } from '../api/resources.ts';
import type { Application } from '../api/v3/index.ts';
import { formatHistory, formatMark, hasGivenOut, markOf, parseHistory } from '../domain/history.ts';
import { RESOURCES } from '../kinds/index.ts';
import { createClient, type KubeClient, silentLog } from '../kube/mod.ts';
import { createStoreHistory, type StoreHistory } from './history.ts';
import { createStores, followStores } from './stores.ts';

/** The history on a real API server. To restore is to write back what the ConfigMap was once. */
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
  namespace = `history-${randomUUID().slice(0, 8)}`;
  await client.request('POST', '/api/v1/namespaces', { metadata: { name: namespace } });
}

/** One replica; `leads` counts from now on. */
async function startReplica({ leads = false } = {}) {
  const stop = new AbortController();
  const stores = createStores({ namespace });
  const mirrors = followStores(stores, { client }, stop.signal);
  await Promise.all(Object.values(stores).map((store) => store.whenSynced()));
  const lost: string[] = [];
  const history = createStoreHistory({
    client,
    namespace,
    stores,
    log: silentLog,
    onRestored: (mark) => lost.push(mark),
  });
  const leading = leads ? history.lead(client, stop.signal) : undefined;
  onTestFinished(async () => {
    stop.abort();
    await leading;
    for (const mirror of mirrors) await mirror[Symbol.asyncDispose]();
  });
  if (leads) await expect.poll(() => history.present.length, { timeout: 10_000 }).toBeGreaterThan(0);
  return { history, lost };
}

const read = () => client.get<ConfigMap>(RESOURCES.configMaps, { namespace, name: 'skerry-history' });
const stored = async () => parseHistory((await read()).data?.terms);
const markIn = ({ present }: StoreHistory) => {
  const mark = markOf(present);
  if (!mark) throw new Error('no term');
  return mark;
};
const apply = (name: string) =>
  client.create<Application>(RESOURCES.applications, {
    apiVersion: API_VERSION,
    kind: 'Application',
    metadata: { name, namespace },
    spec: { microservices: [] },
  } as never);
const restore = async (text: string) =>
  client.replace(RESOURCES.configMaps, { ...(await read()), data: { terms: text } });

test('a leader begins a term; a change of an application is a beat, which the other replicas hear of', async () => {
  await makeNamespace();
  const leader = await startReplica({ leads: true });
  const other = await startReplica();
  await other.history.verify();
  const before = markIn(leader.history);
  expect(markIn(other.history)).toEqual(before);
  await apply('a');
  await expect.poll(() => markIn(leader.history).beat, { timeout: 10_000 }).toBe(before.beat + 1);
  await expect.poll(() => markIn(other.history).beat, { timeout: 10_000 }).toBe(before.beat + 1);
  // Many at once are few beats.
  await Promise.all(Array.from({ length: 20 }, (_, i) => apply(`many-${i}`)));
  await expect.poll(() => markIn(leader.history).beat, { timeout: 10_000 }).toBeGreaterThan(before.beat + 1);
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  expect(markIn(leader.history).beat).toBeLessThan(before.beat + 8);
  const next = await startReplica({ leads: true });
  expect(markIn(next.history).n).toBe(before.n + 1);
  expect(hasGivenOut(next.history.present, markIn(leader.history))).toBe(true);
  expect([...leader.lost, ...other.lost, ...next.lost]).toEqual([]);
});

test('a store that went back: whoever looks first begins a term, and what was lost stays recognisable', async () => {
  await makeNamespace();
  const leader = await startReplica({ leads: true });
  const snapshot = formatHistory(await stored());
  await apply('later');
  await expect.poll(() => markIn(leader.history).beat, { timeout: 10_000 }).toBeGreaterThan(0);
  const lost = markIn(leader.history);
  const other = await startReplica();
  await other.history.verify();
  await restore(snapshot);
  await other.history.verify();
  await leader.history.verify();
  expect(hasGivenOut(other.history.present, lost)).toBe(false);
  expect(hasGivenOut(leader.history.present, lost)).toBe(false);
  expect([...leader.lost, ...other.lost]).toContain(formatMark(lost));
  // The restored store counts on, past any number that the lost one had.
  for (let i = 0; i < 3; i++) {
    await apply(`on-${i}`);
    await new Promise((resolve) => setTimeout(resolve, 1_100));
  }
  expect(markIn(leader.history).beat).toBeGreaterThan(lost.beat);
  expect(hasGivenOut(await stored(), lost)).toBe(false);
});

test('a store that is empty, or another one: an agent with a mark of before is the first to notice', async () => {
  await makeNamespace();
  const { history, lost } = await startReplica({ leads: true });
  const mark = { n: 7, id: '0123abcd', beat: 12 };
  await history.dispute(mark);
  expect(lost).toEqual(['7.0123abcd.12']);
  expect(markIn(history).n).toBe(8);
  expect(hasGivenOut(await stored(), mark)).toBe(false);
  // A second agent of that store finds it noticed.
  await history.dispute({ ...mark, beat: 11 });
  expect(lost).toHaveLength(1);
  await client.delete(RESOURCES.configMaps, { namespace, name: 'skerry-history' });
  const known = markIn(history);
  await history.verify();
  expect(hasGivenOut(await stored(), known)).toBe(false);
  expect(lost).toHaveLength(2);
});

test('an agent that is ahead of a late view is no sign of anything', async () => {
  await makeNamespace();
  const leader = await startReplica({ leads: true });
  const late = await startReplica();
  await late.history.verify();
  await apply('a');
  await expect.poll(() => markIn(leader.history).beat, { timeout: 10_000 }).toBeGreaterThan(0);
  await late.history.dispute(markIn(leader.history));
  expect(late.lost).toEqual([]);
  expect(markIn(late.history)).toEqual(markIn(leader.history));
});
