#!/usr/bin/env -S node --max-semi-space-size=1 --optimize-for-size
// Memory of what passes through, such as the output of a session, is freed at once instead of by a full collection, and what stays
// is kept small: docs/performance.md.
import { rawInput } from '../../src/terminal/raw-input.ts';
import { endAtUnhandled } from '../../src/terminal/unhandled.ts';
import { runCli } from './cli/cli.ts';
import { restartProcess } from './restart.ts';

const signal = untilSignal();
const commandEnd = endAtUnhandled((text) => void process.stderr.write(text));
let restarts = false;
let isDaemon = false;
// The agent itself writes nothing there.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (isDaemon) return;
  // The reader of a pipe may end early, as `head` does. A file that takes no more lacks something.
  if (error.code !== 'EPIPE') process.stderr.write(`error: the output cannot be written: ${error.message}\n`);
  process.exit(error.code === 'EPIPE' ? 0 : 1);
});
process.exitCode = await runCli(process.argv.slice(2), {
  out: (text) => void process.stdout.write(text),
  err: (text) => void process.stderr.write(text),
  streams: {
    // Only a command that reads it opens it.
    get input() {
      return rawInput(process.stdin);
    },
    output: process.stdout,
    errors: process.stderr,
  },
  env: process.env,
  ask: process.stdin.isTTY ? ask : undefined,
  signal,
  runAgent: async (configFile, signal) => {
    isDaemon = true;
    commandEnd[Symbol.dispose]();
    const { runDaemon } = await import('./daemon.ts');
    restarts = (await runDaemon(configFile, signal)) === 'restart';
  },
});
if (restarts) restartProcess();

async function ask(question: string): Promise<boolean> {
  const { createInterface } = await import('node:readline/promises');
  // The terminal stays as it is, so that Ctrl-C is a signal and not a key.
  const input = createInterface({ input: process.stdin, output: process.stderr, terminal: false });
  try {
    return /^y(es)?$/i.test((await input.question(`${question} [y/N] `, { signal })).trim());
  } finally {
    input.close();
  }
}

/** Fires at the first SIGINT or SIGTERM; a second one ends the process at once. */
function untilSignal(): AbortSignal {
  const stop = new AbortController();
  const onSignal = (name: NodeJS.Signals) => {
    if (stop.signal.aborted) process.exit(name === 'SIGINT' ? 130 : 143);
    stop.abort();
  };
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
  return stop.signal;
}
