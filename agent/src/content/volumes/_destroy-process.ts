import fs from 'node:fs';
import promises from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';

/**
 * A process that destroys the volumes of a machine as SKERRY_DESTROY says, and ends as by kill -9 at one of the moments before
 * and after each change of its disk. Without such a moment it prints how many there were.
 */
export interface DestroyOrder {
  folder: string;
  way: 'prune' | 'destroy';
  uuid: string;
  at: number;
}

const { folder, way, uuid, at } = JSON.parse(process.env.SKERRY_DESTROY ?? '') as DestroyOrder;
let seen = 0;

function moment(): void {
  if (++seen !== at) return;
  process.kill(process.pid, 'SIGKILL');
  // Nothing of this thread may run on while the signal is on its way.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
}

const calls = promises as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>;
for (const name of ['rename', 'unlink', 'rmdir', 'mkdir']) {
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
const { renameSync } = fs;
fs.renameSync = (...args) => {
  moment();
  renameSync(...args);
  moment();
};
syncBuiltinESMExports();

const { VolumeMachine } = await import('./_machine.ts');
const machine = new VolumeMachine(folder);
machine.want();
if (way === 'prune') await machine.volumes.prune({ yes: true, force: true, dryRun: false });
else await machine.volumes.destroyPrivate(uuid, undefined, false);
process.stdout.write(`${seen}\n`);
process.exit(0);
