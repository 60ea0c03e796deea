import { setTimeout as sleep } from 'node:timers/promises';
import { makeArtifact, TestMachine } from '../agent/src/artifacts/_machine.ts';

/** A process that pulls one model and prints how long that took and how its resident memory grew. */
const [folder = '', url = ''] = process.argv.slice(2);
const machine = new TestMachine(folder).start();
machine.registry({ url, type: 'hub' });
await sleep(500);
const before = process.memoryUsage.rss();
let peak = before;
const began = performance.now();
machine.want('models', makeArtifact());
while (machine.status('models', 'tiny')?.state !== 'Ready') {
  await sleep(20);
  peak = Math.max(peak, process.memoryUsage.rss());
}
process.stdout.write(JSON.stringify({ milliseconds: performance.now() - began, before, peak }));
process.exit(0);
