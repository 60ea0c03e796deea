import { readFileSync } from 'node:fs';
import { request } from 'node:https';
import { WebSocket } from 'ws';

/**
 * What an image of v3 does in the place of a router's program: it ignores its arguments, fetches its configuration from the local API of
 * its agent by the files of its service account, and fetches it again at each signal of the control channel. It prints all of it as lines of JSON.
 */
const ACCOUNT = '/var/run/secrets/agent.skerry.dev/serviceaccount';
const HOST = 'skerry-agent.default.svc.bridge.local';
const { LOCAL_API_PORT = '54321' } = process.env;
const CONFIG_CHANGED = 0xc;
const AGAIN_MS = 500;

const say = (line: object) => void process.stdout.write(`${JSON.stringify(line)}\n`);
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
  socket.on('message', (message: Buffer) => {
    say({ signal: message[0] });
    if (message[0] === CONFIG_CHANGED) fetchConfig();
  });
  socket.on('error', ({ message }) => say({ error: message }));
  socket.on('close', () => setTimeout(follow, AGAIN_MS));
}

process.on('SIGTERM', () => process.exit(0));
follow();
