import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { callEngine, loadImage } from '../../hack/engine-api.ts';
import { saveImage } from '../../hack/image.ts';
import { shellImage } from '../../hack/shell-image.ts';
import { API_VERSION, CONTAINER_LABELS } from '../../src/api/names.ts';
import { FRAME_TYPES } from '../../src/wire/frames.ts';
import { Skip } from '../benchmark.ts';
import { untilReady } from '../benchmarks/apply.ts';
import { countBytes } from '../byte-counter.ts';
import { type Spread, spread } from '../percentile.ts';
import { memoryOf } from '../processes.ts';
import type { SlowLink } from '../slow-link.ts';
import { pathOf, type Stack } from '../stack.ts';
import { type End, isOutput, openEnd, userHeaders } from './end.ts';

/** Terminals in a real container, beside `docker exec`. */

const NAME = 'terminal';
const IMAGE = 'skerry.bench/shell:1';
/** Bytes that are written without an end. */
const ENDLESS = ['cat', '/dev/zero'];

export interface Shell extends AsyncDisposable {
  /** uuid of the microservice */
  readonly uuid: string;
  /** id of its container */
  readonly container: string;
}

/** A microservice with a shell on the node of the real agent. */
export async function startShell(stack: Stack): Promise<Shell> {
  const { engine, node } = await stack.edge();
  if (engine.kind !== 'docker') throw new Skip('the engine is not docker, whose exec is the measure');
  await loadImage(engine.url, saveImage(shellImage(), IMAGE));
  const microservices = [{ name: 'shell', agent: { name: node }, images: { amd64: IMAGE, arm64: IMAGE, registry: 2 } }];
  const body = { apiVersion: API_VERSION, kind: 'Application', metadata: { name: NAME }, spec: { microservices } };
  await stack.kube.request('POST', pathOf('applications'), body);
  await untilReady(stack, NAME);
  const read = await stack.rest.call<{ microservices: { uuid: string }[] }>(
    'GET',
    `/microservices?application=${NAME}`,
  );
  const uuid = read.microservices[0]?.uuid ?? '';
  const filters = encodeURIComponent(JSON.stringify({ label: [`${CONTAINER_LABELS.uuid}=${uuid}`] }));
  const [found] = await callEngine<{ Id: string }[]>(engine.url, 'GET', `/v1.41/containers/json?filters=${filters}`);
  return {
    uuid,
    container: found?.Id ?? '',
    [Symbol.asyncDispose]: () => stack.kube.request('DELETE', pathOf('applications', NAME)).then(() => {}),
  };
}

function openTerminal({ token }: Stack, { uuid }: Shell, url: string, command: readonly string[]): Promise<End> {
  const query = new URLSearchParams([...command.map((one) => ['command', one]), ['tty', 'false']] as [
    string,
    string,
  ][]);
  return openEnd(
    url,
    `/microservices/exec/${uuid}?${query}`,
    userHeaders(token(), Math.floor(Math.random() * 2 ** 24)),
  );
}

/** A program of the shell by the client of docker. */
export async function dockerExec(stack: Stack, { container }: Shell, command: readonly string[]) {
  const { engine } = await stack.edge();
  const child = spawn('docker', ['-H', engine.url, 'exec', '-i', container, ...command], {
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  await once(child, 'spawn');
  return child;
}

/** Round trips of one byte through `cat`. */
export async function timeEchoes(stack: Stack, shell: Shell, count: number): Promise<{ ours: Spread; docker: Spread }> {
  const user = await openTerminal(stack, shell, stack.url, ['cat']);
  const ours = await times(count, async () => {
    const back = user.next(isOutput);
    user.send(FRAME_TYPES.STDIN, 'x');
    await back;
  });
  await user.close();
  const child = await dockerExec(stack, shell, ['cat']);
  const docker = await times(count, async () => {
    const back = once(child.stdout, 'data');
    child.stdin.write('x');
    await back;
  });
  child.kill();
  return { ours: spread(ours), docker: spread(docker) };
}

/** ms of each of many; the first one starts the program, and is left out. */
export async function times(count: number, work: () => Promise<void>): Promise<number[]> {
  await work();
  const taken: number[] = [];
  for (let i = 0; i < count; i++) {
    const began = performance.now();
    await work();
    taken.push(performance.now() - began);
  }
  return taken;
}

const MIB = 2 ** 20;

/** MiB a second of a program that writes without an end, from its first output until `bytes` have come. */
export async function timeOutput(stack: Stack, shell: Shell, bytes: number): Promise<{ ours: number; docker: number }> {
  const user = await openTerminal(stack, shell, stack.url, ENDLESS);
  const ours = await rate(bytes, (listener) => {
    user.onFrame = (frame) => {
      if (isOutput(frame)) listener(frame.data.length);
    };
  });
  await user.close();
  const child = await dockerExec(stack, shell, ENDLESS);
  const docker = await rate(bytes, (listener) => child.stdout.on('data', (piece: Buffer) => listener(piece.length)));
  child.kill('SIGKILL');
  return { ours, docker };
}

/** MiB a second from the first bytes on, until so many have come. */
export function rate(bytes: number, listen: (listener: (bytes: number) => void) => void): Promise<number> {
  return new Promise((resolve) => {
    let seen = 0;
    let began = 0;
    listen((length) => {
      began ||= performance.now();
      seen += length;
      if (seen >= bytes) resolve(seen / MIB / ((performance.now() - began) / 1_000));
    });
  });
}

/** Growth of memory, MiB, while a program writes without an end and `where` is behind a slow link. */
export async function measureSlow(
  stack: Stack,
  shell: Shell,
  where: 'agent' | 'user',
  link: SlowLink,
  seconds: number,
) {
  const edge = await stack.edge();
  await using ofUser = await countBytes(stack.url);
  const changed = where === 'agent' ? edge.traffic : ofUser;
  changed.change(link);
  try {
    const user = await openTerminal(stack, shell, ofUser.url, ENDLESS);
    await user.next(isOutput);
    const pids = { controller: stack.pids().controller, agent: edge.agentPid() };
    const rss = (pid: number) => memoryOf(pid).rss / MIB;
    const before = { controller: rss(pids.controller), agent: rss(pids.agent) };
    const most = { ...before };
    let received = 0;
    user.onFrame = ({ data }) => {
      received += data.length;
    };
    for (const until = performance.now() + seconds * 1_000; performance.now() < until; await sleep(500)) {
      most.controller = Math.max(most.controller, rss(pids.controller));
      most.agent = Math.max(most.agent, rss(pids.agent));
    }
    // While it is closed, what was on its way still comes.
    const kibPerSecond = received / 1024 / seconds;
    await user.close();
    return {
      controller: most.controller - before.controller,
      agent: most.agent - before.agent,
      kibPerSecond,
    };
  } finally {
    changed.change(undefined);
  }
}
