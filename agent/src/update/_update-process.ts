import fs from 'node:fs';
import promises, { open } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';

/**
 * Carries out one version action in a process that dies at a moment of the test's choice: before the n-th call that changes
 * the disk (SKERRY_DIE_AT; 0: never). It ends where the new release would start, or goes on until that has confirmed.
 * `_update-process.ts <program directory> <release keys> <releases URL> <restart|confirm>`.
 */
const CHANGES = [
  'appendFileSync',
  'chmodSync',
  'copyFileSync',
  'fsyncSync',
  'linkSync',
  'mkdirSync',
  'openSync',
  'renameSync',
  'rmSync',
  'symlinkSync',
  'writeFileSync',
  'writeSync',
] as const;

let calls = 0;
const dieAt = Number(process.env.SKERRY_DIE_AT ?? 0);
/** Lets the process die before one of the calls of these functions. */
function count(functions: object, names: readonly string[]): void {
  const known = functions as Record<string, (...args: unknown[]) => unknown>;
  for (const name of names) {
    const call = known[name] as (...args: unknown[]) => unknown;
    known[name] = function (...args) {
      if (++calls === dieAt) {
        process.kill(process.pid, 'SIGKILL');
        // Nothing of this thread may run on while the signal is on its way.
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
      }
      return call.apply(this, args);
    };
  }
}
const handle = await open('/dev/null');
count(Object.getPrototypeOf(handle), ['write', 'truncate', 'sync']);
await handle.close();
count(promises, ['open', 'unlink']);
count(fs, CHANGES);
syncBuiltinESMExports();

const { releaseKeys } = await import('../../../src/wire/release-signature.ts');
const { Program } = await import('./program.ts');
const { Updater } = await import('./updater.ts');
const { decideStart } = await import('./trial.ts');
const { systemClock } = await import('../machine/clock.ts');
const { silentLog } = await import('../../../src/lib/log.ts');

const [directory = '', keyFile = '', releasesUrl = '', until] = process.argv.slice(2);

/** As the launcher does, and then the release that it starts. */
function start(): void {
  const program = new Program(directory);
  const { steps, version = '', isTrial } = decideStart(program.state, program.current, program.versions());
  for (const step of steps) 'save' in step ? program.save(step.save) : program.switchTo(step.switchTo);
  const updater = new Updater({
    program,
    keys: releaseKeys(fs.readFileSync(keyFile, 'utf8')),
    version,
    architecture: 'amd64',
    clock: systemClock(),
    random: Math.random,
    accessTo: () => ({}),
    log: silentLog,
    requested: async () => ({ versionCommand: 'upgrade', provisionKey: '', expirationTime: 0, releasesUrl }),
    restart: () => (until === 'confirm' ? start() : process.exit(0)),
    changed: () => {
      // An action that ended without a restart has failed.
      if (isTrial || !updater.isFinished('a1')) return;
      process.stderr.write(`${updater.problems.join()}\n`);
      process.exit(1);
    },
  });
  if (isTrial) {
    updater.confirm();
    process.exit(0);
  }
  updater.resume('a1', new AbortController().signal);
}
start();
