import { expect, test } from 'vitest';
import type { EdgeNodeStatus } from '../../api/v3/index.ts';
import { makeObserved } from '../../subjects/nodes/_make.ts';
import { statusCost } from './status-cost.ts';

const statusOf = (...microservices: Parameters<typeof makeObserved>[0][]): EdgeNodeStatus => ({
  observedGeneration: 1,
  microservices: microservices.map((item) => makeObserved(item)),
});
const many = (state: string, count = 60) =>
  statusOf(...Array.from({ length: count }, (_, index) => ({ uuid: `${index}`, state })));

test.each<[string, EdgeNodeStatus, boolean]>([
  ['a write for another state is urgent', statusOf({ state: 'FAILED' }), true],
  ['a write for another revision is urgent', statusOf({ revision: 'r1-new' }), true],
  ['a write for a microservice that is no longer reported is urgent', statusOf(), true],
  ['a write for another state of the agent is urgent', { ...statusOf({}), daemonStatus: 'WARNING' }, true],
  ['a write for another text is not urgent', statusOf({ errorMessage: 'no such image' }), false],
  ['a write for another counter is not urgent', statusOf({ restartCount: 3 }), false],
  [
    'a write for the state of a container that no entry placed is not urgent',
    statusOf({}, { uuid: 'b', application: undefined, state: 'FAILED' }),
    false,
  ],
])('%s', (_, after, urgent) => {
  expect(statusCost(statusOf({}), after, () => 0).urgent).toBe(urgent);
});

test.each<[string, EdgeNodeStatus, EdgeNodeStatus, number]>([
  ['one change costs the minimum of 40', statusOf({}), statusOf({ state: 'FAILED' }), 40],
  ['60 changes cost 60', many('RUNNING'), many('FAILED'), 60],
  ['50 KiB of text cost 51', statusOf({}), statusOf({ errorMessage: 'x'.repeat(50 * 1024) }), 51],
  [
    'another state of the agent costs its 300 applications',
    statusOf({}),
    { ...statusOf({}), daemonStatus: 'WARNING' },
    300,
  ],
  [
    'another warning costs its 300 applications',
    { ...statusOf({}), daemonStatus: 'WARNING', warningMessage: 'a' },
    { ...statusOf({}), daemonStatus: 'WARNING', warningMessage: 'b' },
    300,
  ],
])('%s', (_, before, after, units) => {
  expect(statusCost(before, after, () => 300).units).toBe(units);
});
