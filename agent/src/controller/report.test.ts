import { expect, test } from 'vitest';
import { type ReportFacts, statusReport } from './report.ts';

const facts: ReportFacts = {
  startedAt: 1,
  problems: [],
  microservices: [],
  microserviceList: '0123456789abcdef',
  registryCount: 0,
  volumeMounts: { active: 0, changedAt: undefined },
  runtimeClasses: [],
  settings: {},
  refusedSettings: [],
  actions: {},
  isReadyToUpgrade: false,
  isReadyToRollback: false,
};

test.each([
  ['names the list that its microservices follow', {}, '0123456789abcdef'],
  ['names no list while the engine cannot be read', { engineProblem: 'refused' }, ''],
  ['names no list when the agent has none', { microserviceList: undefined }, ''],
  ['says nothing of a list before the engine was read', { microservices: undefined }, undefined],
] as const)('a report %s', (_, change, list) => {
  expect(statusReport({ ...facts, ...change } as ReportFacts).microserviceList).toBe(list);
});
