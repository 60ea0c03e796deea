import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { RUN_FOLDERS } from './paths.ts';
import { OWNER, removePodmanLeftovers } from './podman-leftovers.ts';
import { processStartTime, writePidFile } from './process.ts';
import { waitFor } from './wait.ts';

/** A process like those that keep containers of a private podman: it ends when its container ends. */
async function startKeeper(run: string) {
  const script = `exec -a conmon bash -c "sleep 1000 & wait" conmon --runroot ${run}/state`;
  const keeper = spawn('bash', ['-c', script], { stdio: 'ignore' });
  const ended = new Promise((resolve) => keeper.once('exit', resolve));
  onTestFinished(() => void keeper.kill('SIGKILL'));
  const { pid = 0 } = keeper;
  return { ended, container: await waitFor(() => childOf(pid), { what: 'the container' }) };
}

function childOf(pid: number): number | undefined {
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
  return text === '' ? undefined : Number(text.split(' ')[0]);
}

test.runIf(process.platform === 'linux')(
  'containers of a run that was killed end, containers of a run that lives run on, and records stay while one runs',
  async () => {
    const records = join(mkdtempSync(join(tmpdir(), 'skerry-records-')), 'aardvark-dns');
    mkdirSync(records);
    onTestFinished(() => rmSync(join(records, '..'), { recursive: true }));
    const owning = join(RUN_FOLDERS, `test-${process.pid}`);
    mkdirSync(owning, { recursive: true });
    onTestFinished(() => rmSync(owning, { recursive: true }));
    writePidFile(owning, OWNER, process.pid);
    const [orphan, owned] = [await startKeeper(join(RUN_FOLDERS, 'of-nobody')), await startKeeper(owning)];
    onTestFinished(() => void process.kill(owned.container, 'SIGKILL'));
    await removePodmanLeftovers(records);
    await orphan.ended;
    expect(processStartTime(orphan.container)).toBeUndefined();
    expect(processStartTime(owned.container)).toBeDefined();
    expect(existsSync(records)).toBe(true);
  },
);
