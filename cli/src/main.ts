#!/usr/bin/env node
import '../../src/lib/web-socket/masks.ts';
import { rawInput } from '../../src/terminal/raw-input.ts';
import { endAtUnhandled } from '../../src/terminal/unhandled.ts';
import { loadCluster } from './context/cluster.ts';
import { runPlugin } from './plugin.ts';

endAtUnhandled((text) => void process.stderr.write(text));
const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort());
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  // The reader of a pipe may end early, as `head` does. A file that takes no more lacks something.
  if (error.code !== 'EPIPE') process.stderr.write(`error: the output cannot be written: ${error.message}\n`);
  process.exit(error.code === 'EPIPE' ? 0 : 1);
});

process.exitCode = await runPlugin(process.argv.slice(2), {
  out: (text) => process.stdout.write(text),
  err: (text) => process.stderr.write(text),
  streams: {
    // Only a command that reads it opens it.
    get input() {
      return rawInput(process.stdin);
    },
    output: process.stdout,
    errors: process.stderr,
  },
  colours: process.stdout.isTTY === true && !process.env.NO_COLOR && process.env.TERM !== 'dumb',
  env: process.env,
  connect: loadCluster,
  now: Date.now,
  signal: stop.signal,
});
