import { expect, test } from 'vitest';
import type { Application, ObservedMicroservice } from '../api/v3/index.ts';
import { makeApplication, makeEntry, makeInputs, makeLookups, makeNode, makeObserved } from '../domain/_util.ts';
import { applicationStatus } from '../domain/application/status.ts';
import { verdicts } from '../domain/application/verdict.ts';
import { desiredState } from '../domain/edge-node/desired.ts';
import type { EventInput } from '../kube/mod.ts';
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
    status: { observedGeneration: 1, ...bare.status, microservices: [makeObserved({ revision, ...item })] },
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

test('a microservice whose health check fails for good has a warning with the exit code and the output', () => {
  const events: EventInput[] = [];
  const recorder = {
    record: (_: unknown, event: EventInput) => void events.push(event),
    [Symbol.asyncDispose]: async () => {},
  };
  const starting = statusOf({ healthStatus: 'starting', healthMessage: 'exit code 2: no such flag' });
  const unhealthy = statusOf({ healthStatus: 'unhealthy', healthMessage: 'exit code 2: no such flag' });
  const otherText = statusOf({ healthStatus: 'unhealthy', healthMessage: 'exit code 2: another text' });
  recordTransitions(recorder, application, undefined, starting);
  recordTransitions(recorder, application, starting, unhealthy);
  recordTransitions(recorder, application, unhealthy, otherText);
  expect(events.map(({ type, reason }) => `${type} ${reason}`)).toEqual(['Normal Starting', 'Warning Unhealthy']);
  expect(events[1]?.note).toBe('0/1 ready; reader: running, but its health check fails: exit code 2: no such flag');
});
