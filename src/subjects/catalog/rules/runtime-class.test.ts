import { expect, test } from 'vitest';
import { makeInputs } from '../../../../testing/inputs.ts';
import { desiredState } from '../../../desired/rules/desired.ts';
import { makeNode } from '../../nodes/_make.ts';
import { makeApplication, makeEntry } from '../../workloads/_make.ts';
import { makeRuntimeClass } from '../_make.ts';
import { isRuntimeOn } from './runtime-class.ts';

const sandboxed = makeRuntimeClass('sandboxed', 'runsc');
const desiredOn = (status: object, handler = 'runsc') =>
  desiredState(
    makeInputs({
      node: makeNode({ status: { availableRuntimes: ['runc', 'runsc', 'kata'], ...status } }),
      applications: [makeApplication({ entries: [makeEntry({ container: { runtime: 'sandboxed' } })] })],
      runtimeClasses: [makeRuntimeClass('sandboxed', handler)],
    }),
  );

test('a microservice is sent with the handler of its runtime class, and the class is sent as well', () => {
  const { microservices, runtimeClasses } = desiredOn({ containerEngine: 'docker' });
  expect(microservices).toMatchObject([{ runtime: 'runsc' }]);
  expect(runtimeClasses).toEqual([{ name: 'sandboxed', handler: 'runsc' }]);
});

test('the embedded engine gets the name of the runtime class', () => {
  expect(desiredOn({ containerEngine: 'embedded' }).microservices).toMatchObject([{ runtime: 'sandboxed' }]);
});

test('another handler is another revision', () => {
  const [before] = desiredOn({}).microservices as readonly { revision: string }[];
  expect(desiredOn({}, 'kata').microservices).not.toMatchObject([{ revision: before?.revision }]);
});

test('a node has a runtime class when it lists its handler or its name', () => {
  const on = (...availableRuntimes: string[]) => isRuntimeOn(makeNode({ status: { availableRuntimes } }), sandboxed);
  expect([on('runsc'), on('sandboxed'), on('runc'), on()]).toEqual([true, true, false, false]);
});
