import { expect, onTestFinished, test } from 'vitest';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import { type Daemon, startDaemon } from './process.ts';
import { createSupervisor } from './supervisor.ts';
import { waitFor } from './wait.ts';

const FOREVER = 'setInterval(() => {}, 1000)';

function supervised() {
  const dir = temporaryFolder();
  const lines: string[] = [];
  let time = 0;
  const supervisor = createSupervisor({ log: (line) => lines.push(line), now: () => time, pause: async () => {} });
  const start = async (script = FOREVER): Promise<Daemon> => {
    const daemon = await startDaemon({
      ...{ name: 'agent', dir, command: process.execPath, args: ['-e', script] },
      again: supervisor.again,
    });
    onTestFinished(() => daemon.stop(0));
    return daemon;
  };
  const kill = async (daemon: Daemon) => {
    const { pid } = daemon;
    daemon.signal('SIGKILL');
    await waitFor(() => daemon.pid !== pid || daemon.exit() !== undefined, { what: 'another process' });
  };
  const wait = (ms: number) => {
    time += ms;
  };
  return { supervisor, lines, start, kill, wait };
}

test('a daemon that is killed is started again, and one line says what ended, how, and what runs on', async () => {
  const { supervisor, lines, start, kill } = supervised();
  supervisor.begin();
  const daemon = await start();
  await kill(daemon);
  daemon.assertRunning();
  expect(lines).toEqual(['The agent was ended by SIGKILL and is started again; meanwhile the containers run on']);
});

test('the fifth end of a daemon within a minute breaks the stack, with the reason and the end of its log', async () => {
  const { supervisor, lines, start } = supervised();
  supervisor.begin();
  const daemon = await start('console.log("no disk"); process.exit(3)');
  await expect(supervisor.broken).rejects.toThrow(
    /^The agent ended with code 3, as it did 5 times within a minute: the stack stops and keeps its data\.\nThe end of .*agent\.log:\nno disk/,
  );
  expect(await daemon.exited).toEqual({ code: 3, signal: null });
  expect(lines).toHaveLength(4);
});

test('ends that are more than a minute apart are not counted together', async () => {
  const { supervisor, start, kill, wait } = supervised();
  supervisor.begin();
  const daemon = await start();
  for (let i = 0; i < 6; i++) {
    await kill(daemon);
    wait(15_001);
  }
  expect(daemon.exit()).toBeUndefined();
});

test('the end of a daemon is final before the stack has worked', async () => {
  const { lines, start } = supervised();
  const daemon = await start('process.exit(1)');
  expect(await daemon.exited).toEqual({ code: 1, signal: null });
  expect(lines).toEqual([]);
});

test('a daemon that is stopped is not started again', async () => {
  const { supervisor, lines, start } = supervised();
  supervisor.begin();
  const daemon = await start();
  await daemon.stop();
  expect(daemon.exit()).toEqual({ code: null, signal: 'SIGTERM' });
  expect(lines).toEqual([]);
});
