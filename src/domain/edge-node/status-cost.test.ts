import { expect, test } from 'vitest';
import type { EdgeNodeStatus } from '../../api/v3/index.ts';
import { makeObserved } from './_util.ts';
import { statusCost } from './status-cost.ts';

const statusOf = (...microservices: Parameters<typeof makeObserved>[0][]): EdgeNodeStatus => ({
  observedGeneration: 1,
  microservices: microservices.map((item) => makeObserved(item)),
});

test.each<[string, EdgeNodeStatus, boolean]>([
  ['another state', statusOf({ state: 'FAILED' }), true],
  ['another revision', statusOf({ revision: 'r1-new' }), true],
  ['a microservice that is gone', statusOf(), true],
  ['another state of the agent', { ...statusOf({}), daemonStatus: 'WARNING' }, true],
  ['another text', statusOf({ errorMessage: 'no such image' }), false],
  ['a counter', statusOf({ restartCount: 3 }), false],
  ['something that nobody placed here', statusOf({}, { uuid: 'b', application: undefined, state: 'FAILED' }), false],
])('%s is urgent or can wait', (_, after, urgent) => {
  expect(statusCost(statusOf({}), after).urgent).toBe(urgent);
});

test('many changes, or many bytes, cost more', () => {
  const many = (state: string) => statusOf(...Array.from({ length: 40 }, (_, index) => ({ uuid: `${index}`, state })));
  expect(statusCost(many('RUNNING'), many('FAILED')).units).toBe(40);
  expect(statusCost(statusOf({}), statusOf({ errorMessage: 'x'.repeat(50 * 1024) })).units).toBe(51);
});
