import { expect, test } from 'vitest';
import { describeTally, sum, tallyOf } from './vitest.ts';

const report = (numPassedTests: number, numFailedTests: number, rest: object = {}) => ({
  numPassedTests,
  numFailedTests,
  numPendingTests: 0,
  numTodoTests: 0,
  success: numFailedTests === 0,
  testResults: [],
  ...rest,
});

test.each([
  ['tests that ran', report(3, 1), 1, '3 passed, 1 failed'],
  ['skipped tests', report(3, 0, { numPendingTests: 1, numTodoTests: 1 }), 0, '3 passed, 0 failed, 2 skipped'],
  [
    'a file that could not be loaded',
    report(3, 0, { testResults: [{ status: 'failed', assertionResults: [] }] }),
    1,
    '3 passed, 1 failed',
  ],
  [
    'a file that could not be prepared',
    report(0, 0, {
      numPendingTests: 2,
      testResults: [{ status: 'failed', assertionResults: [{ status: 'skipped' }] }],
    }),
    1,
    '0 passed, 1 failed, 2 skipped',
  ],
  ['a failed run without a failed test', report(3, 0), 1, '3 passed, 1 failed'],
  ['a run that died', undefined, null, '0 passed, 1 failed'],
  ['a project without tests', undefined, 0, '0 passed, 0 failed'],
])('the tally of a test run counts %s', (_, given, code, expected) => {
  expect(describeTally(tallyOf(given, code))).toBe(expected);
});

test('the sum of tallies adds passed, failed and skipped tests', () => {
  expect(
    sum([
      { passed: 1, failed: 2, skipped: 0 },
      { passed: 3, failed: 0, skipped: 4 },
    ]),
  ).toEqual({ passed: 4, failed: 2, skipped: 4 });
});
