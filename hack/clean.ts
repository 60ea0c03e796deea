import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { removeEngineData } from './engine.ts';
import { lock } from './lock.ts';
import { stopLeftovers, stopRecorded } from './process.ts';
import { endContainers } from './stack/agent.ts';
import { partFolders, readJson, STACK_FOLDER, STACK_PROCESS, type StackState } from './stack/files.ts';

/** `make clean`: stops a running stack and the leftovers of earlier ones, and removes the data. Binaries stay in the cache. */
const dir = STACK_FOLDER;
if (existsSync(dir)) {
  if (await stopRecorded(dir, STACK_PROCESS, 60_000)) process.stdout.write('Ended the local stack that ran\n');
  await using _alone = await lock(join(dir, 'lock'));
  for (const folder of partFolders(dir)) await stopLeftovers(folder);
  const state = readJson<StackState>(join(dir, 'state.json'));
  if (state?.engine) {
    await endContainers(state.engine, state.node, 'remove').catch((error: Error) =>
      process.stderr.write(`The containers of the local node may be left: ${error.message}\n`),
    );
  }
  removeEngineData(join(dir, 'engine'));
  removeEngineData(dir);
}
