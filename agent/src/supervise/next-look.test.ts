import { expect, test } from 'vitest';
import type { MicroserviceRecord } from '../domain/record.ts';
import { untilNextLook } from './next-look.ts';
import { makeEntry, makeRecord, UUID } from './plan/_util.ts';

const NOW = 1_000_000;
const until = (at: { wait?: number; network?: number; record?: Partial<MicroserviceRecord> } = {}): number =>
  untilNextLook(
    {
      waits: at.wait === undefined ? [] : [{ uuid: UUID, why: 'CrashBackoff', until: at.wait }],
      records: new Map([[UUID, makeRecord(makeEntry(), at.record)]]),
      networkRetryAt: at.network ?? 0,
    },
    NOW,
    () => 0.5,
  );

test.each([
  ['the engine is read every 30 s', {}, 30_000],
  ['a wait that ends sooner ends the pause', { wait: NOW + 700 }, 700],
  ['a wait that is over does not end the pause', { wait: NOW - 1 }, 30_000],
  ['a pause is never shorter than 20 ms', { wait: NOW + 1 }, 20],
  ['the next attempt to make the network ends the pause', { network: NOW + 5_000 }, 5_000],
  [
    'an error that a running container is about to clear ends the pause',
    { record: { error: { message: 'x', at: 0 }, live: { running: { key: 'k', since: NOW - 29_000 } } } },
    1_500,
  ],
])('%s', (_, at, want) => {
  expect(until(at)).toBe(want);
});
