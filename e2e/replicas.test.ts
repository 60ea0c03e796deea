import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { callEngine } from '../hack/engine-api.ts';
import { pushImage } from '../hack/image.ts';
import { freePort } from '../hack/ports.ts';
import { shellImage } from '../hack/shell-image.ts';
import { API_VERSION } from '../src/api/names.ts';
import { type Client, openClient, socketOf } from '../src/sessions/_client.ts';
import { FRAME_TYPES } from '../src/wire/frames.ts';
import {
  type ControllerProcess,
  createStack,
  get,
  readyOf,
  type Stack,
  until,
  untilReady,
  webApplication,
} from './_stack.ts';

/** Two replicas of the controller: one reconciles, both serve; when the leader dies, the other one reconciles. */
let stack: Stack;
const replicas: Record<string, ControllerProcess> = {};
let leader: string;
/** the other replica, to which the agent is connected */
let follower: string;
let serving: ControllerProcess;
let port: number;
/** of the microservice with a shell */
let shell: string;

interface Lease {
  spec?: { holderIdentity?: string };
}
const leaderName = async () =>
  (await stack.kube.get<Lease>(`/apis/coordination.k8s.io/v1/namespaces/${stack.namespace}/leases/skerry-controller`))
    ?.spec?.holderIdentity;

/** Until a socket has a frame, on a slow machine. */
const FRAME_MS = 60_000;

/** An Application with a shell, which logs `begun`. */
const shellApplication = (name: string, node: string, image: string) => ({
  apiVersion: API_VERSION,
  kind: 'Application',
  metadata: { name },
  spec: {
    microservices: [
      {
        name: 'shell',
        agent: { name: node },
        images: { amd64: image, arm64: image },
        container: { commands: ['/bin/sh', '-c', 'echo begun; exec sleep 3600'] },
      },
    ],
  },
});

/** An image with a shell, in the registry. */
async function pushShell(): Promise<string> {
  await pushImage(inject('registryUrl'), `${stack.namespace}/shell`, '1', shellImage());
  return `${new URL(inject('registryUrl')).host}/${stack.namespace}/shell:1`;
}

const request = (at: string, path: string, token = stack.token) =>
  openClient(`${replicas[at]?.url.replace('http', 'ws')}/api/v3${path}`, { authorization: `Bearer ${token}` });
/** A leader that has just begun refuses sessions for a moment. */
const socket = (at: string, path: string) =>
  until('the socket to open', async () => {
    const opened = await request(at, path);
    return 'status' in opened && opened.status === 503 ? undefined : socketOf(opened);
  });
async function echo(terminal: Client, words: string) {
  terminal.send(FRAME_TYPES.STDIN, `${words}\n`);
  await terminal.until(`STDOUT ${words}`, FRAME_MS);
}

beforeAll(async () => {
  stack = await createStack();
  for (const name of ['a', 'b']) replicas[name] = await stack.startController({ env: { CONTROLLER_NAME: name } });
  leader = (await until('a leader', leaderName)) as string;
  follower = leader === 'a' ? 'b' : 'a';
  serving = replicas[follower] as ControllerProcess;
  await stack.startAgent('gw-2', serving);
  port = await freePort();
  await stack.apply(webApplication('before', 'gw-2', await stack.image('r1', { GREETING: 'r1' }), port));
  await stack.apply(shellApplication('shell', 'gw-2', await pushShell()));
  await untilReady(stack, 'before');
  shell = (await untilReady(stack, 'shell')).status?.microservices?.[0]?.uuid ?? '';
}, 240_000);
afterAll(() => stack?.[Symbol.asyncDispose](), 60_000);

test('a report sent to the replica that does not lead reaches the status, and both show live values', async () => {
  expect(await get(`http://127.0.0.1:${port}/`)).toBe('r1\n');
  // Live values come from the leader, whichever replica is asked.
  for (const replica of Object.values(replicas)) {
    const uuid = (await stack.node('gw-2'))?.status?.uuid;
    const { status, body } = await stack.rest(replica)('GET', `/node/${uuid}`);
    expect({ status, daemonStatus: body.daemonStatus }).toEqual({ status: 200, daemonStatus: 'RUNNING' });
  }
}, 120_000);

test('a terminal and a log at one replica reach a container whose agent is at the other, and leave an event', async () => {
  const terminal = await socket(leader, `/microservices/exec/${shell}?command=sh&tty=false`);
  await terminal.until('STDERR Connected.', FRAME_MS);
  terminal.send(FRAME_TYPES.STDIN, 'echo $((6 * 7)); exit 3\n');
  await terminal.until('CONTROL {"exitCode":3}', FRAME_MS);
  expect(terminal.seen).toContain('STDOUT 42');
  expect((await terminal.closed).code).toBe(1000);
  const log = await socket(leader, `/microservices/${shell}/logs?follow=false`);
  await log.until('LOG_STOP', FRAME_MS);
  expect(log.seen).toContain('LOG_LINE begun');
  const viewer = await stack.tokenOf('viewer');
  expect(await request(leader, `/microservices/exec/${shell}`, viewer)).toMatchObject({ status: 403 });
  await until('the event of the terminal', async () => {
    const path = `/apis/events.k8s.io/v1/namespaces/${stack.namespace}/events`;
    const { items = [] } = (await stack.kube.get<{ items?: { reason: string; note: string }[] }>(path)) ?? {};
    return items.some(({ reason, note }) => reason === 'SessionEnded' && note.includes('a terminal in microservice'));
  });
  const metrics = await (await fetch(`${replicas[leader]?.metricsUrl}/metrics`)).text();
  expect(metrics).toMatch(/skerry_sessions_ended_total\{kind="exec",code="1000"\} 1/);
}, 240_000);

test('after the leader is killed the other replica reconciles, and a terminal at it goes on', async () => {
  const open = () =>
    Promise.all([leader, follower].map((at) => socket(at, `/microservices/exec/${shell}?command=cat`)));
  const [lost, kept] = (await open()) as [Client, Client];
  for (const terminal of [lost, kept]) await echo(terminal, 'before');
  await replicas[leader]?.kill();
  expect((await lost.closed).code).toBe(1006);
  await echo(kept, 'without a leader');
  await stack.apply(webApplication('before', 'gw-2', await stack.image('r2', { GREETING: 'r2' }), port));
  // The change is sent to agents at once: that needs no leader.
  await until(
    'the new image to answer while nobody leads',
    async () => (await get(`http://127.0.0.1:${port}/`)) === 'r2\n',
  );
  await until('the other replica to lead', async () => (await leaderName()) === follower);
  await untilReady(stack, 'before', 90_000);
  expect(readyOf(await stack.node('gw-2'))?.status).toBe('True');
  await echo(kept, 'with another leader');

  const container = (await stack.containers()).find(({ name }) => name.includes(shell));
  await callEngine(inject('engineUrl'), 'POST', `/containers/${container?.id}/kill`);
  expect((await kept.closed).code).toBe(1000);
  expect(kept.seen.at(-1)).toMatch(/^CLOSE the program /);
}, 240_000);

test('a replica that stops sends its users away with 1001', async () => {
  const log = await socket(follower, `/node/${(await stack.node('gw-2'))?.status?.uuid}/logs`);
  await log.until('LOG_LINE connected', FRAME_MS);
  await serving.stop();
  expect((await log.closed).code).toBe(1001);
}, 240_000);
