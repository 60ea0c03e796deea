import { expect, test } from 'vitest';
import { readExec, readTailConfig } from './request.ts';

test.each<[string, object]>([
  ['', { lines: 100, follow: true }],
  ['tail=5000&follow=false', { lines: 5000, follow: false }],
  ['tail=&follow=&since=', { lines: 100, follow: true }],
  ['since=2026-01-31T08:00:00%2B01:00', { lines: 100, follow: true, since: '2026-01-31T07:00:00.000Z' }],
  ['until=2026-01-31T08:00Z', { lines: 100, follow: true, until: '2026-01-31T08:00:00.000Z' }],
  ['previous=true', { lines: 100, follow: false, previous: true }],
  ['previous=false', { lines: 100, follow: true }],
])('the query %j asks for %j', (query, tail) => {
  expect(readTailConfig(new URLSearchParams(query))).toEqual(tail);
});

test.each<[string, RegExp]>([
  ['tail=0', /^tail: "0"; must be a number from 1 to 5000/],
  ['tail=5001', /^tail:/],
  ['tail=1e3', /^tail:/],
  ['follow=yes', /^follow: "yes"; must be true or false/],
  ['since=yesterday', /^since: "yesterday"; must be a date/],
  ['since=2026-01-31', /^since:/],
  ['since=2026-13-31T08:00:00Z', /^since:/],
  ['since=2026-01-31T08:00:00Z&until=2026-01-30T08:00:00Z', /^until: must not be before since/],
  ['previous=yes', /^previous: "yes"; must be true or false/],
  ['previous=true&follow=true', /^follow: a former run writes nothing more; leave it out with previous/],
])('the log query %j is refused with what would be right', (query, message) => {
  expect(() => readTailConfig(new URLSearchParams(query))).toThrow(message);
});

test('an exec query has the arguments of the command in order, and nothing for a shell', () => {
  expect(readExec(new URLSearchParams(''))).toEqual({});
  expect(readExec(new URLSearchParams('command=sh&command=-c&command=&tty=false'))).toEqual({
    command: ['sh', '-c', ''],
    tty: false,
  });
});

test.each<[string, RegExp]>([
  [`${'command=x&'.repeat(65)}`, /^command: 64 arguments at most, not 65/],
  [`command=${'x'.repeat(8193)}`, /^command: 8192 bytes at most, not 8193/],
  ['command=a%00b', /^command: an argument has a NUL/],
  ['command=', /^command: the program is empty/],
  ['tty=1', /^tty: "1"; must be true or false/],
])('the exec query %.20j is refused with what would be right', (query, message) => {
  expect(() => readExec(new URLSearchParams(query))).toThrow(message);
});
