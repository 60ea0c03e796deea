import { afterAll, beforeAll, expect, inject, test } from 'vitest';
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

beforeAll(async () => {
  stack = await createStack();
  for (const name of ['a', 'b']) replicas[name] = await stack.startController({ env: { CONTROLLER_NAME: name } });
}, 240_000);
afterAll(() => stack?.[Symbol.asyncDispose](), 60_000);

test('a report sent to the replica that does not lead reaches the status, and after the leader is killed the other replica reconciles', async () => {
  const leader = (await until('a leader', leaderName)) as 'a' | 'b';
  const follower = leader === 'a' ? 'b' : 'a';
  const serving = replicas[follower] as ControllerProcess;
  await stack.startAgent('gw-2', serving);

  const port = await freePort();
  await stack.apply(webApplication('before', 'gw-2', await stack.image('r1', { GREETING: 'r1' }), port));
  await untilReady(stack, 'before');
  expect(await get(`http://127.0.0.1:${port}/`)).toBe('r1\n');
  // Live values come from the leader, whichever replica is asked.
  for (const replica of Object.values(replicas)) {
    const uuid = (await stack.node('gw-2'))?.status?.uuid;
    const { status, body } = await stack.rest(replica)('GET', `/node/${uuid}`);
    expect({ status, daemonStatus: body.daemonStatus }).toEqual({ status: 200, daemonStatus: 'RUNNING' });
  }

  await pushImage(inject('registryUrl'), `${stack.namespace}/shell`, '1', shellImage());
  const image = `${new URL(inject('registryUrl')).host}/${stack.namespace}/shell:1`;
  await stack.apply(shellApplication('shell', 'gw-2', image));
  const uuid = (await untilReady(stack, 'shell')).status?.microservices?.[0]?.uuid;
  const socket = async (at: string, path: string) =>
    socketOf(
      await openClient(`${replicas[at]?.url.replace('http', 'ws')}/api/v3/microservices/${path}`, {
        authorization: `Bearer ${stack.token}`,
      }),
    );
  // The agent is connected to the replica that does not lead.
  const passed = await socket(leader, `exec/${uuid}?command=sh&tty=false`);
  // Without a held poll that ends, the agent would look after its interval.
  await passed.until('STDERR Connected.', FRAME_MS);
  passed.send(FRAME_TYPES.STDIN, 'echo $((6 * 7)); exit 3\n');
  await passed.until('CONTROL {"exitCode":3}', FRAME_MS);
  expect(passed.seen).toContain('STDOUT 42');
  expect((await passed.closed).code).toBe(1000);
  const log = await socket(leader, `${uuid}/logs?follow=false`);
  await log.until('LOG_STOP', FRAME_MS);
  expect(log.seen).toContain('LOG_LINE begun');
  const told = async () => {
    const path = `/apis/events.k8s.io/v1/namespaces/${stack.namespace}/events`;
    const { items = [] } = (await stack.kube.get<{ items?: { reason: string; note: string }[] }>(path)) ?? {};
    return items.flatMap(({ reason, note }) => (reason === 'SessionEnded' ? [note] : []));
  };
  await until('the event of the terminal', async () => (await told()).some((note) => note.includes('a terminal in')));
  const metrics = await (await fetch(`${replicas[leader]?.metricsUrl}/metrics`)).text();
  expect(metrics).toMatch(/skerry_sessions_ended_total\{kind="exec",code="1000"\} 1/);
  const terminals: Record<string, Client> = {};
  for (const at of [leader, follower]) {
    const terminal = await socket(at, `exec/${uuid}?command=cat&tty=false`);
    terminal.send(FRAME_TYPES.STDIN, 'before\n');
    await terminal.until('STDOUT before', FRAME_MS);
    terminals[at] = terminal;
  }

  await replicas[leader]?.kill();
  expect((await terminals[leader]?.closed)?.code).toBe(1006);
  const echoed = async (words: string) => {
    terminals[follower]?.send(FRAME_TYPES.STDIN, `${words}\n`);
    await terminals[follower]?.until(`STDOUT ${words}`, FRAME_MS);
  };
  await echoed('without a leader');
  await stack.apply(webApplication('before', 'gw-2', await stack.image('r2', { GREETING: 'r2' }), port));
  // The change is sent to agents at once: that needs no leader.
  await until(
    'the new image to answer while nobody leads',
    async () => (await get(`http://127.0.0.1:${port}/`)) === 'r2\n',
  );
  await until('the other replica to lead', async () => (await leaderName()) === follower);
  await untilReady(stack, 'before', 90_000);
  await echoed('after the change of leaders');
  expect(readyOf(await stack.node('gw-2'))?.status).toBe('True');
}, 240_000);
