import { setTimeout as sleep } from 'node:timers/promises';
import { launch } from './update/launch.ts';
import { Program } from './update/program.ts';

/**
 * The process that an installed agent is started with: `<program directory>/node launcher.mjs start`. It is in no release,
 * so that no release can break it, and has no dependencies.
 */
process.exitCode = await launch({
  program: new Program(import.meta.dirname),
  args: process.argv.slice(2),
  env: process.env,
  now: () => performance.now(),
  sleep: (milliseconds) => sleep(milliseconds),
  replace: (file, args, env) => process.execve?.(file, [file, ...args], env as Record<string, string>),
  onSignal: (listener) => {
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, listener);
  },
  say: (message) =>
    process.stderr.write(`${JSON.stringify({ timestamp: new Date().toISOString(), level: 'INFO', message })}\n`),
});
