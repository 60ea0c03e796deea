import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { PORTS } from '../api/names.ts';
import { sleep } from '../lib/clock.ts';
import { writeAuthority } from './authority.ts';
import type { Layout } from './layout.ts';
import { isAnswering } from './probe.ts';
import { CERTIFICATE_HOSTS, type ProgramToRun, programs } from './programs.ts';
import { endFullState } from './quota.ts';
import { type RenewalDependencies, renewKeys } from './renewal.ts';
import { restoreSnapshot } from './snapshot.ts';

/** A program has so long to become ready, ms: a slow disk, or a long log of etcd. */
const READY_MS = 600_000;
const LOOK_MS = 100;

export interface RunDependencies extends RenewalDependencies {
  /** of the controller, as variables */
  settings: Readonly<Record<string, string>>;
  /** for each program, besides its own variables */
  path: string;
}

interface Running {
  program: ProgramToRun;
  child: ChildProcess;
}

/**
 * Starts the programs one after another, and ends them the other way round when the signal fires. Rejects when one of them does not start
 * or ends by itself, after the others have ended: whoever runs the container starts all of them again.
 */
export async function runControlPlane(deps: RunDependencies, signal: AbortSignal): Promise<void> {
  const { layout, settings, command, say } = deps;
  if (restoreSnapshot(layout)) say('Restored the snapshot');
  await command('keys');
  const running: Running[] = [];
  const over = new AbortController();
  const until = AbortSignal.any([signal, over.signal]);
  let failure: Error | undefined;
  const fail = (error: Error) => {
    if (until.aborted) return;
    failure = error;
    over.abort();
  };
  // From now on: the clock may be set while the programs start.
  renewKeys(deps, until).catch(fail);
  try {
    for (const program of programs(layout, settings)) {
      if (until.aborted) break;
      // With the API server alone: the controller manager and the controller find their roles.
      if (program.name === 'kube-controller-manager') await command('install');
      const child = start(program, deps);
      running.push({ program, child });
      child.once('exit', (code, killedBy) => fail(new Error(`${program.name} has ended with ${killedBy ?? code}`)));
      if (program.ready) await becomesReady(program, program.ready, layout, until);
      if (program.name === 'etcd') await makeRoom(deps, until);
    }
    if (!until.aborted) {
      if (settings[CERTIFICATE_HOSTS] !== undefined)
        await writeAuthority(layout, Number(settings.SERVER_PORT ?? PORTS.rest)).catch((error: Error) =>
          // Only machines that join need it, and the next start writes it.
          say('The authority of the controller was not written', { error: error.message }),
        );
      say('The control plane is ready');
    }
    if (!until.aborted) await once(until, 'abort');
  } finally {
    over.abort();
    for (const each of running.reverse()) await end(each);
  }
  if (failure) throw failure;
}

function start(program: ProgramToRun, { path, say }: RunDependencies): ChildProcess {
  const { name, command, args, env } = program;
  // Its output goes into the log of the container, as it is.
  const child = spawn(command, args, { env: { PATH: path, ...env }, stdio: ['ignore', 'inherit', 'inherit'] });
  child.once('error', (error) => {
    say('A program does not start', { program: name, error: error.message });
    child.emit('exit', null, null);
  });
  say('Started', { program: name });
  return child;
}

/** A full datastore that stays full still answers reads. */
async function makeRoom({ say }: RunDependencies, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  try {
    if (await endFullState(signal)) say('The datastore was full, and has room again');
  } catch (error) {
    say('The datastore is full, or does not say', { error: (error as Error).message });
  }
}

async function becomesReady(program: ProgramToRun, url: string, layout: Layout, signal: AbortSignal): Promise<void> {
  const end = performance.now() + READY_MS;
  while (!signal.aborted && !(await isAnswering(url, layout))) {
    if (performance.now() > end) throw new Error(`${program.name} is not ready after ${READY_MS / 1000} s`);
    await sleep(LOOK_MS, signal);
  }
}

async function end({ program, child }: Running): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  const kill = setTimeout(() => child.kill('SIGKILL'), program.endMs);
  await exited;
  clearTimeout(kill);
}
