import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from './paths.ts';
import { describeFailures, describeTally, sum, tallyOf } from './vitest.ts';

/** What vitest reports of a file; each failed test has its message. */
const file = (status: string, message: string, tests: { status: string; message?: string }[] = []) => ({
  name: join(ROOT, 'src/a.test.ts'),
  status,
  message,
  assertionResults: tests.map(({ status, message }, i) => ({
    status,
    fullName: `thing ${i}`,
    failureMessages: message === undefined ? [] : [message],
  })),
});

const failing = (count: number) =>
  file(
    'failed',
    '',
    Array.from({ length: count }, () => ({ status: 'failed', message: 'Error: no' })),
  );

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
  ['tests that ran', report(3, 1, { testResults: [failing(1)] }), 1, '3 passed, 1 failed'],
  ['skipped tests', report(3, 0, { numPendingTests: 1, numTodoTests: 1 }), 0, '3 passed, 0 failed, 2 skipped'],
  [
    'a file that could not be loaded',
    report(3, 0, { testResults: [file('failed', 'no such file')] }),
    1,
    '3 passed, 1 failed',
  ],
  [
    'a file that could not be prepared',
    report(0, 0, {
      numPendingTests: 2,
      testResults: [file('failed', 'no database', [{ status: 'skipped' }])],
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
      { passed: 1, failed: 2, skipped: 0, failures: ['a', 'b'] },
      { passed: 3, failed: 0, skipped: 4, failures: [] },
    ]),
  ).toEqual({ passed: 4, failed: 2, skipped: 4, failures: ['a', 'b'] });
});

test('what failed is listed with the beginning of its error, also where no test failed', () => {
  const results = [
    file('failed', '', [
      { status: 'passed' },
      { status: 'failed', message: `\u001b[31mError: waited\n  for ${'x'.repeat(1_000)}` },
    ]),
    file('failed', 'ECONNREFUSED'),
  ];
  const lines = describeFailures(tallyOf(report(1, 1, { testResults: results }), 1)).split('\n');
  expect(lines).toEqual([
    expect.stringMatching(/^FAILED src\/a\.test\.ts > thing 1: Error: waited for x{200,300}…$/),
    'FAILED src/a.test.ts: ECONNREFUSED',
    '',
  ]);
  expect(describeFailures(tallyOf(undefined, null))).toBe(
    'FAILED a run that failed without a failed test: see its output\n',
  );
  expect(describeFailures(tallyOf(report(3, 0), 0))).toBe('');
});
