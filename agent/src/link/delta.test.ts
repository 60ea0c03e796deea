import { expect, test } from 'vitest';
import type { MicroserviceStatus, StatusReport } from '../../../src/wire/agent.ts';
import { delta } from './delta.ts';

const one: MicroserviceStatus = { id: '1', status: 'RUNNING', memoryUsage: 50e6, cpuUsage: 3 };
const previous: StatusReport = {
  daemonStatus: 'RUNNING',
  warningMessage: '',
  memoryUsage: 60e6,
  cpuUsage: 1,
  systemCpus: 2,
  microserviceStatus: [one],
};

const cases: Record<string, { now: Partial<StatusReport>; measurements?: boolean; want: string[] }> = {
  'a report without a change contains nothing': { now: {}, want: [] },
  'a report with measurements and without a change contains nothing': { now: {}, measurements: true, want: [] },
  'a changed state is sent': {
    now: { daemonStatus: 'WARNING', warningMessage: 'x' },
    want: ['daemonStatus', 'warningMessage'],
  },
  'a changed measurement is not sent when no measurements are due': { now: { memoryUsage: 90e6 }, want: [] },
  'a small change of a measurement is not sent': { now: { memoryUsage: 61e6 }, measurements: true, want: [] },
  'a large change of a measurement is sent': { now: { memoryUsage: 90e6 }, measurements: true, want: ['memoryUsage'] },
  'changed usage of a microservice is not sent when no measurements are due': {
    now: { microserviceStatus: [{ ...one, memoryUsage: 99e6 }] },
    want: [],
  },
  'a small change of the usage of a microservice is not sent': {
    now: { microserviceStatus: [{ ...one, memoryUsage: 50.5e6, cpuUsage: 4 }] },
    measurements: true,
    want: [],
  },
  'a large change of the usage of a microservice is sent': {
    now: { microserviceStatus: [{ ...one, cpuUsage: 50 }] },
    measurements: true,
    want: ['microserviceStatus'],
  },
  'a changed state of a microservice is sent': {
    now: { microserviceStatus: [{ ...one, status: 'FAILED' }] },
    want: ['microserviceStatus'],
  },
  'an added microservice is sent': {
    now: { microserviceStatus: [one, { ...one, id: '2' }] },
    want: ['microserviceStatus'],
  },
  'a removed microservice is sent': { now: { microserviceStatus: [] }, want: ['microserviceStatus'] },
  'microservices are not sent while they are unknown': { now: { microserviceStatus: undefined }, want: [] },
};
for (const [name, { now, measurements = false, want }] of Object.entries(cases))
  test(name, () => expect(Object.keys(delta(previous, { ...previous, ...now }, measurements)).sort()).toEqual(want));

test('a changed list of microservices is sent in full', () => {
  const list = [one, { ...one, id: '2' }];
  expect(delta(previous, { ...previous, microserviceStatus: list }, false).microserviceStatus).toEqual(list);
});
