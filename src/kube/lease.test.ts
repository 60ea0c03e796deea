import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import { ApiError, TransportError } from './api-error.ts';
import { type Lease, mayTake, startElection } from './lease.ts';

const lease = (holderIdentity: string | undefined, leaseDurationSeconds = 15): Lease => ({
  apiVersion: 'coordination.k8s.io/v1',
  kind: 'Lease',
  metadata: { name: 'leader', namespace: 'test' },
  spec: { ...(holderIdentity === undefined ? {} : { holderIdentity }), leaseDurationSeconds },
});

const cases: Record<string, { lease: Lease | undefined; elapsedMs: number; want: boolean }> = {
  'may be taken when it does not exist': { lease: undefined, elapsedMs: 0, want: true },
  'may be taken when it was released': { lease: lease(''), elapsedMs: 0, want: true },
  'may be taken when it has no holder': { lease: lease(undefined), elapsedMs: 0, want: true },
  'may not be taken when its renewal was just seen': { lease: lease('other'), elapsedMs: 0, want: false },
  'may not be taken just before it expires': { lease: lease('other'), elapsedMs: 14_999, want: false },
  'may be taken when it has expired': { lease: lease('other'), elapsedMs: 15_000, want: true },
  'may not be taken before the duration in its spec is over': {
    lease: lease('other', 60),
    elapsedMs: 59_999,
    want: false,
  },
};

test.each(Object.entries(cases))('a lease %s', (_name, { lease, elapsedMs, want }) => {
  expect(mayTake(lease, 5_000, 5_000 + elapsedMs)).toBe(want);
});

test('a renew deadline that is not shorter than the lease duration is refused', () => {
  const times = { durationMs: 10_000, renewDeadlineMs: 10_000, retryMs: 1_000 };
  expect(() => startElection({ times } as never)).toThrow(RangeError);
});

/** A datastore with one lease, whose watches end with `interrupt`, and continue without an event. */
function createLeases() {
  let present: Lease | undefined;
  let version = 0;
  let observer: { observe(lease: Lease): void } | undefined;
  let isAway = false;
  let isSilent = false;
  let interrupt: (error: Error) => void = () => {};
  const next = (lease: Lease): Lease => {
    version += 1;
    present = { ...lease, metadata: { ...lease.metadata, resourceVersion: String(version) } };
    observer?.observe(structuredClone(present));
    return structuredClone(present);
  };
  /** Executes a write whose response the caller does not wait for. */
  const execute = async (lease: Lease, signal: AbortSignal) => {
    version += 1;
    present = { ...lease, metadata: { ...lease.metadata, resourceVersion: String(version) } };
    await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  };
  const client = {
    observeWrites(_: unknown, store: { observe(lease: Lease): void }) {
      observer = store;
      return { [Symbol.dispose]() {} };
    },
    find: async () => structuredClone(present),
    async create(_: unknown, lease: Lease, { signal }: { signal?: AbortSignal }) {
      if (isSilent && signal) await execute(lease, signal);
      return next(lease);
    },
    async replace(_: unknown, lease: Lease, { signal }: { signal?: AbortSignal }) {
      if (isSilent && signal && present) await execute(lease, signal);
      if (isAway) throw new TransportError('refused', 'replace');
      if (!present) throw new ApiError(404, { reason: 'NotFound' }, 'replace');
      if (lease.metadata.resourceVersion === present.metadata.resourceVersion) return next(lease);
      throw new ApiError(409, { reason: 'Conflict' }, 'replace');
    },
    async *watch(_: unknown, { sendInitialEvents, onOpen, signal }: { sendInitialEvents?: true } & WatchCall) {
      const ended = new Promise<never>((_, reject) => {
        interrupt = reject;
        signal.addEventListener('abort', () => reject(signal.reason));
      });
      onOpen();
      if (sendInitialEvents) {
        if (present) yield { type: 'ADDED', object: structuredClone(present) };
        const annotations = { 'k8s.io/initial-events-end': 'true' };
        yield { type: 'BOOKMARK', object: { metadata: { annotations, resourceVersion: String(version) } } };
        isAway = false;
      }
      // A watch sends nothing until the versions of the datastore exceed the version from which it watches.
      for (let sent = version; ; ) {
        await Promise.race([ended, nextTurn()]);
        if (present && version > sent && !isSilent) yield { type: 'MODIFIED', object: structuredClone(present) };
        sent = Math.max(sent, version);
      }
    },
  };
  return {
    client: client as never,
    get version() {
      return version;
    },
    present: () => present,
    /** Claims are executed from now on, but neither answered nor seen by a watch. */
    silence() {
      isSilent = true;
    },
    /** The datastore is restored: it has this lease, and the watch ends with `error`, if any. After an error of the server no write arrives before the next list. */
    restore(lease: Lease | undefined, error?: Error) {
      isAway = error instanceof ApiError;
      present = lease;
      version = Number(lease?.metadata.resourceVersion ?? 1);
      if (error) interrupt(error);
    },
  };
}
interface WatchCall {
  onOpen(): void;
  signal: AbortSignal;
}

const restores: Record<string, { error: Error; keeps: boolean }> = {
  'while its watch continues': { error: new TransportError('lost', 'the connection broke'), keeps: true },
  'when it is listed again first': { error: new ApiError(403, {}, 'watch'), keeps: true },
  'when it is listed again first, and does not exist': { error: new ApiError(403, {}, 'watch'), keeps: false },
};

type Leases = ReturnType<typeof createLeases>;

const candidate = (leases: Leases, onWentBack = () => {}) =>
  startElection({
    client: leases.client,
    ...{ namespace: 'test', name: 'leader', identity: 'me', dataAnnotation: 'test.dev/leader' },
    times: { durationMs: 60_000, renewDeadlineMs: 50_000, retryMs: 5 },
    onStartedLeading: (signal) => new Promise((resolve) => signal.addEventListener('abort', () => resolve())),
    onWentBack,
  });

/** The lease as it is now, once it was renewed several times since. */
async function renewed(leases: Leases): Promise<Lease | undefined> {
  const snapshot = leases.present();
  const past = leases.version + 3;
  await expect.poll(() => leases.version > past).toBe(true);
  return snapshot;
}

test.each(Object.entries(restores))('a leader notices the restore of its lease %s', async (_name, { error, keeps }) => {
  const leases = createLeases();
  const wentBack = vi.fn();
  await using election = candidate(leases, wentBack);
  await expect.poll(() => election.isLeading && leases.version > 3).toBe(true);
  const snapshot = await renewed(leases);
  expect(wentBack).not.toHaveBeenCalled();
  leases.restore(keeps ? snapshot : undefined, error);
  await expect.poll(() => wentBack.mock.calls.length, { timeout: 10_000 }).toBe(1);
});

test('a leader that ends notices the restore of its lease by the release, and releases it', async () => {
  const leases = createLeases();
  const wentBack = vi.fn();
  await using election = candidate(leases, wentBack);
  await expect.poll(() => election.isLeading && leases.version > 3).toBe(true);
  leases.restore(await renewed(leases));
  await election[Symbol.asyncDispose]();
  expect(wentBack).toHaveBeenCalledTimes(1);
  expect(leases.present()?.spec?.holderIdentity).toBe('');
});

test('a leader that ends during a renewal, which the API server executes, still releases the lease', async () => {
  const leases = createLeases();
  await using election = candidate(leases);
  await expect.poll(() => election.isLeading).toBe(true);
  const before = leases.version;
  leases.silence();
  await expect.poll(() => leases.version > before).toBe(true);
  await election[Symbol.asyncDispose]();
  expect(leases.present()?.spec?.holderIdentity).toBe('');
});

const FIRST: Record<string, Lease | undefined> = {
  'a new lease': undefined,
  'a released lease': { ...lease(''), metadata: { name: 'leader', namespace: 'test', resourceVersion: '1' } },
};

test.each(Object.entries(FIRST))(
  'a candidate that ends during its first claim, of %s, which the API server executes, releases the lease',
  async (_name, before) => {
    const leases = createLeases();
    leases.restore(before);
    leases.silence();
    await using election = candidate(leases);
    await expect.poll(() => leases.present()?.spec?.holderIdentity).toBe('me');
    await election[Symbol.asyncDispose]();
    expect(leases.present()?.spec?.holderIdentity).toBe('');
  },
);
