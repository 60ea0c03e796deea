import { expect, test } from 'vitest';
import type { Application, EdgeNode } from '../../../api/v3/index.ts';
import type { Observation } from '../../../rules/inputs.ts';
import { fleetFigures } from './fleet.ts';

const NOW = 10_000_000;
const node = (uuid: string, status?: object) => ({ metadata: { name: uuid }, spec: { uuid }, status }) as EdgeNode;
const observed = (
  secondsAgo: number,
  microserviceStatus: { id: string; status: string; restartCount?: number }[] = [],
) =>
  ({
    contactAt: NOW - secondsAgo * 1000,
    waitSeconds: 0,
    report: { daemonStatus: 'RUNNING', microserviceStatus },
    instances: {},
    sentRevisions: {},
  }) as unknown as Observation;
const application = (status?: string, reason?: string) =>
  ({
    metadata: { name: 'a' },
    spec: {},
    status: status && { conditions: [{ type: 'Ready', status, reason }] },
  }) as unknown as Application;

test('the figures count nodes by state, contact ages of live nodes, microservices by state, and applications by readiness', () => {
  const observations: Record<string, Observation> = {
    a: observed(2, [
      { id: '1', status: 'RUNNING', restartCount: 4 },
      { id: '2', status: 'PULLING' },
    ]),
    silent: observed(9_000, [{ id: '3', status: 'RUNNING', restartCount: 9 }]),
  };
  const figures = fleetFigures({
    nodes: [node('a'), node('silent'), node('new')],
    applications: [application('True', 'AllRunning'), application('True', 'AllRunning'), application()],
    observation: (uuid) => observations[uuid],
    now: NOW,
    listeningSince: 0,
  });
  expect(Object.fromEntries(figures.nodes)).toEqual({ RUNNING: 1, UNKNOWN: 1, NOT_PROVISIONED: 1 });
  expect(figures.contactAges).toEqual([2]);
  expect(Object.fromEntries(figures.microservices)).toEqual({ RUNNING: 1, PULLING: 1 });
  expect(figures.microserviceRestarts).toBe(4);
  expect(figures.applications).toEqual([
    { ready: 'True', reason: 'AllRunning', count: 2 },
    { ready: 'Unknown', reason: '', count: 1 },
  ]);
});

test('the figures count nodes by readiness, by version of their agent and by what an update waits for', () => {
  const conditions = (...list: string[]) =>
    list.map((text) => {
      const [type = '', status = '', reason = ''] = text.split(' ');
      return { type, status, reason };
    });
  const inputs = { applications: [], observation: () => undefined, now: NOW, listeningSince: 0 };
  const { nodesReady, agentVersions, agentUpdates } = fleetFigures({
    ...inputs,
    nodes: [
      node('a', { version: '0.1.0', conditions: conditions('Ready True AgentRunning', 'Updating True Downloading') }),
      node('b', { version: '0.1.0', conditions: conditions('Ready True AgentRunning') }),
      node('c', { version: '0.2.0', conditions: conditions('Ready Unknown NodeUnreachable') }),
      node('d'),
    ],
  });
  expect(nodesReady).toEqual([
    { ready: 'True', reason: 'AgentRunning', count: 2 },
    { ready: 'Unknown', reason: 'NodeUnreachable', count: 1 },
    { ready: 'Unknown', reason: '', count: 1 },
  ]);
  expect(Object.fromEntries(agentVersions)).toEqual({ '0.1.0': 2, '0.2.0': 1 });
  expect(Object.fromEntries(agentUpdates)).toEqual({ Downloading: 1 });
  const many = Array.from({ length: 30 }, (_, index) => node(`n${index}`, { version: `1.${index % 25}` }));
  const counted = fleetFigures({ ...inputs, nodes: many }).agentVersions;
  expect([counted.size, counted.get('other')]).toEqual([21, 5]);
});

test('a thousand nodes of six microservices are counted in a few milliseconds', () => {
  const nodes = Array.from({ length: 1_000 }, (_, index) => node(`n${index}`));
  const one = observed(
    5,
    Array.from({ length: 6 }, (_, index) => ({ id: String(index), status: 'RUNNING' })),
  );
  const inputs = { nodes, applications: [], observation: () => one, now: NOW, listeningSince: 0 };
  const began = performance.now();
  for (let round = 0; round < 20; round++) fleetFigures(inputs);
  // It takes about half a millisecond; the bound allows for a busy machine.
  expect((performance.now() - began) / 20).toBeLessThan(50);
});

test('the figures count nodes by the phase of their platform, with each phase, and a node without a status as Pending', () => {
  const inputs = { applications: [], observation: () => undefined, now: NOW, listeningSince: 0 };
  const phases = ['Failed', 'Failed', 'Ready'].map((phase, i) => node(`n-${i}`, { platformStatus: { phase } }));
  const { nodePlatforms } = fleetFigures({ ...inputs, nodes: [...phases, node('new')] });
  expect(Object.fromEntries(nodePlatforms)).toEqual({ Pending: 1, Progressing: 0, Ready: 1, Failed: 2, Deleting: 0 });
});
