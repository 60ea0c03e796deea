import { expect, test, vi } from 'vitest';
import { silentLog } from '../lib/log.ts';
import type { KubeClient } from './client.ts';
import { createLeadership, type Term } from './leadership.ts';
import type { ElectionOptions, Holder } from './lease.ts';

/** A leadership with an election that the test controls. */
function createFixture() {
  const election = { isLeading: false, holder: undefined as Holder | undefined, disposed: false };
  let joined: ElectionOptions | undefined;
  const leadership = createLeadership({
    client: { fenced: (isAllowed: () => boolean) => ({ isAllowed }) } as unknown as KubeClient,
    namespace: 'plant',
    name: 'controller',
    identity: 'replica-1',
    dataAnnotation: 'test.dev/leader',
    log: silentLog,
    elect: (options) => {
      joined = options;
      return Object.assign(election, {
        async *holders() {},
        [Symbol.asyncDispose]: async () => {
          election.disposed = true;
        },
      });
    },
  });
  /** The replica wins the election; `lose` ends its term and waits for its work. */
  function win() {
    const term = new AbortController();
    election.isLeading = true;
    const ended = joined?.onStartedLeading(term.signal) ?? Promise.reject(new Error('not joined'));
    return {
      ended,
      lose: async () => {
        election.isLeading = false;
        term.abort();
        await ended;
      },
    };
  }
  return { election, leadership, win, joined: () => joined };
}

const untilAborted = ({ signal }: Term) =>
  new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));

test('a replica that has not joined the election does not lead and has no address of a leader', () => {
  const { leadership } = createFixture();
  expect(leadership.isLeading).toBe(false);
  expect(leadership.leaderAddress).toBeUndefined();
  expect(leadership.since).toBeLessThanOrEqual(Date.now());
});

test('a replica that joins the election publishes its address and reads that of the leader', () => {
  const { election, leadership, joined } = createFixture();
  leadership.join('10.0.0.1:8081');
  expect(joined()).toMatchObject({ name: 'controller', identity: 'replica-1', data: { internal: '10.0.0.1:8081' } });
  election.holder = { identity: 'replica-2', data: { internal: '10.0.0.2:8081' } };
  expect(leadership.leaderAddress).toBe('10.0.0.2:8081');
  expect(() => leadership.join('10.0.0.1:8081')).toThrow('joined once');
});

test('work runs in each term, from the gain of leadership to its loss', async () => {
  const { leadership, win } = createFixture();
  const log: string[] = [];
  leadership.whileLeading(async (term) => {
    log.push(`gained ${term.since === leadership.since}`);
    await untilAborted(term);
    log.push('lost');
  });
  leadership.join('a:1');
  for (let term = 0; term < 2; term++) await win().lose();
  expect(log).toEqual(['gained true', 'lost', 'gained true', 'lost']);
});

test('since changes only when leadership is gained', async () => {
  vi.useFakeTimers({ now: 1_000 });
  try {
    const { leadership, win } = createFixture();
    leadership.whileLeading(untilAborted);
    leadership.join('a:1');
    vi.setSystemTime(2_000);
    expect(leadership.since).toBe(1_000);
    const { lose } = win();
    expect(leadership.since).toBe(2_000);
    vi.setSystemTime(3_000);
    await lose();
    expect(leadership.since).toBe(2_000);
  } finally {
    vi.useRealTimers();
  }
});

test('the client of a term rejects writes after leadership is lost', async () => {
  const { leadership, win } = createFixture();
  let isAllowed: (() => boolean) | undefined;
  leadership.whileLeading(async (term) => {
    ({ isAllowed } = term.client as unknown as { isAllowed: () => boolean });
    await untilAborted(term);
  });
  leadership.join('a:1');
  const { lose } = win();
  expect(isAllowed?.()).toBe(true);
  await lose();
  expect(isAllowed?.()).toBe(false);
});

test('when one part of the work fails, the other parts end before the term ends with that error', async () => {
  const { leadership, win } = createFixture();
  let ended = false;
  leadership.whileLeading(async (term) => {
    await untilAborted(term);
    ended = true;
  });
  leadership.whileLeading(async () => {
    throw new Error('no epoch');
  });
  leadership.join('a:1');
  await expect(win().ended).rejects.toThrow('no epoch');
  expect(ended).toBe(true);
});

test('every listener is called when the Lease is an older one', () => {
  const { leadership, joined } = createFixture();
  const called: string[] = [];
  leadership.onWentBack(() => called.push('stores'));
  leadership.onWentBack(() => called.push('epochs'));
  leadership.join('a:1');
  joined()?.onWentBack?.();
  expect(called).toEqual(['stores', 'epochs']);
});

test('disposing ends an election that was joined, and does nothing before', async () => {
  const { election, leadership } = createFixture();
  await leadership[Symbol.asyncDispose]();
  leadership.join('a:1');
  await leadership[Symbol.asyncDispose]();
  expect(election.disposed).toBe(true);
});
