import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { endAtMoment } from '../../machine/_moments.ts';

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
const moments = endAtMoment(at, ['rename', 'unlink', 'rmdir', 'mkdir']);
const { renameSync } = fs;
fs.renameSync = (...args) => {
  moments.moment();
  renameSync(...args);
  moments.moment();
};
syncBuiltinESMExports();

const { VolumeMachine } = await import('./_machine.ts');
const machine = new VolumeMachine(folder);
machine.want();
if (way === 'prune') await machine.volumes.prune({ yes: true, force: true, dryRun: false });
else await machine.volumes.destroyPrivate(uuid, undefined, false);
process.stdout.write(`${moments.counted}\n`);
process.exit(0);
