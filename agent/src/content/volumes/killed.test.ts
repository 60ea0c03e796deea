import { execFile } from 'node:child_process';
import { cpSync, existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { until } from '../../engines/_contract.ts';
import type { DestroyOrder } from './_destroy-process.ts';
import { VolumeMachine } from './_machine.ts';

const PROGRAM = join(import.meta.dirname, '_destroy-process.ts');
/** The normal run tries some of the moments. */
const STRIDE = process.env.SKERRY_NIGHTLY ? 1 : 9;
const A = 'a'.repeat(8);

function run(order: DestroyOrder): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const env = { ...process.env, SKERRY_DESTROY: JSON.stringify(order) };
    execFile(process.execPath, [PROGRAM], { env, timeout: 60_000 }, (error, _out, err) => {
      if (error && error.signal !== 'SIGKILL') reject(new Error(err, { cause: error }));
      else resolve(error !== null);
    });
  });
}

test.each(['destroy', 'prune'] as const)(
  'a process that dies at any change of the disk during a %s leaves each volume whole or none, and the next one ends the work',
  { timeout: 600_000 },
  async (way) => {
    const before = new VolumeMachine();
    for (const name of ['db', 'log']) before.make(A, name);
    before.make(null, 'pool');
    let deaths = 0;
    for (let at = 1; ; at += STRIDE) {
      const machine = new VolumeMachine();
      cpSync(before.directory, machine.directory, { recursive: true });
      const killed = await run({ folder: machine.folder, way, uuid: A, at });
      const left = await machine.volumes.list();
      for (const { uuid, name } of left)
        expect(machine.has(uuid, name), `${name} is whole after moment ${at}`).toBe(true);
      // The next process: what was on its way out goes, and nothing else.
      const stop = new AbortController();
      const done = machine.volumes.run(stop.signal);
      await until('no rest', () => trashIn(machine.directory).length === 0);
      stop.abort();
      await done;
      expect(await machine.volumes.list()).toEqual(left);
      if (way === 'destroy') expect(machine.has(null, 'pool')).toBe(true);
      if (!killed) {
        expect(left.map(({ name }) => name)).toEqual(way === 'destroy' ? ['pool'] : []);
        break;
      }
      deaths++;
    }
    expect(deaths).toBeGreaterThan(0);
  },
);

function trashIn(directory: string): string[] {
  const folders = ['shared', `data/${A}`].map((name) => join(directory, name)).filter(existsSync);
  return folders.flatMap((folder) => readdirSync(folder)).filter((name) => name.startsWith('.'));
}
