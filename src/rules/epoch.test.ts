import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  type EpochLog,
  type EpochPosition,
  formatEpochLog,
  formatPosition,
  isAccepted,
  isIssued,
  latestEpochName,
  latestPosition,
  parseEpochLog,
  parsePosition,
  withNewEpoch,
  withNextSequenceNumber,
} from './epoch.ts';

const id = (n: number) => n.toString(16).padStart(8, '0');
const position = (text: string) => parsePosition(text) as EpochPosition;

test.each([
  ['a position of the current epoch is issued', '2.bbbbbbbb.3', true],
  ['an earlier position of the current epoch is issued', '2.bbbbbbbb.0', true],
  ['a position ahead of the current epoch is not issued', '2.bbbbbbbb.4', false],
  ['a position of a former epoch is issued', '1.aaaaaaaa.7', true],
  ['a position ahead of a former epoch is not issued', '1.aaaaaaaa.8', false],
  ['a position of another datastore is not issued', '2.cccccccc.1', false],
  ['a position of an epoch that has not begun is not issued', '3.cccccccc.1', false],
])('%s: %s', (_, text, is) => {
  expect(isIssued(parseEpochLog('1.aaaaaaaa.7\n2.bbbbbbbb.3'), position(text))).toBe(is);
});

test('an empty log has issued nothing; positions of epochs that the log dropped count as issued', () => {
  expect(isIssued([], position('1.aaaaaaaa.0'))).toBe(false);
  let log: EpochLog = [];
  for (let i = 1; i <= 300; i++) log = withNewEpoch(log, id(i));
  expect(log).toHaveLength(200);
  expect(isIssued(log, position(`5.${id(5)}.9`))).toBe(true);
  expect(isIssued(log, position(`250.${id(9)}.0`))).toBe(false);
});

test('an empty datastore that continues above the epochs of another one has issued none of its positions', () => {
  const log = withNewEpoch([], 'dddddddd', 7);
  expect(latestPosition(log)).toEqual({ epoch: 8, id: 'dddddddd', sequenceNumber: 0 });
  for (const text of ['7.0123abcd.1', '3.0123abcd.0', '1.0123abcd.0'])
    expect(isIssued(log, position(text))).toBe(false);
});

test.each(['', '1', '1.aaaaaaaa', '0.aaaaaaaa.1', '1.AAAAAAAA.1', '1.aaaaaaaa.-1', `1.aaaaaaaa.${'9'.repeat(30)}`])(
  '%j is not a position',
  (text) => expect(parsePosition(text)).toBeUndefined(),
);

test('an operator accepts a datastore by an epoch that is later than the position', () => {
  const restored = withNewEpoch(parseEpochLog('1.aaaaaaaa.7'), 'dddddddd', 4);
  const lost = position('4.cccccccc.2');
  expect(latestEpochName(restored)).toBe('5.dddddddd');
  expect(isAccepted(restored, lost, '5.dddddddd')).toBe(true);
  // A second restore, to a state that still has the annotation: it accepted the first restore.
  const again = withNewEpoch(restored, 'eeeeeeee', 6);
  expect(isAccepted(again, position('6.ffffffff.0'), '5.dddddddd')).toBe(false);
  expect(isAccepted(restored, lost, '1.aaaaaaaa')).toBe(false);
  expect(isAccepted(restored, lost, undefined)).toBe(false);
  expect(isAccepted(restored, lost, '9.dddddddd')).toBe(false);
});

/**
 * Changes, new leaders, snapshots and restores of a datastore, and agents that poll, in any order: a position
 * counts as lost exactly when it was issued after the snapshot that the datastore was restored to.
 */
test('every restore is noticed, and no other history counts as a restore', () => {
  const step = fc.constantFrom('change', 'leader', 'issue', 'save', 'restore');
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      let count = 0;
      let log = withNewEpoch([], id(count++));
      let saved = log;
      let changes = 0;
      let savedChanges = 0;
      /** in the order in which they were issued; those after the snapshot are lost with a restore */
      let issued: { position: EpochPosition; lost: boolean; fresh: boolean }[] = [];
      for (const what of steps) {
        if (what === 'change') {
          log = withNextSequenceNumber(log);
          changes++;
        }
        if (what === 'leader') {
          log = withNewEpoch(log, id(count++));
          changes++;
        }
        if (what === 'issue')
          issued.push({ position: latestPosition(log) as EpochPosition, lost: false, fresh: changes > savedChanges });
        if (what === 'save') {
          saved = log;
          savedChanges = changes;
          issued = issued.map((one) => ({ ...one, fresh: false }));
        }
        if (what === 'restore') {
          issued = issued.map((one) => ({ ...one, lost: one.lost || one.fresh, fresh: false }));
          // The leader that starts on the restored datastore, or that notices the restore, begins an epoch.
          log = withNewEpoch(saved, id(count++));
          changes = savedChanges + 1;
        }
      }
      for (const one of issued) expect(isIssued(log, one.position)).toBe(!one.lost);
    }),
    { numRuns: 500 },
  );
});

test('an epoch log and a position are parsed as they were formatted', () => {
  const log = withNextSequenceNumber(withNewEpoch(withNewEpoch([], id(1)), id(2)));
  expect(parseEpochLog(formatEpochLog(log))).toEqual(log);
  expect(parsePosition(formatPosition(latestPosition(log) as EpochPosition))).toEqual(latestPosition(log));
});
