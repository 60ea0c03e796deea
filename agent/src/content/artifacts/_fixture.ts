import { onTestFinished } from 'vitest';
import { TestHub } from './_hub.ts';
import { TestMachine } from './_machine.ts';

/** A hub, and a machine that has it as its registry 7; both end with the test. `files`: of the model team/tiny of the hub. */
export async function hubAndMachine(
  files?: Parameters<TestHub['commit']>[1],
): Promise<{ hub: TestHub; machine: TestMachine }> {
  const hub = await TestHub.start();
  const machine = new TestMachine().start();
  onTestFinished(async () => {
    await machine[Symbol.asyncDispose]();
    await hub[Symbol.asyncDispose]();
  });
  machine.registry({ url: hub.url, type: 'hub' });
  if (files) hub.commit('models/team/tiny', files);
  return { hub, machine };
}
