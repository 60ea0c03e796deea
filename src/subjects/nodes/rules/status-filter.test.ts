import { describe, expect, test } from 'vitest';
import type { EdgeNodeStatus } from '../../../api/v3/index.ts';
import type { Observation } from '../../../rules/inputs.ts';
import { affectsStatus } from './status-filter.ts';

const NOW = Date.parse('2026-01-01T12:00:00Z');
const ago = (ms: number) => new Date(NOW - ms).toISOString();
const stored = (more: Partial<EdgeNodeStatus> = {}): EdgeNodeStatus => ({
  observedGeneration: 1,
  daemonStatus: 'RUNNING',
  lastSeenTime: ago(10_000),
  ...more,
});
const tiny = { uuid: 'u', name: 'tiny', source: 'managed' as const, state: 'Pulling' as const };
const web = { id: 'm1', status: 'RUNNING' as const, revision: 'r1', cpuUsage: 1, memoryUsage: 10 };
const observation = (more: Partial<Observation> = {}): Observation => ({
  report: { daemonStatus: 'RUNNING', microserviceStatus: [web] },
  reportedAt: NOW,
  contactAt: NOW,
  waitSeconds: 60,
  agent: '0.1.0',
  instances: { i1: { seenAt: NOW } },
  sentRevisions: HANDED_OUT,
  ...more,
});
const HANDED_OUT = {};
const reporting = (more: object) =>
  observation({ report: { daemonStatus: 'RUNNING', microserviceStatus: [web], ...more } });

describe('affectsStatus', () => {
  test.each<[string, [Observation, Observation | undefined, EdgeNodeStatus | undefined], affects: boolean]>([
    ['the first observation of a node affects the status', [observation(), undefined, stored()], true],
    [
      'a contact without a report does not affect the status',
      [observation({ contactAt: NOW + 1 }), observation(), stored()],
      false,
    ],
    [
      'a contact after five minutes affects the status',
      [observation(), observation(), stored({ lastSeenTime: ago(300_000) })],
      true,
    ],
    ['an equal report does not affect the status', [reporting({}), observation(), stored()], false],
    [
      'measurements of the machine do not affect the status',
      [reporting({ memoryUsage: 5, cpuUsage: 7, systemTime: 8 }), observation(), stored()],
      false,
    ],
    [
      'the progress of a pull does not affect the status',
      [
        reporting({ modelStatus: [{ ...tiny, percentage: 50, totalBytes: 7 }], activeModels: 2, modelLastUpdate: 3 }),
        reporting({ modelStatus: [{ ...tiny, percentage: 10 }], activeModels: 1 }),
        stored(),
      ],
      false,
    ],
    [
      'the state of an artifact affects the status',
      [reporting({ knowledgeStatus: [{ ...tiny, state: 'Ready' }] }), reporting({ knowledgeStatus: [tiny] }), stored()],
      true,
    ],
    [
      'measurements of a microservice do not affect the status',
      [reporting({ microserviceStatus: [{ ...web, cpuUsage: 9, memoryUsage: 99 }] }), observation(), stored()],
      false,
    ],
    [
      'another state of a microservice affects the status',
      [reporting({ microserviceStatus: [{ ...web, status: 'RESTARTING' }] }), observation(), stored()],
      true,
    ],
    [
      'another revision affects the status',
      [reporting({ microserviceStatus: [{ ...web, revision: 'r2' }] }), observation(), stored()],
      true,
    ],
    [
      'a microservice that is no longer reported affects the status',
      [reporting({ microserviceStatus: [] }), observation(), stored()],
      true,
    ],
    [
      'another version of the agent affects the status',
      [observation({ agent: '0.2.0' }), observation(), stored()],
      true,
    ],
    [
      'a second agent instance affects the status',
      [observation({ instances: { i1: { seenAt: NOW }, i2: { seenAt: NOW } } }), observation(), stored()],
      true,
    ],
    [
      'a sent revision of a third-party agent affects the status',
      [
        observation({ sentRevisions: { m1: { revision: 'r2', imageId: 'i', at: NOW, rebuildCount: 0 } } }),
        observation(),
        stored(),
      ],
      true,
    ],
  ])('%s', (_, [now, before, status], affects) => {
    expect(affectsStatus(now, before, status, NOW)).toBe(affects);
  });
});
