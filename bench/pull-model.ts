import { setTimeout as sleep } from 'node:timers/promises';
import { makeArtifact, TestMachine } from '../agent/src/content/artifacts/_machine.ts';

/** A process that pulls one model and prints how long that took, its CPU time, and how its resident memory grew. */
const [folder = '', url = ''] = process.argv.slice(2);
const machine = new TestMachine(folder).start();
machine.registry({ url, type: 'hub' });
await sleep(500);
const before = process.memoryUsage.rss();
let peak = before;
const began = performance.now();
const used = process.cpuUsage();
machine.want('models', makeArtifact());
while (machine.status('models', 'tiny')?.state !== 'Ready') {
  await sleep(20);
  peak = Math.max(peak, process.memoryUsage.rss());
}
const milliseconds = performance.now() - began;
const { user, system } = process.cpuUsage(used);
process.stdout.write(JSON.stringify({ milliseconds, cpuMs: (user + system) / 1_000, before, peak }));
process.exit(0);
