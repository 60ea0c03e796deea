import { randomBytes } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, inject, test } from 'vitest';
import { callEngine } from '../hack/engine-api.ts';
import { pushImage } from '../hack/image.ts';
import { ROOT } from '../hack/paths.ts';
import { freePort } from '../hack/ports.ts';
import { shellImage } from '../hack/shell-image.ts';
import { API_VERSION } from '../src/api/names.ts';
import { type Client, openClient, socketOf } from '../src/sessions/_client.ts';
import { FRAME_TYPES } from '../src/wire/frames.ts';
import { SESSIONS_PER_TARGET } from '../src/wire/sessions.ts';
import { isAsShown, openShell, shownCommands, untilShown } from './_shell.ts';
import { type ControllerProcess, createStack, get, readyOf, until, untilReady, webApplication } from './_stack.ts';
import { startLink } from './history/tcp-link.ts';

/** Two replicas of the controller: one reconciles, both serve; when the leader dies, the other one reconciles. */
const started = new AsyncDisposableStack();
const replicas: Record<string, ControllerProcess> = {};
/** the other replica, to which the agent is connected */
/** uuid of the microservice with a shell */
/** with the plugin of kubectl, whose address of the controller leads to the replica below */
let answering: ControllerProcess | undefined;

interface Lease {
  spec?: { holderIdentity?: string };
}
const leaderName = async () =>
  (await stack.kube.get<Lease>(`/apis/coordination.k8s.io/v1/namespaces/${stack.namespace}/leases/skerry-controller`))
    ?.spec?.holderIdentity;

/** Until a socket has a frame, on a slow machine. */
const FRAME_MS = 60_000;

/** The application of docs/sessions.md: two microservices with a shell, which log `begun`. */
const shellApplication = (name: string, node: string, image: string) => ({
  apiVersion: API_VERSION,
  kind: 'Application',
  metadata: { name, labels: { site: 'north' } },
  spec: {
    microservices: ['reader', 'second'].map((name) => ({
      name,
      agent: { name: node },
      images: { amd64: image, arm64: image },
      container: { commands: ['/bin/sh', '-c', 'echo port: 80 > /etc/app.conf; echo begun; exec sleep 3600'] },
    })),
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
const socket = (at: string, path: string, token = stack.token) =>
  until('the socket to open', async () => {
    const opened = await request(at, path, token);
    return 'status' in opened && opened.status === 503 ? undefined : socketOf(opened);
  });
async function echo(terminal: Client, words: string) {
  terminal.send(FRAME_TYPES.STDIN, `${words}\n`);
  await terminal.until(`STDOUT ${words}`, FRAME_MS);
}

const stack = await createStack();
for (const name of ['a', 'b']) replicas[name] = await stack.startController({ env: { POD_NAME: name } });
const leader = (await until('a leader', leaderName)) as string;
const follower = leader === 'a' ? 'b' : 'a';
const serving = replicas[follower] as ControllerProcess;
answering = replicas[leader];
const agent = await stack.startAgent('gw-1', serving);
const port = await freePort();
await stack.apply(webApplication('before', 'gw-1', await stack.image('r1', { GREETING: 'r1' }), port));
await stack.apply(shellApplication('plant-a', 'gw-1', await pushShell()));
const service = started.use(await startLink(() => (answering ? [Number(new URL(answering.url).port)] : [])));
const shell = started.use(await openShell(stack.namespace, { SKERRY_CONTROLLER: `localhost:${service.port}` }));
shell.env.SKERRY_TOKEN = await stack.tokenOf('sre', 'operator');
await untilReady(stack, 'before');
const { status } = await untilReady(stack, 'plant-a');
const reader = status?.microservices?.find(({ name }) => name === 'reader')?.uuid ?? '';
afterAll(() => started.disposeAsync(), 60_000);

test('a report sent to the replica that does not lead reaches the status, and both show live values', async () => {
  expect(await get(`http://127.0.0.1:${port}/`)).toBe('r1\n');
  // Live values come from the leader, whichever replica is asked.
  for (const replica of Object.values(replicas)) {
    const uuid = (await stack.node('gw-1'))?.status?.uuid;
    const { status, body } = await stack.rest(replica)('GET', `/node/${uuid}`);
    expect({ status, daemonStatus: body.daemonStatus }).toEqual({ status: 200, daemonStatus: 'RUNNING' });
  }
}, 120_000);

test('a terminal and a log at one replica reach a container whose agent is at the other, and leave an event', async () => {
  const terminal = await socket(leader, `/microservices/exec/${reader}?command=sh&tty=false`);
  await terminal.until('STDERR Connected.', FRAME_MS);
  terminal.send(FRAME_TYPES.STDIN, 'echo $((6 * 7)); exit 3\n');
  await terminal.until('CONTROL {"exitCode":3}', FRAME_MS);
  expect(terminal.seen).toContain('STDOUT 42');
  expect((await terminal.closed).code).toBe(1000);
  const log = await socket(leader, `/microservices/${reader}/logs?follow=false`);
  await log.until('LOG_STOP', FRAME_MS);
  expect(log.seen).toContain('LOG_LINE begun');
  const viewer = await stack.tokenOf('viewer');
  expect(await request(leader, `/microservices/exec/${reader}`, viewer)).toMatchObject({ status: 403 });
  await until('the event of the terminal', async () => {
    const path = `/apis/events.k8s.io/v1/namespaces/${stack.namespace}/events`;
    const { items = [] } = (await stack.kube.get<{ items?: { reason: string; note: string }[] }>(path)) ?? {};
    return items.some(({ reason, note }) => reason === 'SessionEnded' && note.includes('a terminal in microservice'));
  });
  const metrics = await (await fetch(`${replicas[leader]?.metricsUrl}/metrics`)).text();
  expect(metrics).toMatch(/skerry_sessions_ended_total\{kind="exec",code="1000"\} 1/);
}, 240_000);

const PAGE = readFileSync(join(ROOT, 'docs/sessions.md'), 'utf8');
const page = shownCommands(PAGE, '## On the command line');
const isInTerminal = ({ command }: (typeof page)[number]) => command.includes(' -it ');

test('kubectl skerry: a terminal follows the size of the window and passes the exit code of the container on', async () => {
  const command = page.find(isInTerminal)?.command ?? '';
  const terminal = shell.startInTerminal(command, { cols: 91, rows: 37 });
  const shows = (size: string) => untilShown(terminal, `\n${size}\r\n`, 'stty size\r');
  await shows('37 91');
  terminal.resize({ cols: 120, rows: 50 });
  await shows('50 120');
  terminal.type('exit 3\r');
  expect(await terminal.ended).toBe(3);
}, 240_000);

test('kubectl skerry: every command of the page shows what the page shows', async () => {
  const token = page.find(({ command }) => command.startsWith('export SKERRY_TOKEN='));
  shell.env.SKERRY_TOKEN = (await shell.run(`${token?.command}; echo $SKERRY_TOKEN`)).out.trim();
  writeFileSync(join(shell.folder, 'data'), 'of this machine\n');
  const sessions = page.filter((shown) => shown.command.startsWith('kubectl skerry ') && !isInTerminal(shown));
  expect(sessions).toHaveLength(9);
  for (const { command, lines } of sessions) {
    const isFollowed = lines.at(-1) === '^C';
    const wanted = lines.filter((line) => line !== '^C').sort();
    const typed = shell.start(`exec 2>&1; exec ${command}`);
    const written = () => typed.out.split('\n').slice(0, -1).sort();
    if (isFollowed) {
      await until(`the lines of ${command}`, async () => written().length >= wanted.length);
      typed.interrupt();
    }
    expect({ command, code: await typed.ended }).toEqual({ command, code: isFollowed ? 130 : 0 });
    if (!wanted.includes('...')) expect({ command, lines: written() }).toEqual({ command, lines: wanted });
  }
}, 240_000);

/** What each obstacle of the page needs; resolves with what takes it away. */
const OBSTACLES: Record<string, () => Promise<() => unknown>> = {
  'The node is away': async () => {
    await stack.apply({ apiVersion: API_VERSION, kind: 'EdgeNode', metadata: { name: 'gw-2' }, spec: {} });
    await stack.apply(shellApplication('plant-b', 'gw-2', 'none'));
    return () => stack.remove('applications', 'plant-b');
  },
  'The controller is not found': () => withEnv('SKERRY_CONTROLLER', ''),
  'The quota is full': async () => {
    const path = `/microservices/exec/${reader}?command=cat`;
    // Of two users: where one has all, another one gets a further place.
    const users = Array.from({ length: SESSIONS_PER_TARGET }, (_, i) =>
      i === 0 ? shell.env.SKERRY_TOKEN : stack.token,
    );
    const terminals = await Promise.all(users.map((token) => socket(follower, path, token)));
    return () => terminals.map(({ ws }) => ws.close());
  },
  'Your role does not permit it': () => withEnv('SKERRY_TOKEN', stack.tokenOf('viewer')),
  'The token is not accepted': () => withEnv('SKERRY_TOKEN', 'none'),
  'The machine does not allow it': async () => {
    const file = join(agent.dir, 'policy.yaml');
    writeFileSync(file, 'exec: false\n');
    process.kill(agent.pid, 'SIGHUP');
    return () => {
      rmSync(file);
      process.kill(agent.pid, 'SIGHUP');
      return until(
        'the policy to be gone',
        async () => (await shell.run('kubectl skerry exec plant-a/reader -- cat /etc/app.conf')).code === 0,
      );
    };
  },
  'The microservice does not run': async () => {
    expect(await shell.run('kubectl skerry stop plant-a/second')).toMatchObject({ code: 0 });
    return () => {};
  },
};
/** Obstacles that end the plugin with another code than 1. */
const CODES: Record<string, number> = { 'The controller is not found': 2 };
async function withEnv(name: string, value: string | Promise<string>) {
  const before = shell.env[name];
  shell.env[name] = await value;
  return () => {
    shell.env[name] = before;
  };
}
const obstacle = (title: string) => shownCommands(PAGE, `### ${title}`)[0] ?? expect.unreachable(title);

test('kubectl skerry reports each obstacle of the page as the page shows', async () => {
  const titles = [...PAGE.matchAll(/^### (.+)$/gm)].map(([, title = '']) => title);
  expect(titles.sort()).toEqual([...Object.keys(OBSTACLES), 'The replica shuts down', 'Something else'].sort());
  for (const [title, prepare] of Object.entries(OBSTACLES)) {
    const { command, lines } = obstacle(title);
    const remove = await prepare();
    // What the node reports, and what a signal tells its agent, takes a moment.
    await until(title, async () => {
      const { code, out, err } = await shell.run(command);
      if (code === (CODES[title] ?? 1) && isAsShown(out + err, lines)) return true;
      throw new Error(`${code}: ${out}${err}`);
    });
    await remove();
  }
}, 240_000);

test('kubectl skerry: five megabytes of any bytes go through a program in the container', async () => {
  const bytes = randomBytes(5 * 2 ** 20);
  writeFileSync(join(shell.folder, 'in'), bytes);
  const ran = await shell.run('kubectl skerry exec -i plant-a/reader -- cat < in > out');
  expect(ran).toEqual({ code: 0, out: '', err: '' });
  expect(bytes.equals(readFileSync(join(shell.folder, 'out')))).toBe(true);
}, 240_000);

test('kubectl skerry: a folder is the same after it was copied into the container and out of it', async () => {
  const tree = join(shell.folder, 'tree');
  mkdirSync(join(tree, 'a/b'), { recursive: true });
  writeFileSync(join(tree, 'a/b/random'), randomBytes(2 ** 20 + 1));
  writeFileSync(join(tree, `${'long'.repeat(40)}.txt`), 'text');
  writeFileSync(join(tree, 'empty'), '');
  writeFileSync(join(tree, 'run.sh'), '#!/bin/sh\n', { mode: 0o755 });
  const done = (err: string) => ({ code: 0, out: '', err });
  expect(await shell.run('kubectl skerry cp tree plant-a/reader:/tmp/')).toEqual(done(''));
  expect(await shell.run('kubectl skerry cp plant-a/reader:/tmp/tree back')).toEqual(done('4 files copied\n'));
  expect(filesIn(join(shell.folder, 'back'))).toEqual(filesIn(tree));
  expect(await shell.run('kubectl skerry cp tree before/web:/etc/')).toMatchObject({
    code: 1,
    err: expect.stringMatching(/^error: the container of before\/web has no tar, which cp needs/),
  });
}, 240_000);

/** Paths of files, with mode and content. */
const filesIn = (folder: string) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .sort()
    .map((name) => [name, statSync(join(folder, name))] as const)
    .map(([name, stats]) =>
      stats.isFile() ? [name, stats.mode & 0o777, readFileSync(join(folder, name), 'base64')] : [name],
    );

test('after the leader is killed the other replica reconciles, a terminal at it goes on, and so does a log', async () => {
  const open = () =>
    Promise.all([leader, follower].map((at) => socket(at, `/microservices/exec/${reader}?command=cat`)));
  const [lost, kept] = (await open()) as [Client, Client];
  for (const terminal of [lost, kept]) await echo(terminal, 'before');
  const log = shell.start('exec kubectl skerry logs -f plant-a/reader');
  await untilShown(log, 'begun\n');
  await replicas[leader]?.kill();
  answering = serving;
  expect((await lost.closed).code).toBe(1006);
  await echo(kept, 'without a leader');
  await stack.apply(webApplication('before', 'gw-1', await stack.image('r2', { GREETING: 'r2' }), port));
  // The change is sent to agents at once: that needs no leader.
  await until(
    'the new image to answer while nobody leads',
    async () => (await get(`http://127.0.0.1:${port}/`)) === 'r2\n',
  );
  await until('the other replica to lead', async () => (await leaderName()) === follower);
  await untilReady(stack, 'before', 90_000);
  expect(readyOf(await stack.node('gw-1'))?.status).toBe('True');
  await echo(kept, 'with another leader');
  // A leader that has just begun refuses sessions for a moment.
  await until('a line of the container', async () => {
    const { code } = await shell.run("kubectl skerry exec plant-a/reader -- sh -c 'echo later > /proc/1/fd/1'");
    return code === 0;
  });
  await untilShown(log, 'later\n');
  const last = await shell.run('kubectl skerry logs plant-a/reader --tail 1');
  expect(last).toEqual({ code: 0, out: 'later\n', err: '' });

  const container = (await stack.containers()).find(({ name }) => name.includes(reader));
  await callEngine(inject('engineUrl'), 'POST', `/containers/${container?.id}/kill`);
  expect((await kept.closed).code).toBe(1000);
  expect(kept.seen.at(-1)).toMatch(/^CLOSE the program /);
  await untilShown(log, /later\nbegun\n/);
  log.interrupt();
  expect(await log.ended).toBe(130);
  expect(log.out).toBe('begun\nlater\nbegun\n');
}, 240_000);

test('a replica that stops sends its users away with 1001', async () => {
  const log = await socket(follower, `/node/${(await stack.node('gw-1'))?.status?.uuid}/logs`);
  await log.until('LOG_LINE connected', FRAME_MS);
  const { command, lines } = obstacle('The replica shuts down');
  const typed = shell.start(`exec ${command}`);
  await untilShown(typed, 'echo', 'echo\n');
  await serving.stop();
  expect((await log.closed).code).toBe(1001);
  expect(await typed.ended).toBe(1);
  expect(typed.err).toBe(`${lines.join('\n')}\n`);
}, 240_000);
