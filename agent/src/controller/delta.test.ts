import { expect, test } from 'vitest';
import type { MicroserviceStatus, StatusReport } from '../../../src/wire/agent.ts';
import { delta } from './delta.ts';

const one: MicroserviceStatus = { id: '1', status: 'RUNNING', memoryUsage: 50e6, cpuUsage: 3 };
const heard: StatusReport = {
  daemonStatus: 'RUNNING',
  warningMessage: '',
  memoryUsage: 60e6,
  cpuUsage: 1,
  systemCpus: 2,
  microserviceStatus: [one],
};

const cases: Record<string, { now: Partial<StatusReport>; measurements?: boolean; want: string[] }> = {
  'nothing has changed': { now: {}, want: [] },
  'nothing has changed, figures asked for': { now: {}, measurements: true, want: [] },
  'a state': { now: { daemonStatus: 'WARNING', warningMessage: 'x' }, want: ['daemonStatus', 'warningMessage'] },
  'a figure, when only news are told': { now: { memoryUsage: 90e6 }, want: [] },
  'a figure, a little': { now: { memoryUsage: 61e6 }, measurements: true, want: [] },
  'a figure, much': { now: { memoryUsage: 90e6 }, measurements: true, want: ['memoryUsage'] },
  'usage of a microservice, when only news are told': {
    now: { microserviceStatus: [{ ...one, memoryUsage: 99e6 }] },
    want: [],
  },
  'usage of a microservice, a little': {
    now: { microserviceStatus: [{ ...one, memoryUsage: 50.5e6, cpuUsage: 4 }] },
    measurements: true,
    want: [],
  },
  'usage of a microservice, much': {
    now: { microserviceStatus: [{ ...one, cpuUsage: 50 }] },
    measurements: true,
    want: ['microserviceStatus'],
  },
  'the state of a microservice': {
    now: { microserviceStatus: [{ ...one, status: 'FAILED' }] },
    want: ['microserviceStatus'],
  },
  'one more microservice: the whole list': {
    now: { microserviceStatus: [one, { ...one, id: '2' }] },
    want: ['microserviceStatus'],
  },
  'one less': { now: { microserviceStatus: [] }, want: ['microserviceStatus'] },
  'nothing known of microservices: nothing is said of them': { now: { microserviceStatus: undefined }, want: [] },
};
for (const [name, { now, measurements = false, want }] of Object.entries(cases))
  test(name, () => expect(Object.keys(delta(heard, { ...heard, ...now }, measurements)).sort()).toEqual(want));

test('what goes is the whole list', () => {
  const list = [one, { ...one, id: '2' }];
  expect(delta(heard, { ...heard, microserviceStatus: list }, false).microserviceStatus).toEqual(list);
});
