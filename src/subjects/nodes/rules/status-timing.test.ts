import { expect, test } from 'vitest';
import { MINUTE, makeNode, makeObservation, SECOND, T0 } from '../_make.ts';
import { firstReportWait, silenceDueMs } from './status-timing.ts';

test.each([
  ['the status of a node that was never provisioned does not wait', undefined, undefined, 0],
  ['the status waits one second for the report after a provisioning', T0, undefined, SECOND],
  ['the status waits 400 ms when the provisioning was 600 ms ago', T0 - 600, undefined, 400],
  ['the status does not wait when the provisioning was long ago', T0 - MINUTE, undefined, 0],
  ['a report after the provisioning ends the wait', T0 - 600, T0 - 500, 0],
  ['a report before the provisioning does not end the wait', T0 - 600, T0 - 700, 400],
  ['the status does not wait when the clock of the provisioning is ahead', T0 + SECOND, undefined, 0],
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
