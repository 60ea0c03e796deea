import { expect, test } from 'vitest';
import type { ReportedCheck } from '../../domain/record.ts';
import type { Container } from '../../engine-port/container.ts';
import { makeContainer } from './_util.ts';
import { reportedCheck } from './health.ts';

const failing = (output: string, exitCode = 1, health: Container['health'] = 'unhealthy') =>
  makeContainer(undefined, { health, failedCheck: { exitCode, output } });
const SECOND = 1000;

test.each<[string, Container, string | undefined]>([
  ['a failing check has its exit code and output', failing('no such file\n', 2), 'exit code 2: no such file'],
  ['a failing check without output has its exit code', failing('', 3), 'exit code 3'],
  [
    'a check that did not end has the words of the engine',
    failing('exceeded timeout (5s)', -1),
    'exceeded timeout (5s)',
  ],
  ['a check that did not end and of which the engine says nothing', failing('', -1), 'it did not end'],
  ['lines become spaces', failing('first\r\n\tsecond\n\n'), 'exit code 1: first second'],
  [
    'control characters and marks of direction become escapes',
    failing('\u001b[2Jred\u202e\u009b1m\u0000'),
    'exit code 1: \\u001b[2Jred\\u202e\\u009b1m\\u0000',
  ],
  [
    'the output is cut to its first 200 characters',
    failing('\u{1f600}'.repeat(999)),
    `exit code 1: ${'\u{1f600}'.repeat(200)}`,
  ],
  [
    'escapes do not make it longer',
    failing('\u001b'.repeat(999)),
    `exit code 1: ${'\\u001b'.repeat(34).slice(0, 200)}`,
  ],
  ['a check that fails before the first success', failing('soon', 1, 'starting'), 'exit code 1: soon'],
  ['one failure of a healthy container is not reported', failing('once', 1, 'healthy'), undefined],
  ['a container without a failing check', makeContainer(undefined, { health: 'starting' }), undefined],
])('%s', (_, container, message) => {
  expect(reportedCheck(undefined, container, 0)?.message).toBe(message);
});

test('a check that writes something else each second is reported once', () => {
  const seen = new Set<string | undefined>();
  let reported: ReportedCheck | undefined;
  for (let second = 0; second < 3600; second++) {
    reported = reportedCheck(reported, failing(`at ${second}`), second * SECOND);
    seen.add(reported?.message);
  }
  expect([...seen]).toEqual(['exit code 1: at 0']);
});

test('a check whose exit code changes each second is reported once a minute', () => {
  let changes = 0;
  let reported: ReportedCheck | undefined;
  for (let second = 0; second < 3600; second++) {
    const next = reportedCheck(reported, failing('no', 1 + (second % 7)), second * SECOND);
    if (next !== reported) changes++;
    reported = next;
  }
  expect(changes).toBeLessThanOrEqual(60);
});

test.each<[string, Container]>([
  ['another exit code is reported after a minute', failing('new', 2)],
  ['another health is reported at once', failing('new', 1, 'unhealthy')],
  ['another run of the container is reported at once', { ...failing('new', 1, 'starting'), startedAt: 2000 }],
])('%s', (_, container) => {
  const before = reportedCheck(
    undefined,
    failing('old', 1, container.failedCheck?.exitCode === 2 ? 'unhealthy' : 'starting'),
    0,
  );
  const later = container.failedCheck?.exitCode === 2 ? 60 * SECOND : 1;
  expect(reportedCheck(before, container, later)?.message).toMatch(/: new$/);
});
