import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, inject, test } from 'vitest';
import { createStack, until } from './_stack.ts';

/** What the programs do about failures of their own that no code handles. */
const FAILURES = join(import.meta.dirname, '_unhandled.ts');

const stack = await createStack();
const controller = await stack.startController({ env: { NODE_OPTIONS: `--import=${FAILURES}` } });
const program = [process.execPath, '--import', FAILURES, inject('programs').agent];
const agent = await stack.startAgent('gw', controller, { program });

const metric = async (url: string, name: string) => {
  const page = await (await fetch(url)).text();
  return new RegExp(`^${name} (\\d+)$`, 'm').exec(page)?.[1];
};
const logged = (file: string, text: string) => () => readFileSync(file, 'utf8').includes(text);
const CAUSE = 'made up by the test: connect ECONNREFUSED';

test('a controller logs and counts a rejection that nothing awaits, continues, and ends at an exception', async () => {
  const counted = () => metric(`${controller.metricsUrl}/metrics`, 'skerry_unhandled_rejections_total');
  expect(await counted()).toBe('0');
  process.kill(controller.pid, 'SIGUSR2');
  await until('the rejection to be counted', async () => (await counted()) === '1');
  expect(readFileSync(controller.logFile, 'utf8')).toContain(CAUSE);
  expect((await fetch(`${controller.url}/api/v3/status`)).status).toBe(200);
  process.kill(controller.pid, 'SIGUSR2');
  await until('the process to end', async () => !isThere(controller.pid));
  expect(logged(controller.logFile, 'An exception was not caught: the process ends')()).toBe(true);
});

test('an agent logs and counts a rejection that nothing awaits, continues, and ends at an exception', async () => {
  const counted = () => metric(`http://127.0.0.1:${agent.port}/metrics`, 'edge_agent_unhandled_rejections_total');
  expect(await counted()).toBe('0');
  process.kill(agent.pid, 'SIGUSR2');
  await until('the rejection to be counted', async () => (await counted()) === '1');
  expect(readFileSync(agent.logFile, 'utf8')).toContain(CAUSE);
  expect((await agent.cli('status')).code).toBe(0);
  const { pid } = agent;
  process.kill(pid, 'SIGUSR2');
  await until('the process to end', async () => !isThere(pid));
  expect(logged(agent.logFile, 'An exception was not caught: the agent ends')()).toBe(true);
});

test.for([
  ['the plugin', 'cli/src/main.ts', 'help'],
  ['a command of the agent', 'agent/src/main.ts', 'version'],
] as const)('%s that meets a rejection nothing awaits says so on stderr and exits with 1', async ([, main, word]) => {
  const args = ['--import', FAILURES, join(import.meta.dirname, '..', main), word];
  const env = { ...process.env, SKERRY_TEST_REJECTS: '1' };
  const outcome = await new Promise<{ code: unknown; stderr: string }>((resolve) => {
    execFile(process.execPath, args, { env }, (error, _, stderr) => resolve({ code: error?.code ?? 0, stderr }));
  });
  expect(outcome).toMatchObject({ code: 1, stderr: expect.stringContaining('error: Error: made up by the test') });
  expect(outcome.stderr).toContain('caused by: connect ECONNREFUSED');
});

function isThere(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
