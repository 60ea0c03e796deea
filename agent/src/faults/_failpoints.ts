import { appendFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { DockerEngine } from '../engines/docker/engine.ts';

/**
 * Makes the agent's own program die where a test wants it to: `node --import _failpoints.ts main.ts start`. Everything
 * that the agent changes outside of its memory is counted here: calls that change the engine, and commits of its
 * database. Each such operation has two moments, before and after. The process ends at the moment that its parent armed,
 * as by kill -9.
 *
 *     parent -> { arm: n, of: 'engine' | 'all' }    count from here; 0 only counts
 *     SKERRY_MOMENTS                                file that gets each moment's name, a line each
 */
interface Command {
  arm: number;
  of: 'engine' | 'all';
}

let command: Command | undefined;
let seen = 0;

function moment(name: string, kind: 'engine' | 'store'): void {
  if (!command || (command.of === 'engine' && kind !== 'engine')) return;
  seen++;
  if (process.env.SKERRY_MOMENTS) appendFileSync(process.env.SKERRY_MOMENTS, `${name}\n`);
  if (seen !== command.arm) return;
  process.kill(process.pid, 'SIGKILL');
  // Nothing of this thread may run on while the signal is on its way.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
}

process.on('message', (message: Command) => {
  command = message;
  seen = 0;
  process.send?.('armed');
});
process.channel?.unref();

const CALLS = ['ensureNetwork', 'removeNetwork', 'pull', 'create', 'start', 'stop', 'rename', 'remove'] as const;
const engine = DockerEngine.prototype as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>;
for (const name of CALLS) {
  const call = engine[name];
  if (!call) throw new Error(`the engine has no ${name}`);
  engine[name] = async function (...args) {
    moment(`before ${name}`, 'engine');
    // A call that fails has an end as well, and may have had an effect.
    try {
      return await call.apply(this, args);
    } finally {
      moment(`after ${name}`, 'engine');
    }
  };
}

const { exec } = DatabaseSync.prototype;
DatabaseSync.prototype.exec = function (sql) {
  if (sql !== 'COMMIT') return exec.call(this, sql);
  moment('before commit', 'store');
  exec.call(this, sql);
  moment('after commit', 'store');
};
