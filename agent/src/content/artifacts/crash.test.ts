import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { temporaryFolder } from '../../../../testing/temporary-folder.ts';
import { until } from '../../engines/_contract.ts';
import { TestHub } from './_hub.ts';
import { bindingEntry, makeArtifact, TestMachine } from './_machine.ts';
import type { PullOrder } from './_pull-process.ts';

const PROGRAM = join(import.meta.dirname, '_pull-process.ts');
/** The normal run tries some of the moments. */
const STRIDE = process.env.SKERRY_NIGHTLY ? 1 : 17;

function run(order: PullOrder): Promise<{ killed: boolean; out: string }> {
  return new Promise((resolve, reject) => {
    const env = { ...process.env, SKERRY_PULL: JSON.stringify(order) };
    execFile(process.execPath, [PROGRAM], { env, timeout: 60_000 }, (error, out, err) => {
      if (error && error.signal !== 'SIGKILL') reject(new Error(err, { cause: error }));
      else resolve({ killed: error !== null, out });
    });
  });
}

test.each(['ro', 'rw'] as const)(
  'a process that dies at any change of the disk leaves a %s projection with the old revision or the new one, and the next process ends the work',
  { timeout: 600_000 },
  async (permissions) => {
    const hub = await TestHub.start();
    const root = temporaryFolder();
    onTestFinished(() => hub[Symbol.asyncDispose]());
    for (const version of ['v1', 'v2'])
      hub.commit('models/team/tiny', { 'a.txt': `${version}\n`, 'sub/b.txt': `${version}\n` }, version);
    const uuid = randomUUID();
    const view = makeArtifact({ revision: 'v1' });
    const order = { hub: hub.url, view, uuid, permissions };
    const contents = (version: string) => ({ 'tiny/a.txt': `${version}\n`, 'tiny/sub/b.txt': `${version}\n` });
    expect(await run({ ...order, folder: join(root, 'before'), at: 0 })).toMatchObject({ killed: false });

    let deaths = 0;
    for (let at = 1; ; at += STRIDE) {
      const folder = join(root, `at-${at}`);
      cpSync(join(root, 'before'), folder, { recursive: true, verbatimSymlinks: true });
      const next = { ...view, revision: 'v2' };
      const { killed } = await run({ ...order, folder, view: next, at });
      const machine = new TestMachine(folder);
      const seen = () => machine.files('volumes/models', uuid, permissions);
      expect([contents('v1'), contents('v2')], `after a death at moment ${at}`).toContainEqual(seen());
      {
        await using _started = machine.start();
        machine.registry({ url: hub.url, type: 'hub' });
        machine.want('models', next);
        const models = { bindPath: '/m', permissions, items: [{ name: 'tiny' }] };
        machine.run(bindingEntry(uuid, ['tiny'], { models }));
        await machine.reaches('models', 'tiny', 'Ready');
        await until('the new revision', () => JSON.stringify(seen()) === JSON.stringify(contents('v2')));
        await until('one content in the store', () => machine.blobs.length === 1);
      }
      if (!killed) break;
      deaths++;
    }
    expect(deaths).toBeGreaterThan(0);
  },
);
