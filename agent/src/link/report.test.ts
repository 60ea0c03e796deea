import { describe, expect, test } from 'vitest';
import type { StatusReport } from '../../../src/wire/agent.ts';
import { type ReportFacts, statusReport } from './report.ts';

const facts: ReportFacts = {
  startedAt: 1,
  phase: 'running',
  problems: [],
  microservices: [],
  microserviceList: '0123456789abcdef',
  registryCount: 0,
  runtimeClasses: [],
  settings: {},
  refusedSettings: [],
  actions: {},
  parts: {},
};

test.each([
  ['names the list that its microservices follow', {}, '0123456789abcdef'],
  ['names no list while the engine cannot be read', { engineProblem: 'refused' }, ''],
  ['names no list when the agent has none', { microserviceList: undefined }, ''],
  ['says nothing of a list before the engine was read', { microservices: undefined }, undefined],
] as const)('a report %s', (_, change, list) => {
  expect(statusReport({ ...facts, ...change } as ReportFacts).microserviceList).toBe(list);
});

describe('limits of the machine', () => {
  const settings = { memoryLimit: 4096, cpuLimit: 80, diskLimit: 10 };
  const report = (figures: Partial<StatusReport>, limits: ReportFacts['settings'] = settings) =>
    statusReport({ ...facts, settings: limits, measured: { figures, duration: 1 } });
  const GIB = 1024 ** 3;

  test.each([
    ['memoryViolation', { memoryUsage: 4 * GIB + 1 }, { memoryUsage: 4 * GIB }],
    ['cpuViolation', { cpuUsage: 80.5 }, { cpuUsage: 80 }],
    ['diskViolation', { diskUsage: 10.5 }, { diskUsage: 10 }],
  ] as const)('%s is true above its limit, and at no other', (member, above, at) => {
    const none = { memoryViolation: false, cpuViolation: false, diskViolation: false };
    expect(report(above)).toMatchObject({ ...none, [member]: true });
    expect(report(at)).toMatchObject(none);
    expect(report(above, {})).toMatchObject(none);
  });

  test('are not judged in a report of changes, which has no figures', () => {
    const changes = statusReport({ ...facts, settings });
    for (const member of ['memoryViolation', 'cpuViolation', 'diskViolation'])
      expect(changes).not.toHaveProperty(member);
  });
});

test.each([
  ['starting', [], 'STARTING'],
  ['running', [], 'RUNNING'],
  ['running', ['the engine is lost'], 'WARNING'],
  ['stopping', ['the engine is lost'], 'STOPPED'],
] as const)('an agent that is %s, with the problems %j, is %s', (phase, problems, daemonStatus) => {
  expect(statusReport({ ...facts, phase, problems }).daemonStatus).toBe(daemonStatus);
});
