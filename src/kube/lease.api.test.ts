import { type ChildProcess, fork } from 'node:child_process';
import { join } from 'node:path';
import { beforeEach, describe, expect, inject, onTestFinished, test } from 'vitest';
import { connect, createFixture, type Fixture } from './_api-server.ts';
import { type FaultProxy, loadConfig, startFaultProxy } from './_fault-proxy.ts';
import { createRandom, until } from './_util.ts';
import { type Election, type ElectionOptions, LEASES, type LeaseTimes, startElection } from './lease.ts';

let fixture: Fixture;

beforeEach(async () => {
  fixture = await createFixture(connect(() => loadConfig(inject('kubeconfig'))));
});

const SHORT: LeaseTimes = { durationMs: 3_000, renewDeadlineMs: 2_000, retryMs: 400 };
/** So long that no lease expires during a test. */
const LONG: LeaseTimes = { durationMs: 600_000, renewDeadlineMs: 400_000, retryMs: 400 };

interface Candidate {
  identity: string;
  proxy: FaultProxy;
  election: Election;
  /** The terms of this candidate; the present term has no end. */
  terms: { from: number; to?: number }[];
}

/** A candidate with a proxy of its own to the API server. */
async function makeCandidate(identity: string, options: Partial<ElectionOptions> = {}): Promise<Candidate> {
  const proxy = await startFaultProxy(inject('kubeconfig'));
  onTestFinished(() => proxy[Symbol.asyncDispose]());
  const client = connect(() => proxy.config());
  const terms: Candidate['terms'] = [];
  const election = startElection({
    client,
    namespace: fixture.namespace,
    name: 'leader',
    identity,
    data: { address: `http://${identity}:51123` },
    dataAnnotation: 'test.dev/leader',
    times: SHORT,
    onStartedLeading: async (signal) => {
      const term: Candidate['terms'][number] = { from: performance.now() };
      terms.push(term);
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      term.to = performance.now();
    },
    ...options,
  });
  onTestFinished(() => election[Symbol.asyncDispose]());
  return { identity, proxy, election, terms };
}

const leads = ({ election, terms }: Candidate) => election.isLeading && terms.length > 0;

describe('of two candidates', () => {
  test('one leads and the other has its identity and address', async () => {
    const a = await makeCandidate('a');
    await until('a to lead', () => leads(a));
    const b = await makeCandidate('b');
    await until('b to see the leader', () => b.election.holder);
    expect(b.election.holder).toEqual({ identity: 'a', data: { address: 'http://a:51123' } });
    expect([a.election.isLeading, b.election.isLeading]).toEqual([true, false]);
    const lease = await fixture.client.get(LEASES, { namespace: fixture.namespace, name: 'leader' });
    expect(lease.spec).toMatchObject({ holderIdentity: 'a', leaseDurationSeconds: 3, leaseTransitions: 0 });
  });

  test('the second takes over at once when the leader ends properly', async () => {
    const a = await makeCandidate('a', { times: LONG });
    await until('a to lead', () => leads(a));
    const b = await makeCandidate('b', { times: LONG });
    await until('b to see the leader', () => b.election.holder?.identity === 'a');
    await a.election[Symbol.asyncDispose]();
    await until('b to lead', () => leads(b), 10_000);
    expect(a.terms[0]?.to).toBeLessThan(b.terms[0]?.from ?? 0);
  });

  test('the second takes over from a killed leader, not before the lease has expired', async () => {
    const start = (identity: string) => {
      const child = fork(join(import.meta.dirname, '_elector.ts'), [inject('kubeconfig'), fixture.namespace, identity]);
      onTestFinished(() => void child.kill('SIGKILL'));
      const state = { leading: false };
      child.on('message', (message) => {
        state.leading = message === 'leading';
      });
      return { child, state };
    };
    const kill = (child: ChildProcess) => {
      const gone = new Promise((resolve) => child.on('exit', resolve));
      child.kill('SIGKILL');
      return gone;
    };
    const a = start('a');
    await until('a to lead', () => a.state.leading);
    const b = start('b');
    const renewed = async () =>
      (await fixture.client.get(LEASES, { namespace: fixture.namespace, name: 'leader' })).spec;
    const first = await renewed();
    await until('a to renew', async () => (await renewed())?.renewTime !== first?.renewTime);
    await kill(a.child);
    const last = await renewed();
    expect(b.state.leading).toBe(false);
    await until('b to lead', () => b.state.leading);
    const taken = await renewed();
    expect(taken).toMatchObject({ holderIdentity: 'b', leaseTransitions: 1 });
    const gap = Date.parse(taken?.acquireTime ?? '') - Date.parse(last?.renewTime ?? '');
    expect(gap).toBeGreaterThanOrEqual(SHORT.durationMs);
  });

  test('a leader without a connection stops before the second starts', async () => {
    const a = await makeCandidate('a');
    await until('a to lead', () => leads(a));
    const b = await makeCandidate('b');
    await until('b to see the leader', () => b.election.holder?.identity === 'a');
    a.proxy.freeze();
    let bothAtOnce = false;
    await until('b to lead', () => {
      bothAtOnce ||= a.election.isLeading && b.election.isLeading;
      return leads(b);
    });
    expect(bothAtOnce).toBe(false);
    expect(a.terms[0]?.to).toBeLessThan(b.terms[0]?.from ?? 0);
    a.proxy.thaw();
    await until('a to follow', () => a.election.holder?.identity === 'b');
    expect(a.election.isLeading).toBe(false);
  });
});

test('a leader that gets no responses loses the lease, although its requests arrive', async () => {
  const a = await makeCandidate('a');
  await until('a to lead', () => leads(a));
  const b = await makeCandidate('b');
  await until('b to see the leader', () => b.election.holder?.identity === 'a');
  a.proxy.inject(({ method }) => method === 'PUT', { swallowAfter: 0 });
  await until('b to lead', () => leads(b));
  expect(a.terms[0]?.to).toBeLessThan(b.terms[0]?.from ?? 0);
});

test('a leader that lost responses but still has the lease continues to lead', async () => {
  const a = await makeCandidate('a');
  await until('a to lead', () => leads(a));
  const fault = a.proxy.inject(({ method }) => method === 'PUT', { cutAfter: 0 }, 3);
  await until('the faults to strike', () => fault.hits === 3);
  const renewals = a.proxy.requests.length;
  await until('further renewals', () => a.proxy.requests.length > renewals + 3);
  expect(a.election.isLeading).toBe(true);
  expect(a.terms).toHaveLength(1);
});

test.each(['POST', 'PUT'])(
  'a candidate whose %s was executed but whose response was lost leads without waiting for expiry',
  async (verb) => {
    if (verb === 'PUT') {
      const spec = { holderIdentity: '', leaseDurationSeconds: 1 };
      const metadata = { name: 'leader', namespace: fixture.namespace };
      await fixture.client.create(LEASES, { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata, spec });
    }
    const proxy = await startFaultProxy(inject('kubeconfig'));
    onTestFinished(() => proxy[Symbol.asyncDispose]());
    const fault = proxy.inject(({ method }) => method === verb, { cutAfter: 0 }, 1);
    const a = await makeCandidate('a', { times: LONG, client: connect(() => proxy.config()) });
    await until('a to lead', () => leads(a), 10_000);
    expect(fault.hits).toBe(1);
  },
);

test('a leader releases the lease when its work ends by itself', async () => {
  let terms = 0;
  const a = await makeCandidate('a', {
    times: LONG,
    onStartedLeading: async (signal) => {
      terms++;
      if (terms === 1) throw new Error('could not start');
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
    },
  });
  const b = await makeCandidate('b', { times: LONG });
  await until('a candidate to lead after that', () => terms > 1 || leads(b), 10_000);
  expect(a.election.isLeading && b.election.isLeading).toBe(false);
});

test('there is no second leader when the lease of a leader is deleted', async () => {
  const a = await makeCandidate('a');
  await until('a to lead', () => leads(a));
  const b = await makeCandidate('b');
  await until('b to see the leader', () => b.election.holder?.identity === 'a');
  a.proxy.freeze();
  await fixture.client.delete(LEASES, { namespace: fixture.namespace, name: 'leader' });
  let bothAtOnce = false;
  await until('b to lead', () => {
    bothAtOnce ||= a.election.isLeading && b.election.isLeading;
    return leads(b);
  });
  expect(bothAtOnce).toBe(false);
});

test('a follower gets every change of the leader', async () => {
  const a = await makeCandidate('a', { times: LONG });
  await until('a to lead', () => leads(a));
  const b = await makeCandidate('b', { times: LONG });
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  const holders: (string | undefined)[] = [];
  void (async () => {
    for await (const holder of b.election.holders(stop.signal)) holders.push(holder?.identity);
  })();
  await until('b to see a as the holder', () => holders.includes('a'));
  await a.election[Symbol.asyncDispose]();
  await until('b to see itself as the holder', () => holders.at(-1) === 'b', 10_000);
});

test('there are never two leaders at once, whichever connections fail', async () => {
  const candidates = await Promise.all(['a', 'b', 'c', 'd'].map((identity) => makeCandidate(identity)));
  const random = createRandom(11);
  const violations: string[] = [];
  let over = false;
  const watching = (async () => {
    while (!over) {
      const leading = candidates.filter(({ election }) => election.isLeading).map(({ identity }) => identity);
      if (leading.length > 1) violations.push(leading.join());
      await new Promise((resolve) => setImmediate(resolve));
    }
  })();
  const terms = () => candidates.reduce((sum, candidate) => sum + candidate.terms.length, 0);
  for (let round = 0; round < 5; round++) {
    const before = terms();
    await until('a candidate to lead', () => candidates.some(leads));
    const leader = candidates.find(leads);
    // The leader loses its connection, or only its responses; the connections of a random candidate are reset as well.
    const follower = candidates[Math.floor(random() * candidates.length)] as Candidate;
    const lostResponses =
      random() < 0.5 ? leader?.proxy.inject(({ method }) => method === 'PUT', { swallowAfter: 0 }) : undefined;
    if (!lostResponses) leader?.proxy.freeze();
    follower.proxy.cutAll();
    await until('a new term', () => terms() > before);
    lostResponses?.end();
    leader?.proxy.thaw();
  }
  over = true;
  await watching;
  expect(violations).toEqual([]);
  const all = candidates.flatMap((candidate) => candidate.terms).sort((x, y) => x.from - y.from);
  for (const [i, term] of all.slice(1).entries()) expect(all[i]?.to ?? Infinity).toBeLessThanOrEqual(term.from);
});
