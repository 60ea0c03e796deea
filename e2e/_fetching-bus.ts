import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { dirname, join } from 'node:path';
import { WebSocket } from 'ws';

/**
 * What an image of v3 does in the place of nats-server: it waits for the files of the server, copies tokens into the directory of its
 * resolver, starts the server, starts it again at each change of its files, and asks the local API of its agent for its configuration.
 * It is not root. It prints all of it as lines of JSON.
 */
const {
  NATS_CONF = '/etc/nats/config/server.conf',
  NATS_JWT_MOUNT_DIR = '/tmp/nats/jwt',
  NATS_JWT_DIR = '/home/runner/nats/jwt',
  LOCAL_API_PORT = '54321',
} = process.env;
const ACCOUNT = '/var/run/secrets/agent.skerry.dev/serviceaccount';
const HOST = 'skerry-agent.default.svc.bridge.local';
const AGAIN_MS = 500;

const say = (line: object) => void process.stdout.write(`${JSON.stringify(line)}\n`);

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

const access = () => ({
  ca: readFileSync(`${ACCOUNT}/ca.crt`),
  headers: { authorization: `Bearer ${readFileSync(`${ACCOUNT}/token`, 'utf8')}` },
});

function fetchConfig(): void {
  const path = '/v1/microservices/config';
  const call = request({ ...access(), host: HOST, port: LOCAL_API_PORT, path }, (response) => {
    let text = '';
    response.on('data', (piece) => {
      text += piece;
    });
    response.on('end', () => say({ status: response.statusCode, config: JSON.parse(text).data?.config }));
  });
  call.on('error', ({ message }) => say({ error: message })).end();
}

function follow(): void {
  const socket = new WebSocket(`wss://${HOST}:${LOCAL_API_PORT}/v1/microservices/control`, access());
  socket.on('open', fetchConfig);
  socket.on('error', ({ message }) => say({ error: message }));
  socket.on('close', () => setTimeout(follow, AGAIN_MS));
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
