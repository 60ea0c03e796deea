import { expect, test } from 'vitest';
import type { Application, EdgeNode } from '../../../api/v3/index.ts';
import { findTarget, formerRunRefusal, groundLost, placeSession } from './session-target.ts';

const UUID = '11111111-1111-4111-8111-111111111111';

function application(name: string, age: number, isSystem: boolean): Application {
  const creationTimestamp = new Date(Date.UTC(2026, 0, 1, 0, 0, age)).toISOString();
  return {
    metadata: { name, uid: name, creationTimestamp },
    spec: { isSystem, microservices: [{ name: 'm', uuid: UUID, agent: { name: 'edge-1' } }] },
  } as unknown as Application;
}

const node = {
  metadata: { name: 'edge-1', uid: 'n', creationTimestamp: '2026-01-01T00:00:00Z' },
  spec: { uuid: 'node' },
  status: {
    daemonStatus: 'RUNNING',
    agent: '0.2.0',
    microservices: [{ uuid: UUID, application: 'router', state: 'RUNNING' }],
  },
} as unknown as EdgeNode;

const lookups = (applications: Application[], now: object = node) =>
  ({ applicationsWithEntry: () => applications, nodeByName: () => now, nodeByUuid: () => now }) as never;

function place(applications: Application[], isSystem: boolean, present: object = {}, kind: 'exec' | 'log' = 'exec') {
  const found = findTarget({ microservice: UUID, isSystem }, lookups(applications));
  if ('refused' in found) return { refused: found.refused };
  return placeSession(found, { ...node, status: { ...node.status, ...present } } as EdgeNode, kind);
}

test('an Application that claims the uuid of a system microservice opens no way into it', () => {
  const router = application('router', 1, true);
  const claim = application('claim', 2, false);
  for (const all of [
    [router, claim],
    [claim, router],
  ]) {
    expect(place(all, false)).toEqual({ refused: `there is no microservice with the uuid ${UUID}` });
    expect(place(all, true)).toEqual({ node: 'node' });
  }
});

test('a session with a microservice whose Application is being deleted is refused with their names', () => {
  const router = application('router', 1, true);
  const deleted = { ...router, metadata: { ...router.metadata, deletionTimestamp: '2026-01-01T00:00:00Z' } };
  expect(place([deleted], true)).toEqual({ refused: 'router/m is being deleted' });
  // As for a uuid that no microservice has.
  expect(place([deleted], false)).toEqual({ refused: `there is no microservice with the uuid ${UUID}` });
});

test('a terminal of a microservice that cannot be started is refused with the reason', () => {
  const failed = { ...inState('FAILED', '1.0.0').microservices[0], reason: 'ImagePullFailed' };
  expect(place([application('router', 1, true)], true, { microservices: [failed], agent: '1.0.0' })).toEqual({
    refused: 'microservice m does not run on node edge-1: its state is FAILED (ImagePullFailed)',
  });
});

const OF_ANOTHER_MAKE = 'the agent of node edge-1 is no Skerry agent and has the version';

test.each([
  ['3.7.0', false],
  ['3.8.0', true],
  ['v3.10.2', true],
  ['4.0.0', true],
  ['${version}', false],
  [undefined, true],
])('a terminal of an agent of another make with the version %s is given: %s', (version, isGiven) => {
  expect(place([application('router', 1, true)], true, { agent: undefined, version })).toEqual(
    isGiven
      ? { node: 'node' }
      : { refused: `${OF_ANOTHER_MAKE} ${version}: such agents give terminals from version 3.8 on` },
  );
});

test('what a node reports of another Application with this uuid does not count', () => {
  expect(place([application('other', 1, false)], false)).toEqual({
    refused: 'microservice m does not run on node edge-1: its state is not reported',
  });
});

const inState = (state: string, agent?: string, containerId?: string) => ({
  microservices: [{ uuid: UUID, application: 'router', state, containerId }],
  agent,
});

test.each<[sentence: string, present: object, refused: string | undefined]>([
  ['of our agent is allowed while its microservice restarts', inState('RESTARTING', '1.0.0'), undefined],
  ['of our agent is allowed of a microservice that is stuck', inState('STUCK_IN_RESTART', '1.0.0'), undefined],
  ['of our agent is allowed of one that has ended', inState('EXITING', '1.0.0'), undefined],
  ['of our agent is allowed of one that never started', inState('QUEUED', '1.0.0'), undefined],
  ['of our agent is allowed of one that it has not reported', { microservices: [], agent: '1.0.0' }, undefined],
  ['of another agent is allowed while its microservice restarts', inState('RESTARTING'), undefined],
  [
    'of another agent is refused without a container',
    inState('QUEUED'),
    'microservice m has no container on node edge-1: its state is QUEUED',
  ],
  [
    'is refused while its node is away',
    { ...inState('RUNNING', '1.0.0'), daemonStatus: 'UNKNOWN' },
    'node edge-1 is not connected: its status is UNKNOWN',
  ],
])('a log %s', (_, present, refused) => {
  const placed = place([application('router', 1, true)], true, present, 'log');
  const isOurs = 'agent' in present && present.agent !== undefined;
  const given = { node: 'node', ...(!isOurs && { keepsLogsOpen: true }) };
  expect(placed).toEqual(refused === undefined ? given : { refused });
});

test('the former run is refused of an agent of another make, which would show the present one, with its version', () => {
  const found = findTarget({ microservice: UUID, isSystem: true }, lookups([application('router', 1, true)]));
  if ('refused' in found) throw new Error(found.refused);
  const of = (status: object) => formerRunRefusal(found, { ...node, status } as EdgeNode);
  expect(of({ agent: '0.1.0', version: '0.1.0' })).toBeUndefined();
  expect(of({ version: '3.7.0' })).toBe(
    'previous: the agent of node edge-1, which is no Skerry agent, does not know former runs: its version is 3.7.0; update it, or leave previous out',
  );
  expect(formerRunRefusal({ node, called: 'node edge-1' }, node)).toBe(
    'previous: a former run is one of a container, and node edge-1 has one log',
  );
});

test('a session ends when its microservice is gone or on another node, not when its node is silent or it restarts', () => {
  const named = { microservice: UUID, isSystem: true };
  const lost = (applications: Application[], present: object = node) =>
    groundLost(
      { node: 'node', called: 'router/m' },
      findTarget(named, lookups(applications, present)),
      present as EdgeNode,
    );
  const router = application('router', 1, true);
  const all = [router];
  const silent = { ...node, status: { daemonStatus: 'UNKNOWN', microservices: [] } };
  expect(lost(all)).toBeUndefined();
  expect(lost(all, silent)).toBeUndefined();
  expect(lost([])).toBe('router/m was deleted');
  const deleted = { ...router, metadata: { ...router.metadata, deletionTimestamp: '2026-01-01T00:00:00Z' } };
  expect(lost([deleted])).toBe('router/m was deleted');
  expect(lost(all, { ...node, spec: { uuid: 'other' } })).toBe('the microservice has moved to another node');
  expect(lost(all, { ...node, status: { daemonStatus: 'NOT_PROVISIONED' } })).toBe('node edge-1 has no agent any more');
});
