import { expect, it } from 'vitest';
import type { Liveness } from '../../../rules/inputs.ts';
import { removedState, stateOf } from './microservice-state.ts';

type Case = [
  reported: string | undefined,
  liveness: Liveness | undefined,
  asked: 'run' | 'stop' | 'delete',
  want: string,
];

const CASES: Record<string, Case> = {
  'an entry without a node is QUEUED': [undefined, undefined, 'run', 'QUEUED'],
  'an entry without a report is QUEUED': [undefined, 'live', 'run', 'QUEUED'],
  'an entry without a report from a silent node is QUEUED': [undefined, 'silent', 'run', 'QUEUED'],
  'an entry that never ran and should not is STOPPED': [undefined, 'live', 'stop', 'STOPPED'],
  'an entry on a node that no agent has taken is QUEUED': ['RUNNING', 'never', 'run', 'QUEUED'],
  'an entry that should run has the state that its node reports': ['PULLING', 'live', 'run', 'PULLING'],
  'a crash loop is shown as reported': ['STUCK_IN_RESTART', 'live', 'run', 'STUCK_IN_RESTART'],
  'a container that runs and should not is STOPPING': ['RUNNING', 'live', 'stop', 'STOPPING'],
  'a container that stopped as asked is STOPPED': ['STOPPED', 'live', 'stop', 'STOPPED'],
  'an entry that should not run and whose state is unknown is STOPPED': ['UNKNOWN', 'live', 'stop', 'STOPPED'],
  'a container of a deleted application is DELETING': ['RUNNING', 'live', 'delete', 'DELETING'],
  'a container on a silent node is UNKNOWN': ['RUNNING', 'silent', 'run', 'UNKNOWN'],
  'a container that should stop on a silent node is UNKNOWN': ['RUNNING', 'silent', 'stop', 'UNKNOWN'],
  'a container that stopped before its node fell silent is STOPPED': ['STOPPED', 'silent', 'stop', 'STOPPED'],
  'a stopped container that should run on a silent node is UNKNOWN': ['STOPPED', 'silent', 'run', 'UNKNOWN'],
};
it.each(Object.entries(CASES))('%s', (_, [reported, liveness, asked, want]) => {
  expect(stateOf({ reported, liveness, wanted: asked === 'run', deleting: asked === 'delete' })).toBe(want);
});

const REMOVED: Record<string, [reported: string, liveness: Liveness, want: string]> = {
  'a removed container that still runs is DELETING': ['RUNNING', 'live', 'DELETING'],
  'a removed container of unknown state is DELETING': ['UNKNOWN', 'live', 'DELETING'],
  'a removed container that stopped is DELETED': ['STOPPED', 'live', 'DELETED'],
  'a removed container on a silent node is UNKNOWN': ['RUNNING', 'silent', 'UNKNOWN'],
};
it.each(Object.entries(REMOVED))('%s', (_, [reported, liveness, want]) => {
  expect(removedState(reported, liveness)).toBe(want);
});
