import { expect, test } from 'vitest';
import { makeInputs, makeLookups } from '../../testing/inputs.ts';
import type { Application, ObservedMicroservice } from '../api/v3/index.ts';
import { desiredState } from '../desired/rules/desired.ts';
import type { EventInput } from '../kube/mod.ts';
import { makeNode } from '../subjects/nodes/_make.ts';
import { makeApplication, makeEntry, observedReader } from '../subjects/workloads/_make.ts';
import { applicationStatus } from '../subjects/workloads/rules/application/status.ts';
import { verdicts } from '../subjects/workloads/rules/verdicts/verdict.ts';
import { recordTransitions } from './transition-events.ts';

const application = makeApplication({
  entries: [makeEntry({ container: { healthCheck: { test: ['CMD', 'true'] } } })],
});

/** The status while the node reports this of the asked revision. */
function statusOf(item: Partial<ObservedMicroservice>): NonNullable<Application['status']> {
  const bare = makeNode();
  const [view] = desiredState(makeInputs({ node: bare, applications: [application] })).microservices;
  const revision = view && 'revision' in view ? view.revision : '';
  const node = {
    ...bare,
    status: { observedGeneration: 1, ...bare.status, microservices: [observedReader({ revision, ...item })] },
  };
  const desired = desiredState(makeInputs({ node, applications: [application] }));
  const lookups = makeLookups({ nodes: [node], applications: [application] });
  return applicationStatus({
    application,
    verdicts: verdicts(application, lookups),
    nodes: [{ node, liveness: 'live', desired }],
    now: '2026-01-01T00:00:00Z',
  });
}

/** What is recorded when the status becomes each of these in turn, the first of them the first of all. */
function eventsOf(...statuses: NonNullable<Application['status']>[]): EventInput[] {
  const events: EventInput[] = [];
  const recorder = {
    record: (_: unknown, event: EventInput) => void events.push(event),
    [Symbol.asyncDispose]: async () => {},
  };
  for (const [i, status] of statuses.entries()) recordTransitions(recorder, application, statuses[i - 1], status);
  return events;
}

const starting = statusOf({ healthStatus: 'starting', healthMessage: 'exit code 2: no such flag' });
const unhealthy = statusOf({ healthStatus: 'unhealthy', healthMessage: 'exit code 2: no such flag' });
const healthy = statusOf({ healthStatus: 'healthy' });

test('a microservice whose health check fails for good has a warning with the exit code and the output', () => {
  const otherText = statusOf({ healthStatus: 'unhealthy', healthMessage: 'exit code 2: another text' });
  const events = eventsOf(starting, unhealthy, otherText);
  expect(events.map(({ type, reason }) => `${type} ${reason}`)).toEqual(['Warning Unhealthy']);
  expect(events[0]?.note).toBe('0/1 ready; reader: running, but its health check fails: exit code 2: no such flag');
});

test.each([
  ['that an object begins to start is no event', [starting], []],
  ['a first status that is a warning is an event', [unhealthy], ['Warning Unhealthy']],
  ['a first start is one event', [starting, healthy], ['Normal AllRunning']],
  ['each later start is an event', [starting, healthy, starting], ['Normal AllRunning', 'Normal Starting']],
] as const)('%s', (_, statuses, events) => {
  expect(eventsOf(...statuses).map(({ type, reason }) => `${type} ${reason}`)).toEqual(events);
});
