import { describe, expect, test } from 'vitest';
import type { Entry } from '../../domain/entry.ts';
import type { MicroserviceRecord } from '../../domain/record.ts';
import type { Step } from '../../domain/step.ts';
import type { Container } from '../../engine-port/container.ts';
import { imageOf, makeContainer, makeDesired, makeEntry, makeHold, makeRecord, UUID } from './_util.ts';
import { noteResult } from './step-result.ts';
import { type UpdateInput, updateRecords } from './update-records.ts';

const NOW = 10_000_000;
const entry = makeEntry();
const target = `${entry.digest}/0`;

type Look = Partial<Omit<UpdateInput, 'desired'>> & { desired?: Entry[] | undefined };

function look(
  row: MicroserviceRecord | undefined,
  containers: Container[],
  change: Look = {},
): MicroserviceRecord | undefined {
  const desired = 'desired' in change ? change.desired : [entry];
  const records = new Map(row ? [[row.uuid, row]] : []);
  return updateRecords(records, {
    snapshot: { containers, networkId: 'n1' },
    now: NOW,
    wall: NOW,
    random: () => 0.5,
    first: false,
    rebooted: false,
    ...change,
    desired: makeDesired(desired),
  }).get(UUID);
}

const ended = (change: Partial<Container> = {}) =>
  makeContainer(entry, { state: 'exited', startedAt: NOW - 60_000, finishedAt: NOW - 1000, exitCode: 2, ...change });

describe('the cause of an exit', () => {
  const cases: Record<string, { record?: Partial<MicroserviceRecord>; input?: Look; cause: string; count?: number }> = {
    'seen while the agent watches is a crash, and the next start waits ten seconds': { cause: 'Crash', count: 1 },
    'of a container that this agent stops is Stopped': { record: { live: { stopping: ended().id } }, cause: 'Stopped' },
    'found when the agent starts is Unwatched': { input: { first: true }, cause: 'Unwatched' },
    'found when the agent starts after a reboot is Reboot': { input: { first: true, rebooted: true }, cause: 'Reboot' },
    'during an outage of the engine is Engine': {
      input: { outage: { from: NOW - 20_000, to: NOW - 500 } },
      cause: 'Engine',
    },
    'a moment before an outage of the engine is Engine': {
      input: { outage: { from: NOW - 500, to: NOW } },
      cause: 'Engine',
    },
    'of a container that another program stopped is Stopped': {
      input: { endedByHand: new Set([ended().id]) },
      cause: 'Stopped',
    },
    'long after an outage of the engine is a crash': {
      input: { outage: { from: NOW - 60_000, to: NOW - 30_000 } },
      cause: 'Crash',
      count: 1,
    },
    'before ten steady minutes counts one crash more': {
      record: { crash: { target, count: 3, at: 0, notBefore: 0 } },
      cause: 'Crash',
      count: 4,
    },
  };
  for (const [name, { record, input, cause, count }] of Object.entries(cases))
    test(name, () => {
      const next = look(makeRecord(entry, record), [ended()], input);
      expect(next?.exit?.cause).toBe(cause);
      expect(next?.crash?.count).toBe(count);
      if (count) {
        expect(next?.crash?.notBefore).toBe(NOW + Math.min(10_000 * 2 ** (count - 1), 300_000));
        expect(next).toMatchObject({ lastError: 'exitCode=2 oomKilled=false', lastErrorAt: NOW });
      } else expect(next?.lastError).toBeUndefined();
    });

  test("the engine's own word for the end of a container is in the last error", () => {
    const next = look(makeRecord(entry), [ended({ reason: 'OOMKilled', error: 'too much' })]);
    expect(next?.lastError).toBe('reason=OOMKilled exitCode=2 message=too much');
  });

  test('after ten steady minutes crashes are counted from one again', () => {
    const row = makeRecord(entry, { crash: { target, count: 7, at: 0, notBefore: 0 } });
    expect(look(row, [ended({ startedAt: NOW - 700_000 })])?.crash?.count).toBe(1);
  });

  test('an exit is counted once', () => {
    const once = look(makeRecord(entry), [ended()]);
    expect(look(once, [ended()])).toBe(once);
  });

  test('a crash just before an outage of the engine is taken back', () => {
    const once = look(makeRecord(entry), [ended()]);
    const next = look(once, [ended()], { outage: { from: NOW + 1000, to: NOW + 9000 }, now: NOW + 9000 });
    expect(next).toMatchObject({ exit: { cause: 'Engine' }, crash: undefined, lastError: undefined, error: undefined });
  });

  test('a failure of a step just before an outage of the engine is taken back', () => {
    const failure = {
      step: 'start' as const,
      target,
      count: 1,
      at: NOW,
      notBefore: NOW + 10_000,
      reason: 'x',
      message: 'x',
    };
    const next = look(makeRecord(entry, { failure }), [ended()], { outage: { from: NOW + 100, to: NOW + 500 } });
    expect(next?.failure).toBeUndefined();
  });
});

describe('a container that runs', () => {
  const running = makeContainer(entry, { startedAt: NOW - 40_000 });

  test('clears the current error after thirty seconds, and the last error stays', () => {
    const row = makeRecord(entry, { error: { message: 'x', at: 0 }, lastError: 'x', lastErrorAt: 1 });
    expect(look(row, [running])).toMatchObject({ error: undefined, lastError: 'x' });
    expect(look(row, [makeContainer(entry, { startedAt: NOW - 20_000 })])?.error).toBeDefined();
  });

  test('ends the back-off after ten minutes', () => {
    const row = makeRecord(entry, { crash: { target, count: 4, at: 0, notBefore: 0 } });
    expect(look(row, [running])?.crash?.count).toBe(4);
    expect(look(row, [makeContainer(entry, { startedAt: NOW - 600_000 })])?.crash).toBeUndefined();
  });

  test('and serves its entry gives the last good view and ends the failure', () => {
    const failure = { step: 'start' as const, target, count: 1, at: 0, notBefore: 0, reason: 'x', message: 'x' };
    expect(look(makeRecord(entry, { failure }), [running])).toMatchObject({ failure: undefined, lastGood: entry.view });
  });

  test.each([
    ['a stop while it runs on', 'stop', {}, true],
    ['a stop once the container runs again', 'stop', { startedAt: NOW - 10 }, false],
    ['a resume while it is paused', 'resume', { paused: true }, true],
    ['a resume once it is not', 'resume', {}, false],
  ] as const)('a record has the failure of %s: %s', (_name, step, change, isKept) => {
    const container = makeContainer(entry, { startedAt: NOW - 20_000 });
    const failure = {
      step,
      target,
      containerId: container.id,
      count: 1,
      at: 0,
      notBefore: NOW + 1000,
      reason: 'x',
      message: 'x',
    };
    const row = look(makeRecord(entry, { failure }), [container]) ?? makeRecord(entry, {});
    const next = look({ ...row, failure }, [{ ...container, ...change }]);
    expect(next?.failure).toEqual(isKept ? failure : undefined);
  });

  test('and serves its entry ends the error of its failed start at once, and the error of a crash stays', () => {
    const failure = {
      step: 'start' as const,
      target,
      count: 1,
      at: 0,
      notBefore: 0,
      reason: 'x',
      message: 'Bind failed',
    };
    const young = [makeContainer(entry, { startedAt: NOW - 100 })];
    const errorAfter = (message: string) =>
      look(makeRecord(entry, { failure, error: { message, at: 0 } }), young)?.error?.message;
    expect(errorAfter('Bind failed')).toBeUndefined();
    expect(errorAfter('exitCode=1 oomKilled=false')).toBe('exitCode=1 oomKilled=false');
  });

  test('and is older does not end the failure of its successor', () => {
    const next = makeEntry({ imageId: 'example/app:2' });
    const failure = {
      step: 'image' as const,
      target: `${next.digest}/0`,
      count: 1,
      at: 0,
      notBefore: 0,
      reason: 'x',
      message: 'x',
    };
    expect(
      look(makeRecord(entry, { failure, error: { message: 'x', at: 0 } }), [running], { desired: [next] }),
    ).toMatchObject({
      failure,
      error: { message: 'x' },
    });
  });
});

test('the error of a failed start ends when the start succeeds', () => {
  const step = { kind: 'start', uuid: UUID, target, containerId: 'c1', reason: 'New', why: '' } as unknown as Step;
  const refused = {
    ok: false,
    code: 'PortTaken',
    reason: 'PortTaken',
    message: 'Bind for 0.0.0.0:8080 failed',
  } as const;
  const random = () => 0.5;
  const failed = noteResult(makeRecord(entry), step, refused, NOW, random);
  expect(failed.error?.message).toBe(refused.message);
  expect(noteResult(failed, step, { ok: true }, NOW, random)).toMatchObject({ failure: undefined, error: undefined });
});

describe('a change of the desired state', () => {
  test('ends the error of a crash of what was wanted before', () => {
    const row = makeRecord(entry, {
      crash: { target: 'older/0', count: 1, at: 0, notBefore: 0 },
      error: { message: 'exitCode=1 oomKilled=false', at: 0 },
    });
    expect(look(row, [makeContainer(entry, { startedAt: NOW - 100 })])).toMatchObject({
      crash: undefined,
      error: undefined,
    });
  });

  const changed = makeEntry({ imageId: 'example/app:2' });
  const failure = { step: 'image' as const, target, count: 5, at: 0, notBefore: NOW + 1e6, reason: 'x', message: 'x' };
  const crash = { target, count: 5, at: 0, notBefore: NOW + 1e6 };

  test('of the revision ends the back-off', () =>
    expect(look(makeRecord(entry, { failure, crash }), [ended()], { desired: [changed] })).toMatchObject({
      failure: undefined,
    }));
  test('of the rebuild count ends the back-off', () =>
    expect(
      look(makeRecord(entry, { failure }), [], { desired: [makeEntry({ rebuildCount: 1 })] })?.failure,
    ).toBeUndefined());
  test('that asks for the same container keeps the failure', () =>
    expect(look(makeRecord(entry, { failure }), [])?.failure).toBe(failure));
  test('of the revision ends a local stop', () => {
    const row = makeRecord(entry, { stoppedLocally: { revision: 'r-1', rebuildCount: 0 } });
    expect(look(row, [])?.stoppedLocally).toBeDefined();
    expect(look(row, [], { desired: [changed] })?.stoppedLocally).toBeUndefined();
    expect(look(row, [], { desired: [makeEntry({ rebuildCount: 1 })] })?.stoppedLocally).toBeUndefined();
    expect(look(row, [], { desired: [makeHold()] })?.stoppedLocally).toBeDefined();
  });
});

describe('a container without a record', () => {
  test('that serves the entry gives the record its image', () => {
    const row = look(undefined, [makeContainer(entry, { rebuildCount: 2, generation: 6 })]);
    expect(row).toMatchObject({
      application: 'app',
      generation: 6,
      image: { reference: 'example/app:1', id: imageOf('example/app:1'), rebuildCount: 2 },
      lastGood: entry.view,
    });
  });

  test('that has another digest gives the record no image', () =>
    expect(look(undefined, [makeContainer(entry, { digest: 'other' })])?.image).toBeUndefined());

  test('gives the record its names from its labels while the desired state is unknown', () =>
    expect(look(undefined, [makeContainer(entry)], { desired: undefined })).toMatchObject({
      name: 'm11',
      application: 'app',
    }));
});

describe('the image of a record', () => {
  const hub = makeEntry({}, 'example/app:1');
  const moved = makeEntry({ registryId: 7 }, 'mirror.example/example/app:1');
  const running = makeContainer(entry);

  test('that was saved without a pull reference counts as pulled from where it comes from now', () =>
    expect(look(makeRecord(entry), [running], { desired: [moved] })?.image).toEqual({
      ...makeRecord(entry).image,
      pullReference: moved.pullReference,
    }));

  test('keeps its pull reference until it was pulled by another one', () => {
    const row = makeRecord(hub);
    expect(look(row, [running], { desired: [moved] })?.image).toBe(row.image);
  });

  test('that was lost after its pull from another registry is not that of the old container', () => {
    const image = { reference: 'example/app:1', id: '', rebuildCount: 0, pullReference: moved.pullReference };
    const row = makeRecord(entry, { image: { ...image, outdatedGeneration: 1 } });
    expect(look(row, [running], { desired: [moved] })?.image?.id).toBe('');
    expect(look(row, [makeContainer(entry, { generation: 2 })], { desired: [moved] })?.image?.id).toBe(running.imageId);
  });
});

describe('a microservice that is no longer wanted', () => {
  test('keeps its record until the controller has acknowledged it', () =>
    expect(look(makeRecord(entry), [], { desired: [] })).toMatchObject({ gone: true, image: undefined }));
  test('loses its record when it never had a container', () =>
    expect(look(makeRecord(entry, { generation: 0 }), [], { desired: [] })).toBeUndefined());
  test('is no longer gone when it is wanted again', () =>
    expect(look(makeRecord(entry, { gone: true }), [])?.gone).toBeUndefined());
  test('is not marked gone while the desired state is unknown', () =>
    expect(look(makeRecord(entry), [], { desired: undefined })?.gone).toBeUndefined());
});

test('a back-off that was saved under a wrong clock is cut to five and a half minutes', () => {
  const years = 56 * 365 * 24 * 3600_000;
  const failure = {
    step: 'start',
    target,
    count: 3,
    at: years,
    notBefore: years + 40_000,
    reason: 'x',
    message: 'x',
  } as const;
  const crash = { target, count: 2, at: years, notBefore: years + 20_000 };
  const next = look(makeRecord(entry, { failure, crash }), [], { first: true });
  expect(next?.failure?.notBefore).toBe(NOW + 330_000);
  expect(next?.crash?.notBefore).toBe(NOW + 330_000);
  const near = { ...failure, notBefore: NOW + 5_000 };
  expect(look(makeRecord(entry, { failure: near }), [], { first: true })?.failure?.notBefore).toBe(NOW + 5_000);
});

test('a record notes the runs of the container that runs or ran last, and a look at the same changes nothing', () => {
  const first = makeContainer(entry, { state: 'created', startedAt: 0, finishedAt: 0 });
  const again = { ...first, state: 'running', startedAt: NOW - 1000, finishedAt: NOW - 2000 } as const;
  const seen = [first, ended(), again].reduce<MicroserviceRecord | undefined>(
    (row, one) => look(row, [one]),
    undefined,
  );
  expect(seen?.runs).toEqual({ id: first.id, startedAt: NOW - 1000, finishedAt: 0, begins: NOW - 1000, former: 0 });
  expect(look(seen, [again])?.runs).toBe(seen?.runs);
});

test('a container that another program ended is not started for two seconds', () => {
  const next = look(makeRecord(entry), [ended()], { endedByHand: new Set([ended().id]) });
  expect(next?.live.leftAloneUntil).toBe(NOW + 2_000);
  // An engine that stops ends its containers first, which looks the same.
  const later = look(next, [ended()], { outage: { from: NOW - 500, to: NOW } });
  expect(later?.exit?.cause).toBe('Engine');
});
