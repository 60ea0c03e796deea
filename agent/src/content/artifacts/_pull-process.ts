import { syncBuiltinESMExports } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ArtifactView } from '../../../../src/wire/artifacts.ts';
import { endAtMoment } from '../../machine/_moments.ts';
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
const moments = endAtMoment(at, ['rename', 'link', 'symlink', 'unlink', 'rm', 'mkdir', 'copyFile', 'chmod', 'rmdir']);
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
process.stdout.write(`${moments.counted}\n`);
process.exit(0);
