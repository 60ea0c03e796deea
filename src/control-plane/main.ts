#!/usr/bin/env node
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { RESERVED_ENV_PREFIX } from '../api/names.ts';
import { layoutOf } from './layout.ts';

/**
 * The process of a control plane on a node: etcd, API server, controller manager and controller in one container. Its modules are loaded
 * with the command that needs them: this process lives as long as the container.
 */

const HELP = `skerry-control-plane - the control plane of a node, in one container

  skerry-control-plane           run it until SIGTERM
  skerry-control-plane snapshot  write a snapshot of the datastore to the standard output, while it runs
  skerry-control-plane restore   read a snapshot from the standard input, and start with its data
`;
const INSTALL_MS = 120_000;

const layout = layoutOf(process.env);

function say(event: string, fields: Record<string, unknown> = {}): void {
  process.stdout.write(
    `${JSON.stringify({ time: new Date().toISOString(), name: 'control-plane', ...fields, msg: event })}\n`,
  );
}

/** In a process of its own, whose memory is given back. */
async function command(name: string): Promise<void> {
  const child = spawn(process.execPath, [process.argv[1] as string, name], { stdio: ['ignore', 'inherit', 'inherit'] });
  const [code, signal] = await once(child, 'exit');
  if (code !== 0) throw new Error(`${name} has failed with ${signal ?? code}`);
}

async function run(): Promise<void> {
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.on(signal, () => {
      say('Stopping', { signal });
      stop.abort();
    });
  mkdirSync(layout.data, { recursive: true, mode: 0o700 });
  const { runControlPlane } = await import('./run.ts');
  // What an agent says of a container is not about the controller.
  const given = Object.entries(process.env).filter(([name]) => !name.startsWith(RESERVED_ENV_PREFIX));
  const settings = Object.fromEntries(given.map(([name, value = '']) => [name, value]));
  await runControlPlane({ layout, settings, path: process.env.PATH ?? '', command, say }, stop.signal);
}

const COMMANDS: Readonly<Record<string, () => Promise<void> | void>> = {
  run,
  keys: async () => {
    for (const error of await (await import('./keys.ts')).keepKeys(layout, Date.now()))
      say('A certificate stays', { error });
  },
  install: async () => (await import('./install.ts')).install(layout, AbortSignal.timeout(INSTALL_MS)),
  snapshot: async () => (await import('./snapshot.ts')).writeSnapshot(process.stdout),
  restore: async () => {
    await (await import('./snapshot.ts')).takeSnapshot(layout, process.stdin);
    process.stderr.write('The control plane starts again with the data of the snapshot.\n');
    // The first process of the container.
    process.kill(1, 'SIGTERM');
  },
  '--help': () => void process.stdout.write(HELP),
};

const found = COMMANDS[process.argv[2] ?? 'run'];
try {
  if (!found) throw new Error(`there is no command "${process.argv[2]}"; see --help`);
  await found();
} catch (error) {
  process.stderr.write(`${(error as Error).message}\n`);
  process.exitCode = 1;
}
