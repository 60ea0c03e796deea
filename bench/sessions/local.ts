import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { request } from 'node:http';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { dial, type RawSocket } from '../../src/lib/web-socket/handshake.ts';
import { SOCKET_BOUNDS } from '../../src/wire/frames.ts';
import type { LocalApi } from '../edge.ts';
import { type Spread, spread } from '../percentile.ts';
import type { Stack } from '../stack.ts';
import { dockerExec, rate, type Shell, times } from './terminal.ts';

/** Exec sessions of the local API of an agent, beside `docker exec`. */

/** Writes text without an end: other bytes take more room in JSON than in a pipe. */
const TEXT = 'x=0123456789abcdef; while [ ${#x} -lt 65536 ]; do x=$x$x; done; while echo "$x"; do :; done';

interface Output {
  stream: string;
  line: string;
}

/** The client of a new session of a microservice. */
async function openExec({ socket, tokenFile }: LocalApi, uuid: string, command: readonly string[]): Promise<RawSocket> {
  const token = (await readFile(tokenFile, 'utf8')).trim();
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  const asked = request({ socketPath: socket, method: 'POST', path: `/v1/ms/${uuid}/exec/sessions`, headers });
  asked.end(JSON.stringify({ command, tty: false }));
  const [response] = await once(asked, 'response');
  const { data, error } = JSON.parse(await text(response)) as { data: { wsUrl: string }; error?: { message: string } };
  if (error) throw new Error(error.message);
  return dial(`ws://agent${data.wsUrl}`, {
    ...SOCKET_BOUNDS,
    headers,
    createConnection: () => connect(socket),
  });
}

/** ms from the request for a session to the exit code of a program that does nothing. */
export async function timePrograms(
  stack: Stack,
  shell: Shell,
  count: number,
): Promise<{ ours: Spread; docker: Spread }> {
  const command = ['sh', '-c', ':'];
  const api = (await stack.edge()).localApi();
  const ours = await times(count, async () => {
    await once(await openExec(api, shell.uuid, command), 'close');
  });
  const docker = await times(count, async () => {
    await once(await dockerExec(stack, shell, command), 'close');
  });
  return { ours: spread(ours), docker: spread(docker) };
}

/** Round trips of one byte through `cat`. */
export async function timeLocalEchoes(api: LocalApi, uuid: string, count: number): Promise<Spread> {
  const ws = await openExec(api, uuid, ['cat']);
  await once(ws, 'open');
  const taken = await times(count, async () => {
    const back = once(ws, 'message');
    ws.send(Buffer.from('x'));
    await back;
  });
  ws.terminate();
  return spread(taken);
}

/** MiB of text a second, from its first output until `bytes` have come. */
export async function timeLocalText(api: LocalApi, uuid: string, bytes: number): Promise<number> {
  const ws = await openExec(api, uuid, ['sh', '-c', TEXT]);
  const taken = await rate(bytes, (listener) => {
    ws.on('message', (message: Buffer) => listener((JSON.parse(String(message)) as Output).line.length));
  });
  ws.terminate();
  return taken;
}

/** The same beside `docker exec`. */
export async function timeText(stack: Stack, shell: Shell, bytes: number): Promise<{ ours: number; docker: number }> {
  const ours = await timeLocalText((await stack.edge()).localApi(), shell.uuid, bytes);
  const child = await dockerExec(stack, shell, ['sh', '-c', TEXT]);
  const docker = await rate(bytes, (listener) => child.stdout.on('data', (piece: Buffer) => listener(piece.length)));
  child.kill('SIGKILL');
  return { ours, docker };
}
