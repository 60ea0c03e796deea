import { expect, test } from 'vitest';
import { createVirtualClock, makeConfigMap, settle } from './_util.ts';
import { createEventRecorder, type EventInput } from './events.ts';

function makeRecorder() {
  const clock = createVirtualClock();
  const written: { reason: string; note: string }[] = [];
  const dropped: string[] = [];
  const events = createEventRecorder({
    client: {
      create: async (_resource, object) => {
        written.push(object as unknown as { reason: string; note: string });
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
  return { clock, record, written, dropped };
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

test('an object that changes all the time gets 25 events, then one in five minutes, and does not limit other objects', async () => {
  const { clock, record, written, dropped } = makeRecorder();
  for (let i = 0; i < 40; i++) {
    record('a', { note: `turn ${i}` });
    await clock.advance(1_000);
  }
  expect(written).toHaveLength(25);
  expect(dropped).toEqual(Array(15).fill('rate'));
  record('b', {});
  await clock.advance(5 * 60_000);
  record('a', { note: 'turn again' });
  await settle();
  expect(written).toHaveLength(27);
});

test('when 1,000 objects change at once, events are recorded up to the common limit', async () => {
  const { record, written, dropped } = makeRecorder();
  for (let i = 0; i < 1_000; i++) {
    record(`node-${i}`, {});
    if (i % 10 === 0) await settle();
  }
  await settle();
  expect(written).toHaveLength(100);
  expect(dropped).toHaveLength(900);
});

test('a note is truncated to the length that the API server accepts', async () => {
  const { record, written } = makeRecorder();
  record('a', { note: 'x'.repeat(5_000) });
  await settle();
  expect(written[0]?.note).toHaveLength(1_024);
});
