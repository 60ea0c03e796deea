import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { AGAIN_MS, follow, say } from './_local-api.ts';

/**
 * What an image of v3 does in the place of nats-server: it waits for the files of the server, copies tokens into the directory of its
 * resolver, starts the server, starts it again at each change of its files, and asks the local API of its agent for its configuration.
 * It is not root. It prints all of it as lines of JSON.
 */
const {
  NATS_CONF = '/etc/nats/config/server.conf',
  NATS_JWT_MOUNT_DIR = '/tmp/nats/jwt',
  NATS_JWT_DIR = '/home/runner/nats/jwt',
} = process.env;

function copyTokens(): void {
  mkdirSync(NATS_JWT_DIR, { recursive: true });
  const tokens = existsSync(NATS_JWT_MOUNT_DIR) ? readdirSync(NATS_JWT_MOUNT_DIR) : [];
  for (const name of tokens) writeFileSync(join(NATS_JWT_DIR, name), readFileSync(join(NATS_JWT_MOUNT_DIR, name)));
  say({ copied: tokens.length });
}

let server: ChildProcess | undefined;

function start(): void {
  copyTokens();
  const started = spawn('/usr/libexec/nats-server', ['-c', NATS_CONF], { stdio: ['ignore', 'inherit', 'inherit'] });
  server = started;
  say({ started: started.pid, uid: process.getuid?.() });
  started.on('exit', (code) => {
    say({ ended: code });
    if (server === started) setTimeout(start, AGAIN_MS);
  });
}

function startAgain(): void {
  const former = server;
  server = undefined;
  former?.once('exit', start);
  former?.kill('SIGTERM');
}

function whenFilesExist(): void {
  if (!existsSync(NATS_CONF)) return void setTimeout(whenFilesExist, AGAIN_MS);
  start();
  let known = contents();
  setInterval(() => {
    const now = contents();
    if (now !== known) startAgain();
    known = now;
  }, AGAIN_MS);
}

function contents(): string {
  const dir = dirname(NATS_CONF);
  const files = readdirSync(dir, { recursive: true, withFileTypes: true }).filter((one) => one.isFile());
  return files.map(({ parentPath, name }) => `${name} ${readFileSync(join(parentPath, name), 'base64')}`).join();
}

process.on('SIGTERM', () => {
  const former = server;
  server = undefined;
  if (!former) process.exit(0);
  former.once('exit', () => process.exit(0));
  former.kill('SIGTERM');
});
whenFilesExist();
follow();
