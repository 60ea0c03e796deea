import promises from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ArtifactView } from '../../../../src/wire/artifacts.ts';
import { bindingEntry, TestMachine } from './_machine.ts';

/**
 * A process that brings the artifacts of a machine to what SKERRY_PULL names, and ends as by kill -9 at one of the moments
 * before and after each change of its disk. Without such a moment it prints how many there were.
 */
export interface PullOrder {
  folder: string;
  hub: string;
  view: ArtifactView;
  uuid: string;
  permissions: 'ro' | 'rw';
  at: number;
}

const { folder, hub, view, uuid, permissions, at } = JSON.parse(process.env.SKERRY_PULL ?? '') as PullOrder;
let seen = 0;

function moment(): void {
  if (++seen !== at) return;
  process.kill(process.pid, 'SIGKILL');
  // Nothing of this thread may run on while the signal is on its way.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
}

const calls = promises as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>;
for (const name of ['rename', 'link', 'symlink', 'unlink', 'rm', 'mkdir', 'copyFile', 'chmod', 'rmdir']) {
  const call = calls[name];
  if (!call) throw new Error(`there is no ${name}`);
  calls[name] = async (...args) => {
    moment();
    try {
      return await call.apply(promises, args);
    } finally {
      moment();
    }
  };
}
syncBuiltinESMExports();

const machine = new TestMachine(folder).start();
machine.registry({ url: hub, type: 'hub' });
machine.run(bindingEntry(uuid, ['tiny'], { models: { bindPath: '/m', permissions, items: [{ name: 'tiny' }] } }));
machine.want('models', view);
const target = `${view.revision}\n`;
for (;;) {
  await sleep(5);
  try {
    if (machine.files('volumes/models', uuid, permissions)['tiny/a.txt'] === target) break;
  } catch {
    // It is not there yet.
  }
}
await machine.stop();
process.stdout.write(`${seen}\n`);
process.exit(0);
