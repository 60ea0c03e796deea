import { readFileSync } from 'node:fs';
import { request } from 'node:https';
import { WebSocket } from 'ws';

/** The local API of an agent as images of v3 use it in their containers, by the files of their service account. They print what they receive as lines of JSON. */
const ACCOUNT = '/var/run/secrets/agent.skerry.dev/serviceaccount';
const HOST = 'skerry-agent.default.svc.bridge.local';
const { LOCAL_API_PORT = '54321' } = process.env;
/** Between two attempts to connect, ms. */
export const AGAIN_MS = 500;

export const say = (line: object) => void process.stdout.write(`${JSON.stringify(line)}\n`);
const access = () => ({
  ca: readFileSync(`${ACCOUNT}/ca.crt`),
  headers: { authorization: `Bearer ${readFileSync(`${ACCOUNT}/token`, 'utf8')}` },
});

export function fetchConfig(): void {
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

/** Follows the control channel without end, and fetches the config whenever it is open. */
export function follow(signalled: (message: Buffer) => void = () => {}): void {
  const socket = new WebSocket(`wss://${HOST}:${LOCAL_API_PORT}/v1/microservices/control`, access());
  socket.on('open', fetchConfig);
  socket.on('message', signalled);
  socket.on('error', ({ message }) => say({ error: message }));
  socket.on('close', () => setTimeout(() => follow(signalled), AGAIN_MS));
}
