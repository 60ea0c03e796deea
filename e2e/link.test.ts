import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, describe, type ExpectStatic, test } from 'vitest';
import { firstEngine, openTestEngine, outsideOf } from '../agent/src/engines/_outside.ts';
import { VirtualClock } from '../agent/src/machine/_virtual-clock.ts';
import { freePort } from '../hack/ports.ts';
import { type FaultyProxy, startToxiproxy } from '../hack/toxiproxy.ts';
import { API_VERSION } from '../src/api/names.ts';
import { formatJoinString } from '../src/wire/node-token.ts';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import { startLocalAgent } from './_agent.ts';
import { createNetwork, type EdgeNetwork } from './_network.ts';
import { type AgentProcess, createStack, get, readyOf, until, untilReady } from './_stack.ts';

/**
 * Bad links between real agents and a real controller. Each test has a machine of its own: an agent process in a network
 * namespace, which reaches the controller through a proxy that delays, throttles, cuts and drops. Whatever the link does,
 * no container restarts, and edits made meanwhile arrive once the link works.
 *
 * SKERRY_NIGHTLY=1 also waits for the status Unknown, and tests the lossy link for ten minutes.
 */
const NIGHTLY = process.env.SKERRY_NIGHTLY !== undefined;
const NAME = 'controller.test';
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const KIB = 1024;
/** Timeout for a link that works now and then. */
const SLOW = { timeoutMs: 240 * SECOND };

const started = new AsyncDisposableStack();
const dir = temporaryFolder();
const home = temporaryFolder();

const stack = await createStack();
const outside = outsideOf(firstEngine());
const toxiproxy = started.use(await startToxiproxy({ dir, log: (text) => process.stderr.write(`${text}\n`) }));
const controller = await stack.startController();
const image = await stack.image('link');
afterAll(() => started.disposeAsync(), 60_000);

/** Two microservices of a node: the first stays unchanged, the second is edited. */
interface Workload {
  /** Sets another greeting, and that many bytes of environment. */
  edit(greeting: string, bytes?: number): Promise<void>;
  greeting(): Promise<string | undefined>;
  untilGreets(greeting: string): Promise<void>;
  /** Waits for Ready of the newest generation; the container of the unchanged microservice must not have restarted. */
  untilSteady(expect: ExpectStatic): Promise<void>;
}

/** A machine with an agent process and a link of its own. */
interface Machine extends Workload {
  network: EdgeNetwork;
  proxy: FaultyProxy;
  agent: AgentProcess;
  /** Waits until the agent's status shows this state of the connection to the controller. */
  untilConnectionIs(pattern: RegExp): Promise<void>;
}

async function startMachine(node: string): Promise<Machine> {
  const network = started.use(await createNetwork());
  const proxy = await toxiproxy.proxy(node, new URL(controller.url).host, network.outside[0]);
  network.name({ [NAME]: network.outside[0] });
  const url = `http://${NAME}:${proxy.address.split(':')[1]}`;
  const agent = await stack.startAgent(node, controller, { within: network.command, url });
  const connection = async () => (await agent.cli('status')).stdout;
  return {
    ...(await startWorkload(node)),
    network,
    proxy,
    agent,
    async untilConnectionIs(pattern) {
      await until(`the agent of ${node} to say ${pattern}`, async () => pattern.test(await connection()), SLOW);
    },
  };
}

async function startWorkload(node: string): Promise<Workload> {
  const [kept, edited] = [await freePort(), await freePort()];
  const entry = (name: string, external: number, env: { key: string; value: string }[] = []) => ({
    name,
    agent: { name: node },
    images: { amd64: image, arm64: image },
    container: { ports: [{ internal: 8080, external }], env },
  });
  const edit = (greeting: string, bytes = 0) => {
    const padding = Array.from({ length: Math.ceil(bytes / (16 * KIB)) }, (_, i) => ({
      key: `PADDING_${i}`,
      // Text that compresses badly.
      value: randomBytes(12 * KIB).toString('base64'),
    }));
    const env = [{ key: 'GREETING', value: greeting }, ...padding];
    return stack.apply({
      apiVersion: API_VERSION,
      kind: 'Application',
      metadata: { name: node },
      spec: { microservices: [entry('kept', kept), entry('edited', edited, env)] },
    });
  };
  await edit('before');
  await untilReady(stack, node, 120 * SECOND);
  const first = await runOf(node, 'kept');
  const greeting = async () => (await get(`http://127.0.0.1:${edited}/`))?.trim();
  return {
    edit,
    greeting,
    async untilGreets(text) {
      await until(`${node} to run what greets with "${text}"`, async () => (await greeting()) === text, SLOW);
    },
    async untilSteady(expect) {
      await untilReady(stack, node, SLOW.timeoutMs);
      expect(await runOf(node, 'kept')).toEqual(first);
      expect(await get(`http://127.0.0.1:${kept}/`)).toBeDefined();
    },
  };
}

/** The clock of an agent in this process: follows the real one, and can be moved ahead. */
function startClock() {
  const clock = new VirtualClock(Date.now(), Date.now);
  let ahead = 0;
  let stopped = false;
  const goAlong = async () => {
    for (let last = performance.now(); !stopped; ) {
      await sleep(20);
      const now = performance.now();
      await clock.advance(now - last, { timers: 0 });
      last = now;
      while (ahead > 0) {
        const step = Math.min(ahead, MINUTE);
        // The engine answers in real time, so each step gets some.
        await clock.advance(step, { timers: 0, settle: () => sleep(15) });
        ahead -= step;
        last = performance.now();
      }
    }
  };
  const done = goAlong();
  return {
    clock,
    async move(milliseconds: number) {
      ahead = milliseconds;
      await until('the time to have passed', async () => ahead === 0, SLOW);
    },
    async [Symbol.asyncDispose]() {
      stopped = true;
      await done;
    },
  };
}

/** Identifies the current run of a container, by the engine and by the status. */
async function runOf(node: string, name: string) {
  const uuid = (await stack.application(node))?.status?.microservices?.find((one) => one.name === name)?.uuid ?? '-';
  const id = (await stack.containers()).find((one) => one.state === 'running' && one.name.includes(uuid))?.id;
  if (!id) return undefined;
  const item = (await stack.node(node))?.status?.microservices?.find((one) => one.uuid === uuid);
  return {
    id,
    run: await outside.look(id),
    told: { startTime: item?.startTime, restartCount: item?.restartCount },
  };
}

async function untilUnknown(node: string): Promise<void> {
  await until(
    `${node} to be Unknown`,
    async () => readyOf(await stack.application(node))?.status === 'Unknown' && readyOf(await stack.node(node)),
    SLOW,
  );
}

const note = (text: string) => process.stderr.write(`[link] ${text}\n`);
const secondsSince = (from: number) => ((performance.now() - from) / 1000).toFixed(1);

describe.concurrent('an edit is carried out, and no container restarts:', () => {
  test('on a link that is down for an hour of the clock of its agent', async ({ expect }) => {
    const node = 'link-hour';
    const proxy = await toxiproxy.proxy(node, new URL(controller.url).host);
    const time = started.use(startClock());
    const engine = (instance: string) => openTestEngine(firstEngine(), instance);
    const { agent } = started.use(startLocalAgent({ home, engine, clock: time.clock }));
    await stack.apply({ apiVersion: API_VERSION, kind: 'EdgeNode', metadata: { name: node }, spec: {} });
    const key = await stack.provisioningKey(node, controller);
    await agent.provision(formatJoinString({ controllerUrl: `http://${proxy.address}`, key }));
    const { edit, greeting, untilGreets, untilSteady } = await startWorkload(node);

    await proxy.enable(false);
    await edit('an hour later');
    const before = time.clock.now();
    await time.move(60 * MINUTE);
    expect(time.clock.now() - before).toBeGreaterThanOrEqual(60 * MINUTE);
    expect(agent.connection).toMatchObject({ state: 'NOT_CONNECTED', error: expect.stringContaining('ECONNREFUSED') });
    expect(await greeting()).toBe('before');
    expect(await runOf(node, 'kept')).toBeDefined();
    await proxy.enable(true);
    await untilGreets('an hour later');
    await untilSteady(expect);
  }, 400_000);

  test('on a link that loses 7 % of all packets, with 500 to 2,000 ms round trip', async ({ expect }) => {
    const machine = await startMachine('link-lossy');
    await machine.network.lose(0.07);
    await machine.proxy.add({ type: 'latency', attributes: { latency: 625, jitter: 375 } });
    const until = performance.now() + (NIGHTLY ? 600 * SECOND : 0);
    for (let round = 1; round <= 2 || performance.now() < until; round++) {
      const began = performance.now();
      await machine.edit(`lossy ${round}`);
      await machine.untilGreets(`lossy ${round}`);
      await machine.untilSteady(expect);
      note(`7 % loss, 0.5-2 s round trip: edit ${round} runs and is told after ${secondsSince(began)} s`);
    }
  }, 900_000);

  test('on a link of 64 kbit/s, also when a section takes more than half a minute to transfer', async ({ expect }) => {
    const machine = await startMachine('link-thin');
    await machine.proxy.add({ type: 'bandwidth', attributes: { rate: 8 } });
    for (const [text, bytes] of [
      ['small', 0],
      ['large', 352 * KIB],
    ] as const) {
      const before = machine.network.bytes();
      const began = performance.now();
      await machine.edit(text, bytes);
      await machine.untilGreets(text);
      await machine.untilSteady(expect);
      const { sent, received } = machine.network.bytes();
      note(
        `64 kbit/s: a ${text} edit runs and is told after ${secondsSince(began)} s, ` +
          `${sent - before.sent} bytes up and ${received - before.received} down`,
      );
    }
  }, 400_000);

  test('on a link that is cut in the middle of every longer response and of reports, until it is repaired', async ({
    expect,
  }) => {
    const machine = await startMachine('link-cut');
    await machine.proxy.add({ type: 'limit_data', attributes: { bytes: 4 * KIB } });
    await machine.proxy.add({ type: 'slicer', attributes: { average_size: 500, delay: 1000 } }, ['downstream']);
    await machine.edit('whole', 64 * KIB);
    // The agent learns of the change, and never gets all of it.
    await machine.untilConnectionIs(/NOT_CONNECTED/);
    expect(await machine.greeting()).toBe('before');
    await machine.proxy.heal();
    await machine.untilGreets('whole');
    await machine.untilSteady(expect);
  }, 400_000);

  test('on a link that drops all packets and closes no connection, until it is repaired', async ({ expect }) => {
    const machine = await startMachine('link-mute');
    await machine.network.lose(1);
    const began = performance.now();
    await machine.edit('heard');
    if (NIGHTLY) {
      await untilUnknown('link-mute');
      note(`half-open: Unknown after ${secondsSince(began)} s`);
    }
    await machine.untilConnectionIs(/NOT_CONNECTED/);
    note(`half-open: noticed by the agent after ${secondsSince(began)} s at most`);
    expect(await machine.greeting()).toBe('before');
    await machine.network.lose(0);
    const back = performance.now();
    await machine.untilGreets('heard');
    await machine.untilSteady(expect);
    note(`half-open: carried out and told ${secondsSince(back)} s after it was over`);
  }, 400_000);

  test('without name resolution, after which the controller has another address', async ({ expect }) => {
    const machine = await startMachine('link-nameless');
    machine.network.name({});
    // The old address stops working as well, so that open connections end.
    await machine.proxy.enable(false);
    await machine.edit('found');
    await machine.untilConnectionIs(/EAI_AGAIN|ENOTFOUND/);
    if (NIGHTLY) await untilUnknown('link-nameless');
    expect(await machine.greeting()).toBe('before');
    const port = machine.proxy.address.split(':')[1];
    const elsewhere = machine.network.outside[1];
    await toxiproxy.proxy('link-nameless-2', new URL(controller.url).host, elsewhere, Number(port));
    machine.network.name({ [NAME]: elsewhere });
    await machine.untilGreets('found');
    await machine.untilSteady(expect);
  }, 400_000);
});
