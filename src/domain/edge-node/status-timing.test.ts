import { expect, test } from 'vitest';
import { MINUTE, makeNode, makeObservation, SECOND, T0 } from './_util.ts';
import { firstReportWait, silenceDueMs } from './status-timing.ts';

test.each([
  ['an agent that was never provisioned is not waited for', undefined, undefined, 0],
  ['a provisioning at this moment waits a second for the report', T0, undefined, SECOND],
  ['a provisioning 600 ms ago waits 400 ms', T0 - 600, undefined, 400],
  ['a provisioning long ago does not wait', T0 - MINUTE, undefined, 0],
  ['a report after the provisioning ends the wait', T0 - 600, T0 - 500, 0],
  ['a report before the provisioning does not end the wait', T0 - 600, T0 - 700, 400],
  ['a provisioning by a clock that is ahead does not wait', T0 + SECOND, undefined, 0],
])('%s', (_, provisionedAt, reportedAt, ms) => {
  expect(firstReportWait(provisionedAt, makeObservation({ reportedAt }), T0)).toBe(ms);
});

const times = { now: T0, listeningSince: T0 - MINUTE };

test('the status of a live node is due when its silence begins', () => {
  const observation = makeObservation({ reportedAt: undefined, contactAt: T0 - 10 * SECOND });
  expect(silenceDueMs(makeNode(), observation, { daemonStatus: 'RUNNING' }, times)).toBe(20 * SECOND + 50);
});

test('the status of a node that turned silent while it waited is due at once', () => {
  const observation = makeObservation({ reportedAt: undefined, contactAt: T0 - 40 * SECOND });
  expect(silenceDueMs(makeNode(), observation, { daemonStatus: 'RUNNING' }, { ...times, listeningSince: 0 })).toBe(50);
});

test('the status of a node that is UNKNOWN already is not due', () => {
  const observation = makeObservation({ reportedAt: undefined, contactAt: T0 - MINUTE });
  expect(silenceDueMs(makeNode(), observation, { daemonStatus: 'UNKNOWN' }, times)).toBeUndefined();
});

test('the status of a node without an agent is not due', () => {
  expect(silenceDueMs(makeNode(), undefined, { daemonStatus: 'NOT_PROVISIONED' }, times)).toBeUndefined();
});
