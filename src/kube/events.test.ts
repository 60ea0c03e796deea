import { describe, expect, test } from 'vitest';
import { createVirtualClock, makeConfigMap, settle } from './_util.ts';
import { ApiError, TransportError } from './api-error.ts';
import { createEventRecorder, type EventInput } from './events.ts';

/** With `failures`, the first writes end with these errors; `executes` stores their objects all the same. */
function makeRecorder(failures: Error[] = [], executes = false) {
  const clock = createVirtualClock();
  const written: { reason: string; note: string }[] = [];
  const dropped: string[] = [];
  const names = new Set<string>();
  const events = createEventRecorder({
    client: {
      create: async (_resource, object) => {
        const error = failures.shift();
        if (error && !executes) throw error;
        const { name } = object.metadata;
        if (names.has(name)) throw new ApiError(409, { reason: 'AlreadyExists' }, 'create');
        names.add(name);
        written.push(object as unknown as { reason: string; note: string });
        if (error) throw error;
        return object;
      },
    },
    controller: 'test.dev/kube',
    instance: 'one',
    clock,
    metrics: { eventDropped: ({ reason }) => dropped.push(reason) },
  });
  const record = (name: string, event: Partial<EventInput>) =>
    events.record(makeConfigMap(name, 1), { type: 'Normal', reason: 'R', action: 'A', note: 'n', ...event });
  return { clock, record, written, dropped, events };
}

test('of two conditions that change in the same run each gets one event, however often the run repeats', async () => {
  const { record, written } = makeRecorder();
  for (let run = 0; run < 5; run++) {
    record('a', { about: 'Ready', reason: 'Deployed' });
    record('a', { about: 'Reachable', reason: 'Connected' });
  }
  await settle();
  expect(written.map((event) => event.reason)).toEqual(['Deployed', 'Connected']);
});

test('an equal event about another object is recorded', async () => {
  const { record, written } = makeRecorder();
  record('a', {});
  record('b', {});
  await settle();
  expect(written).toHaveLength(2);
});

const SECOND = 1_000;
const MINUTE = 60 * SECOND;

test('an object that changes all the time gets 25 events, then one in five minutes, and does not limit other objects', async () => {
  const { clock, record, written } = makeRecorder();
  for (let i = 0; i < 40; i++) {
    record('a', { about: 'Ready', note: `turn ${i}` });
    await clock.advance(SECOND);
  }
  expect(written).toHaveLength(25);
  record('b', {});
  await settle();
  expect(written).toHaveLength(26);
  for (let i = 0; i < 60; i++) {
    record('a', { about: 'Ready', note: `later ${i}` });
    await clock.advance(MINUTE);
  }
  expect(written.length).toBeLessThanOrEqual(26 + 13);
});

test('the latest of the changes that a limit withholds has an event once there is room, which says how many have none', async () => {
  const { clock, record, written, dropped } = makeRecorder();
  for (let i = 0; i < 40; i++) record('a', { about: 'Ready', note: `turn ${i}` });
  await settle();
  expect(written).toHaveLength(25);
  expect(dropped).toEqual(Array(14).fill('rate'));
  await clock.advance(5 * MINUTE);
  await settle();
  expect(written.map(({ note }) => note).slice(25)).toEqual(['turn 39 (events left out before it: 14)']);
  await clock.advance(60 * MINUTE);
  await settle();
  expect(written).toHaveLength(26);
});

test('a reason that an object had no event about lately has one at once, whatever changed before', async () => {
  const { clock, record, written } = makeRecorder();
  for (let i = 0; i < 200; i++) {
    record('a', { about: 'Ready', reason: i % 2 ? 'Restarting' : 'AllRunning', note: `${i}` });
    await clock.advance(SECOND);
  }
  const before = written.length;
  record('a', { about: 'Ready', reason: 'ImagePullFailed' });
  await settle();
  expect(written.slice(before).map(({ reason }) => reason)).toEqual(['ImagePullFailed']);
});

test('an object whose reason is another one each second gets 35 events, then fewer than two a minute', async () => {
  const { clock, record, written } = makeRecorder();
  for (let i = 0; i < 3600; i++) {
    record('a', { about: 'Ready', reason: `R${i % 400}`, note: `${i}` });
    await clock.advance(SECOND);
  }
  expect(written.length).toBeGreaterThan(60);
  expect(written.length).toBeLessThanOrEqual(35 + 60 + 12);
});

test('an object that returned to the state of its last event while events were withheld says so', async () => {
  const { clock, record, written } = makeRecorder();
  for (let i = 0; i <= 25; i++) record('a', { about: 'Ready', note: `turn ${i}` });
  record('a', { about: 'Ready', note: 'turn 24' });
  await clock.advance(5 * MINUTE);
  await settle();
  expect(written.at(-1)?.note).toBe('turn 24 (events left out before it: 1)');
});

test('when 1,000 objects change at once, each gets its event at the common rate', async () => {
  const { clock, record, written, dropped } = makeRecorder();
  for (let i = 0; i < 1_000; i++) {
    record(`node-${i}`, {});
    if (i % 10 === 0) await settle();
  }
  await settle();
  expect(written).toHaveLength(100);
  await clock.advance(10 * SECOND);
  expect(written.length).toBeLessThanOrEqual(200);
  await clock.advance(100 * SECOND);
  expect(written).toHaveLength(1_000);
  expect(dropped).toEqual([]);
});

test('subjects of one object that come without end have 25 events at once, then three in five minutes and a few that wait', async () => {
  const { clock, record, written, dropped } = makeRecorder();
  for (let i = 0; i < 1_000; i++)
    record('a', { about: `session-${i}`, reason: i % 2 ? 'SessionBegan' : 'SessionEnded' });
  expect(dropped).toHaveLength(1_000 - 25 - 8);
  await clock.advance(5 * MINUTE);
  await settle();
  expect(written.length).toBeLessThanOrEqual(25 + 3);
  // They leave the events of others their place.
  record('b', {});
  await settle();
  expect(written.at(-1)).toMatchObject({ reason: 'R' });
});

test('events that wait are limited in number, and those beyond are counted', async () => {
  const { record, dropped } = makeRecorder();
  for (let i = 0; i < 2_200; i++) record(`node-${i}`, {});
  expect(dropped).toEqual(Array(100).fill('full'));
});

test('a note is truncated to the length that the API server accepts', async () => {
  const { record, written } = makeRecorder();
  record('a', { note: 'x'.repeat(5_000) });
  await settle();
  expect(written[0]?.note).toHaveLength(1_024);
});

test('a note is truncated by its bytes, which are what the API server counts, and at no half of a character', async () => {
  const { record, written } = makeRecorder();
  record('a', { note: 'ä'.repeat(1_000) });
  record('b', { note: `x${'😀'.repeat(500)}` });
  await settle();
  const notes = written.map(({ note }) => note);
  expect(notes.map((note) => Buffer.byteLength(note) <= 1_024)).toEqual([true, true]);
  expect(notes).toEqual([expect.stringMatching(/^ä{500,}\.\.\.$/), expect.stringMatching(/^x😀{250,}\.\.\.$/u)]);
});

describe('an event that the API server does not take', () => {
  const refused = () => new TransportError('refused', 'connect ECONNREFUSED');

  test('is written once the API server is back', async () => {
    const { clock, record, written, dropped } = makeRecorder([refused(), refused(), new ApiError(503, {}, 'create')]);
    record('a', {});
    await settle();
    expect(written).toEqual([]);
    await clock.advance(30 * SECOND);
    expect(written).toHaveLength(1);
    expect(dropped).toEqual([]);
  });

  test('is stored once when only the response was lost', async () => {
    const { clock, record, written, dropped } = makeRecorder([new TransportError('lost', 'socket hang up')], true);
    record('a', {});
    await clock.advance(30 * SECOND);
    expect(written).toHaveLength(1);
    expect(dropped).toEqual([]);
  });

  test('is counted after eight attempts, and at once when it can never be stored', async () => {
    const never = makeRecorder([new ApiError(403, { reason: 'Forbidden' }, 'create')]);
    never.record('a', {});
    await settle();
    expect(never.dropped).toEqual(['failed']);
    const { clock, record, written, dropped } = makeRecorder(Array.from({ length: 9 }, refused));
    record('a', {});
    await clock.advance(5 * MINUTE);
    expect(written).toEqual([]);
    expect(dropped).toEqual(['failed']);
  });

  test('does not delay the end of the recorder', async () => {
    const { events, record, dropped } = makeRecorder([refused(), refused()]);
    record('a', {});
    await settle();
    await events[Symbol.asyncDispose]();
    expect(dropped).toEqual(['failed']);
  });
});
