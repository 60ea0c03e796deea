import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import { tail } from './last-words.ts';
import { processStartTime, startDaemon, stopLeftovers } from './process.ts';
import { waitFor } from './wait.ts';

const node = (script: string) => ({ command: process.execPath, args: ['-e', script] });
const FOREVER = 'setInterval(() => {}, 1000)';

test('a daemon writes its log, and stops gracefully', async () => {
  const dir = temporaryFolder();
  const script = `process.on('SIGTERM', () => { console.log('bye'); process.exit(0); }); console.log('up'); ${FOREVER}`;
  const daemon = await startDaemon({ name: 'd', dir, ...node(script) });
  await waitFor(() => tail(daemon.logFile) === 'up', { what: 'the first line' });
  daemon.assertRunning();
  await daemon.stop();
  expect(daemon.exit()).toEqual({ code: 0, signal: null });
  expect(tail(daemon.logFile)).toBe('up\nbye');
  expect(existsSync(join(dir, 'run/d.pid'))).toBe(false);
});

test('a daemon that ignores SIGTERM is killed after the grace period', async () => {
  const daemon = await startDaemon({
    name: 'd',
    dir: temporaryFolder(),
    ...node(`process.on('SIGTERM', () => {}); console.log('up'); ${FOREVER}`),
  });
  await waitFor(() => tail(daemon.logFile) === 'up', { what: 'the first line' });
  await daemon.stop(50);
  expect(daemon.exit()).toEqual({ code: null, signal: 'SIGKILL' });
});

test('a daemon that ended by itself is reported with the end of its log', async () => {
  const daemon = await startDaemon({
    name: 'd',
    dir: temporaryFolder(),
    ...node(`console.log('no luck'); process.exit(3)`),
  });
  await daemon.exited;
  expect(() => daemon.assertRunning()).toThrow(/^d ended with code 3\..*no luck$/s);
});

test('a program that does not exist is an error that names it', async () => {
  const dir = temporaryFolder();
  const failure = startDaemon({ name: 'd', dir, command: '/no/such/program', args: [] }).then(async (daemon) => {
    await daemon.exited;
    daemon.assertRunning();
  });
  await expect(failure).rejects.toThrow('/no/such/program');
});

/** A process that starts a daemon, prints its pid and then does nothing. */
async function startParent(dir: string): Promise<{ kill(): void; pid: number }> {
  const script = `
    const { startDaemon } = await import(${JSON.stringify(join(import.meta.dirname, 'process.ts'))});
    const daemon = await startDaemon({ name: 'd', dir: ${JSON.stringify(dir)}, command: 'sleep', args: ['1000'] });
    console.log(daemon.pid);
    ${FOREVER}`;
  const parent = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => void parent.kill('SIGKILL'));
  const pid = await new Promise<number>((resolve) => parent.stdout.once('data', (line) => resolve(Number(`${line}`))));
  return { kill: () => parent.kill('SIGKILL'), pid };
}

test.runIf(process.platform === 'linux')('a daemon dies with the process that started it', async () => {
  const dir = temporaryFolder();
  const { kill, pid } = await startParent(dir);
  expect(processStartTime(pid)).toBeDefined();
  // Before that it is setpriv, which may not have requested the signal yet.
  await waitFor(() => readFileSync(`/proc/${pid}/comm`, 'utf8') === 'sleep\n', { what: 'the daemon to run' });
  kill();
  await waitFor(() => processStartTime(pid) === undefined, { what: 'the daemon to die' });
  expect(await stopLeftovers(dir)).toEqual([]);
});

test.runIf(process.platform === 'linux')('stopLeftovers ends the daemons of an earlier run', async () => {
  const dir = temporaryFolder();
  const { pid } = await startParent(dir);
  expect(await stopLeftovers(dir)).toEqual(['d']);
  expect(processStartTime(pid)).toBeUndefined();
  expect(await stopLeftovers(dir)).toEqual([]);
});
