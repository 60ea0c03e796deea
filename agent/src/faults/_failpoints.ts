import fs, { appendFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { DatabaseSync } from 'node:sqlite';
import { aroundEngineCalls } from './_engine-calls.ts';

/**
 * Makes the agent's own program die where a test wants it to: `node --import _failpoints.ts main.ts start`. Everything
 * that the agent changes outside of its memory is counted here: calls that change the engine, commits of its database, and
 * changes of its rows and of contents. Each such operation has two moments, before and after. The process ends at the moment that its parent armed,
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

const CALLS = [
  ...['ensureNetwork', 'removeNetwork', 'pull', 'removeImage'],
  ...['create', 'start', 'stop', 'rename', 'remove'],
];
aroundEngineCalls(CALLS, async (name, call) => {
  moment(`before ${name}`, 'engine');
  // A call that fails has an end as well, and may have had an effect.
  try {
    return await call();
  } finally {
    moment(`after ${name}`, 'engine');
  }
});

const { exec } = DatabaseSync.prototype;
DatabaseSync.prototype.exec = function (sql) {
  if (sql !== 'COMMIT') return exec.call(this, sql);
  moment('before commit', 'store');
  exec.call(this, sql);
  moment('after commit', 'store');
};

/** The contents of models and knowledge. */
const isContent = (path: unknown) => String(path).includes('/artifacts/');
const calls = fs.promises as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>;
for (const name of ['rename', 'rm', 'unlink']) {
  const call = calls[name];
  if (!call) throw new Error(`there is no ${name}`);
  calls[name] = async (...args) => {
    if (!args.some(isContent)) return call.apply(fs.promises, args);
    moment(`before ${name} of content`, 'store');
    try {
      return await call.apply(fs.promises, args);
    } finally {
      moment(`after ${name} of content`, 'store');
    }
  };
}

/** The rows of this machine's own microservices, and of what else was defined on it. */
const isRow = (path: unknown) => String(path).includes('/local/') && String(path).endsWith('.json');
const { renameSync, rmSync } = fs;
fs.renameSync = (from, to) => {
  if (!isRow(to)) return renameSync(from, to);
  moment('before a row', 'store');
  renameSync(from, to);
  moment('after a row', 'store');
};
fs.rmSync = (path, options) => {
  if (!isRow(path)) return rmSync(path, options);
  moment('before the end of a row', 'store');
  rmSync(path, options);
  moment('after the end of a row', 'store');
};
syncBuiltinESMExports();
