import { onTestFinished } from 'vitest';
import { TestHub } from './_hub.ts';
import { TestMachine } from './_machine.ts';

/** A hub, and a machine that has it as its registry 7; both end with the test. */
export async function hubAndMachine(): Promise<{ hub: TestHub; machine: TestMachine }> {
  const hub = await TestHub.start();
  const machine = new TestMachine().start();
  onTestFinished(async () => {
    await machine[Symbol.asyncDispose]();
    await hub[Symbol.asyncDispose]();
  });
  machine.registry({ url: hub.url, type: 'hub' });
  return { hub, machine };
}
