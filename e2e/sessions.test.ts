import { createHash, randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, describe, expect, inject, test } from 'vitest';
import { firstEngine, outsideOf } from '../agent/src/engines/_outside.ts';
import { fakeTime } from '../hack/faketime.ts';
import { pushImage } from '../hack/image.ts';
import { shellImage } from '../hack/shell-image.ts';
import { startToxiproxy } from '../hack/toxiproxy.ts';
import { API_VERSION } from '../src/api/names.ts';
import { type FrameSocket, openSocket, type SocketEnd } from '../src/session-client/socket.ts';
import { openClient, socketOf } from '../src/sessions/_client.ts';
import { FRAME_TYPES as T } from '../src/wire/frames.ts';
import { readControl, SESSION_TIMES } from '../src/wire/sessions.ts';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import { createStack, until, untilReady } from './_stack.ts';

/**
 * Sessions that last, over a link that is slow or breaks: a real controller, agent and container, and a proxy between agent and
 * controller. Only with SKERRY_NIGHTLY; SKERRY_MINUTES says how long the memory is measured.
 */
const MINUTES = Number(process.env.SKERRY_MINUTES ?? 5);
const MIB = 1024 * 1024;
const SECOND = 1_000;
const SLOW = { timeoutMs: 240 * SECOND };
/** MiB that each process may take beyond what it took before. */
const GROWTH = { agent: 64, controller: 128 };

const started = new AsyncDisposableStack();
/** uuid of the microservice in whose container programs run */
const dir = temporaryFolder();

/** Runs a script in a container with a shell on a node, and resolves with the uuid of its microservice. */
async function runReader(name: string, node: string, script: string): Promise<string> {
  const image = `${new URL(inject('registryUrl')).host}/${stack.namespace}/shell:1`;
  await stack.apply({
    apiVersion: API_VERSION,
    kind: 'Application',
    metadata: { name },
    spec: {
      microservices: [
        {
          name: 'reader',
          agent: { name: node },
          images: { amd64: image, arm64: image },
          container: { commands: ['/bin/sh', '-c', script] },
        },
      ],
    },
  });
  const { status } = await untilReady(stack, name);
  return status?.microservices?.[0]?.uuid ?? '';
}

const stack = await createStack();
const controller = await stack.startController();
const toxiproxy = started.use(await startToxiproxy({ dir }));
const link = await toxiproxy.proxy('sessions', new URL(controller.url).host);
// As its first line has it.
const program = [process.execPath, '--max-semi-space-size=1', inject('programs').agent];
const agent = await stack.startAgent('gw-1', controller, { url: `http://${link.address}`, program });
await pushImage(inject('registryUrl'), `${stack.namespace}/shell`, '1', shellImage());
const reader = await runReader('plant-a', 'gw-1', 'exec sleep 36000');
afterAll(() => started.disposeAsync(), 60_000);

/** A user of a program, who keeps nothing of its output but its number of bytes, its digest and the last of its text. */
interface User {
  socket: FrameSocket;
  readonly bytes: number;
  readonly digest: string;
  readonly text: string;
  readonly notices: readonly string[];
  readonly exitCode: number | undefined;
  readonly closed: Promise<SocketEnd>;
  type(data: string | Uint8Array): Promise<void>;
}

async function exec(script: string, microservice = reader): Promise<User> {
  const query = new URLSearchParams(['/bin/sh', '-c', script].map((one): [string, string] => ['command', one]));
  const url = `${controller.url.replace('http', 'ws')}/api/v3/microservices/exec/${microservice}?${query}&tty=false`;
  const hash = createHash('sha256');
  const notices: string[] = [];
  const closed = Promise.withResolvers<SocketEnd>();
  let [bytes, text] = [0, ''];
  let exitCode: number | undefined;
  const socket = openSocket(
    { url, headers: { authorization: `Bearer ${stack.token}` } },
    {
      frame({ type, data, notice }) {
        if (notice) notices.push(String(Buffer.from(data)).trim());
        if (type === T.CLOSE) notices.push(`CLOSE ${Buffer.from(data)}`);
        const control = type === T.CONTROL ? readControl(data) : undefined;
        if (control && 'exitCode' in control) exitCode = control.exitCode;
        if (type !== T.STDOUT) return;
        bytes += data.length;
        hash.update(data);
        text = (text + Buffer.from(data)).slice(-1_000);
      },
      closed: closed.resolve,
    },
  );
  const user: User = {
    socket,
    get bytes() {
      return bytes;
    },
    get digest() {
      return hash.copy().digest('hex');
    },
    get text() {
      return text;
    },
    notices,
    get exitCode() {
      return exitCode;
    },
    closed: closed.promise,
    type: (data) => socket.send({ type: T.STDIN, data: typeof data === 'string' ? Buffer.from(data) : data }),
  };
  const refused = closed.promise.then(({ code, reason }) => {
    throw new Error(`the session ended before it began: ${code} ${reason} ${notices.at(-1) ?? ''}`);
  });
  await Promise.race([until('the terminal', async () => notices.includes('Connected.'), SLOW), refused]);
  refused.catch(() => {});
  return user;
}

/** Resolves with the exit code. */
async function run(script: string, input?: Uint8Array): Promise<number | undefined> {
  const user = await exec(script);
  for (let at = 0; input && at < input.length; at += 64 * 1024) await user.type(input.subarray(at, at + 64 * 1024));
  if (input) await user.socket.send({ type: T.CONTROL, data: Buffer.from('{"stdinClosed":true}') });
  await user.closed;
  return user.exitCode;
}

/** Resident memory of a process, in bytes: now, and its most since `forget`. */
const memory = (pid: number, what: 'VmRSS' | 'VmHWM') =>
  Number(new RegExp(`${what}:\\s+(\\d+)`).exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024;
const forget = (pid: number) => writeFileSync(`/proc/${pid}/clear_refs`, '5');
const mebibytes = (what: 'VmRSS' | 'VmHWM') => ({
  agent: Math.round(memory(agent.pid, what) / MIB),
  controller: Math.round(memory(controller.pid, what) / MIB),
});
function expectFlat(before: ReturnType<typeof mebibytes>, most: ReturnType<typeof mebibytes>): void {
  expect(most.agent).toBeLessThan(before.agent + GROWTH.agent);
  expect(most.controller).toBeLessThan(before.controller + GROWTH.controller);
}

/** What the programs of sessions are, as the container's engine lists them. */
async function programs(): Promise<string[]> {
  const container = (await stack.containers()).find(({ labels }) => Object.values(labels).includes(reader));
  const all = await outsideOf(firstEngine()).programsOf(container?.id ?? '');
  return all.filter((command) => !command.startsWith('sleep 36000'));
}

/** One GiB: a block of random bytes 1,024 times, each after its number. */
const GIB = 'i=0; while test $i -lt 1024; do echo $i; cat /tmp/block; i=$((i+1)); done';
const block = randomBytes(MIB);
function digestOfGib(): { bytes: number; digest: string } {
  const hash = createHash('sha256');
  let bytes = 0;
  for (let i = 0; i < 1_024; i++)
    for (const piece of [Buffer.from(`${i}\n`), block]) {
      hash.update(piece);
      bytes += piece.length;
    }
  return { bytes, digest: hash.digest('hex') };
}

describe.runIf(process.env.SKERRY_NIGHTLY)('sessions', () => {
  test(
    'a GiB over a link of 1 Mbit/s, and a GiB that its user does not read, keep agent and controller flat',
    async () => {
      expect(await run('cat > /tmp/block', block)).toBe(0);
      await sleep(5 * SECOND);
      const before = mebibytes('VmRSS');
      await link.add({ type: 'bandwidth', attributes: { rate: 125 } }, ['upstream']);
      const slow = await exec(GIB);
      const unread = await exec(GIB);
      unread.socket.pause();
      const samples: unknown[] = [];
      for (const { pid } of [agent, controller]) forget(pid);
      const [began, first] = [performance.now(), slow.bytes];
      while (performance.now() - began < MINUTES * 60 * SECOND) {
        await sleep(15 * SECOND);
        samples.push(mebibytes('VmRSS'));
      }
      const most = mebibytes('VmHWM');
      const rate = ((slow.bytes - first) / (performance.now() - began)) * 8;
      process.stderr.write(
        `${JSON.stringify({ link: '1 Mbit/s', before, most, kbitPerSecond: Math.round(rate), samples })}\n`,
      );
      expectFlat(before, most);
      expect(rate).toBeGreaterThan(200);
      for (const user of [slow, unread]) user.socket.leave();
      await link.heal();
      await until('the end of both programs', async () => (await programs()).length === 0, SLOW);
    },
    (MINUTES + 10) * 60_000,
  );

  test('a GiB over a fast link arrives whole, and agent and controller stay flat', async () => {
    expect(await run('cat > /tmp/block', block)).toBe(0);
    const before = mebibytes('VmRSS');
    for (const { pid } of [agent, controller]) forget(pid);
    const began = performance.now();
    const user = await exec(GIB);
    expect((await user.closed).code).toBe(1000);
    const seconds = (performance.now() - began) / SECOND;
    const most = mebibytes('VmHWM');
    process.stderr.write(`${JSON.stringify({ link: 'loopback', before, most, seconds: Math.round(seconds) })}\n`);
    expect({ bytes: user.bytes, digest: user.digest, exitCode: user.exitCode }).toEqual({
      ...digestOfGib(),
      exitCode: 0,
    });
    expectFlat(before, most);
  }, 900_000);

  test('the end of an output reaches a user who reads it 70 s after the program has ended', async () => {
    expect(await run('cat > /tmp/block', block)).toBe(0);
    const user = await exec('i=0; while test $i -lt 8; do cat /tmp/block; i=$((i+1)); done; exit 3');
    user.socket.pause();
    await sleep(70 * SECOND);
    expect(user.exitCode).toBeUndefined();
    user.socket.resume();
    expect((await user.closed).code).toBe(1000);
    expect({ bytes: user.bytes, exitCode: user.exitCode }).toEqual({ bytes: 8 * MIB, exitCode: 3 });
  }, 600_000);

  test('a shell survives while the link is cut for 20 s, and continues', async () => {
    const user = await exec('echo pid $$; while read line; do echo $line $$; done');
    await until('the pid', async () => /pid \d+\n/.test(user.text));
    const pid = /pid (\d+)/.exec(user.text)?.[1];
    await link.enable(false);
    await sleep(20 * SECOND);
    await link.enable(true);
    await until('the connection', async () => user.notices.includes('Connected again.'), SLOW);
    await user.type('typed\n');
    await until('the answer', async () => user.text.includes(`typed ${pid}`), SLOW);
    user.socket.leave();
  }, 300_000);

  test('a link that stays cut ends the session after its time, in words, and its program too', async () => {
    const user = await exec('exec sleep 4000');
    await link.enable(false);
    const began = performance.now();
    const { code } = await user.closed;
    const seconds = (performance.now() - began) / SECOND;
    expect(code).toBe(1008);
    expect(user.notices.at(-1)).toMatch(/^CLOSE .*(connect|time)/);
    expect(seconds).toBeGreaterThan(SESSION_TIMES.resume / SECOND - 5);
    await until('the end of the program', async () => (await programs()).length === 0, SLOW);
    await link.enable(true);
    const isBack = () =>
      run('exit 0').then(
        (code) => code === 0,
        () => false,
      );
    await until('the agent to be back', isBack, { ...SLOW, intervalMs: 5 * SECOND });
  }, 300_000);

  test('an agent that is killed ends its sessions when it starts again, and their programs', async () => {
    const user = await exec('trap "" HUP; echo begun; sleep 4000');
    await until('the program', async () => user.text.includes('begun'));
    expect(await programs()).not.toEqual([]);
    await agent.kill();
    await agent.start();
    await until('the end of the program', async () => (await programs()).length === 0, SLOW);
    expect((await user.closed).code).toBe(1000);
    expect(user.notices.at(-1)).toBe('CLOSE the agent was started again, and what ran in this session has ended');
    expect(user.exitCode).toBeUndefined();
  }, 300_000);

  test('a terminal and a followed log continue when the clock of the agent jumps an hour ahead, and back', async () => {
    const clock = join(dir, 'clock');
    writeFileSync(clock, '+0s');
    const { FAKETIME: _, ...fake } = await fakeTime('+0s');
    const env = Object.entries({ ...fake, FAKETIME_TIMESTAMP_FILE: clock, FAKETIME_CACHE_DURATION: '1' });
    const program = ['env', ...env.map((each) => each.join('=')), process.execPath, inject('programs').agent];
    await stack.startAgent('gw-2', controller, { program });
    const counter = await runReader('plant-b', 'gw-2', 'i=0; while :; do i=$((i+1)); echo $i; sleep 0.5; done');
    const user = await exec('while read line; do echo $line $$; done', counter);
    const headers = { authorization: `Bearer ${stack.token}` };
    const url = `${controller.url.replace('http', 'ws')}/api/v3/microservices/${counter}/logs?tail=5000`;
    const log = socketOf(await openClient(url, headers));
    const lines = () =>
      log.frames
        .filter(({ type, notice }) => type === T.LOG_LINE && !notice)
        .map(({ data }) => Number(Buffer.from(data)));
    await log.until('LOG_LINE 1', 60 * SECOND);
    for (const [at, jump] of ['+3600s', '+0s'].entries()) {
      writeFileSync(clock, jump);
      await sleep(10 * SECOND);
      await user.type(`typed${at}\n`);
      await until('the answer', async () => user.text.includes(`typed${at} `), SLOW);
      const count = lines().length;
      await until('further lines', async () => lines().length > count + 5, SLOW);
    }
    expect(lines()).toEqual(lines().map((_line, at) => at + 1));
    expect(user.notices).toEqual(['Waiting for the agent of the node to connect.', 'Connected.']);
    user.socket.leave();
    log.ws.close();
  }, 300_000);
});
