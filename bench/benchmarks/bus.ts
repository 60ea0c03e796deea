import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, credsAuthenticator, type NatsConnection } from 'nats';
import { startNatsServer } from '../../hack/nats.ts';
import { freePort } from '../../hack/ports.ts';
import { prepareBusHub } from '../../hack/stack/bus-hub.ts';
import { waitFor } from '../../hack/wait.ts';
import { API_VERSION } from '../../src/api/names.ts';
import { type Benchmark, by, type Context, type Row } from '../benchmark.ts';
import { startBusServerOf, untilLinked } from '../bus-leaf.ts';
import { type ByteCounter, countBytes } from '../byte-counter.ts';
import { costOf, restOf } from '../cost.ts';
import { createHttp } from '../http.ts';
import { longestBlock } from '../inspector.ts';
import { assertAllAnswered, closedLoop, openLoop } from '../load.ts';
import { percentile, spread } from '../percentile.ts';
import { memoryOf } from '../processes.ts';
import { createStack, describeRequests, pathOf, type Requests, type Stack } from '../stack.ts';
import { provisionTestAgent, type TestAgent } from '../test-agent.ts';
import { sender } from './poll.ts';

const SIZES = [100, 1_000] as const;
/** Nodes of test agents, whose bus servers are leafs; two of them really run one. */
const NODES = 50;
const EDITS = { short: 5, usual: 20, long: 50 };
/** Applications with microservices on leafs; further ones have an account alone, which only the server node has. */
const WITH_MICROSERVICES = SIZES[0] + EDITS.long;
/** Users of one rule, which is edited. */
const USERS = { short: 500, usual: 1_000, long: 10_000 };
const REVOKED = { short: 20, usual: 30, long: 500 };
const MESSAGES = { short: 1_000, usual: 5_000, long: 20_000 };
const POLLS_PER_SECOND = 300;
/** How long statuses of the last edit may take. Pages of metrics, by which `quiet` would say it, take more CPU than an edit. */
const SETTLE_MS = 3_000;
/** How long the first message is waited for, until another one is sent. */
const FIRST_MS = 200;
/** Objects that the controller writes for an edit: Secrets of tokens, and the statuses of what changes, of two nodes among them. */
const WRITES = { rule: 6, access: 15 };
const RULE = 'fleet';

/** The message bus: tokens for many accounts and users, and what its servers take. */
export const bus: Benchmark = {
  name: 'bus',
  about: 'accounts and users of the message bus, revocations, and messages over leaf, hub and leaf',
  rows: {
    ...Object.fromEntries(SIZES.flatMap((size) => Object.entries(editRows(size)))),
    ratioRule: {
      what: 'an edit of the rule of one account: CPU among 1,000 accounts in relation to 100',
      unit: '',
      budget: { atMost: 1.5 },
    },
    ratioAccess: {
      what: 'access turned off: CPU among 1,000 accounts in relation to 100',
      unit: '',
      budget: { atMost: 1.5 },
    },
    users: {
      what: 'users with one rule that get other keys by its edit, until all are signed',
      unit: '/s',
      budget: { atLeast: 50 },
    },
    usersCpu: { what: 'one of these users', unit: 'CPU-ms' },
    usersController: { what: 'of it, the controller', unit: 'CPU-ms' },
    usersPolls: {
      what: `polls at ${POLLS_PER_SECOND}/s beside such an edit, p99`,
      unit: 'ms',
      budget: { atMost: 100 },
    },
    usersBlocked: {
      what: 'longest turn of the event loop of the controller while they are signed',
      unit: 'ms',
      budget: { atMost: 50 },
    },
    revokedP50: { what: 'a user deleted: from the answer until the hub has ended its connection, p50', unit: 'ms' },
    revokedP99: {
      what: 'a user deleted: from the answer until the hub has ended its connection, p99',
      unit: 'ms',
      budget: { atMost: 5_000 },
    },
    revokedAsked: { what: 'a user deleted: from the request until the hub has ended its connection, p99', unit: 'ms' },
    leafMemory: {
      what: 'memory of the bus server of a leaf, with the accounts of its applications',
      unit: 'MiB',
      budget: { atMost: 48 },
    },
    message: { what: 'a message of 128 bytes from a leaf over the hub to another leaf, p50', unit: 'ms' },
    messagePlain: { what: 'the same clients at one plain nats-server, p50', unit: 'ms' },
    messageRatio: { what: 'leaf, hub and leaf in relation to it', unit: '', budget: { atMost: 5 } },
    rateRatio: { what: 'messages a second without a pause, in relation to it', unit: '', budget: { atLeast: 0.2 } },
  },
  async run(context) {
    await using started = new AsyncDisposableStack();
    const stack = started.use(await createStack(context.log, { BUS_ENABLED: 'true' }));
    const dir = await mkdtemp(join(tmpdir(), 'skerry-bench-bus-'));
    started.defer(() => rm(dir, { recursive: true, force: true }));
    const url = await startHub(stack, context, dir, started);
    context.log(`Provisioning ${NODES} nodes and a bus server`);
    await stack.fleet.grow(NODES);
    const server = await startServerNode(stack, started);
    const run: Run = { context, stack, dir, url, server };
    const notes: string[] = [];
    const figures: Record<string, number> = {};
    for (const size of by<readonly number[]>(context, { short: [100], usual: SIZES, long: SIZES })) {
      const measured = await edits(run, size);
      for (const [figure, value] of Object.entries(measured.figures)) figures[`${figure}@${size}`] = value;
      notes.push(...measured.notes.map((note) => `${size} accounts: ${note}`));
    }
    const relation = (figure: string) => (figures[`${figure}@1000`] ?? Number.NaN) / (figures[`${figure}@100`] ?? 0);
    if (figures['ruleCpu@1000'] !== undefined)
      Object.assign(figures, { ratioRule: relation('ruleCpu'), ratioAccess: relation('accessCpu') });
    Object.assign(figures, await revocations(run), await messages(run, started));
    const users = await manyUsers(run);
    Object.assign(figures, users.figures);
    notes.push(...users.notes);
    return {
      figures,
      notes: [
        `${by(context, EDITS)} edits of each kind, one after another; CPU of controller, API server and etcd, less what they use at rest, and writes without that of the user`,
        `a hub of one server; a node with a bus server of all accounts, and ${NODES} leafs, all of test agents; bytes of HTTP between the server node and the controller in both directions, polls and reports included`,
        `${by(context, USERS)} users in 50 accounts; ${by(context, REVOKED)} users revoked, one after another, each connected to the hub; ${by(context, MESSAGES)} messages, one after another and then without a pause; the leafs are processes with the files of two of the nodes`,
        ...notes,
      ],
    };
  },
};

function editRows(size: number): Record<string, Row> {
  const among = `among ${size.toLocaleString('en-US')} accounts`;
  const rows: Record<string, Row> = {
    ruleCpu: {
      what: `${among}: an edit of the rule of one, until a node with all accounts has the token`,
      unit: 'CPU-ms',
    },
    ruleController: { what: `${among}: of it, the controller`, unit: 'CPU-ms' },
    ruleWrites: {
      what: `${among}: an edit of the rule of one: objects written`,
      unit: '',
      budget: { atMost: WRITES.rule + 0.5 },
    },
    ruleBytes: {
      what: `${among}: an edit of the rule of one: on the link of a node with all accounts`,
      unit: 'bytes',
      budget: { atMost: 128 * 1024 },
    },
    accessCpu: {
      what: `${among}: access of a microservice turned off, until a node with all accounts has it`,
      unit: 'CPU-ms',
    },
    accessController: { what: `${among}: of it, the controller`, unit: 'CPU-ms' },
    accessWrites: {
      what: `${among}: access of a microservice turned off: objects written`,
      unit: '',
      budget: { atMost: WRITES.access + 0.5 },
    },
  };
  return Object.fromEntries(Object.entries(rows).map(([figure, row]) => [`${figure}@${size}`, row]));
}

interface Run {
  context: Context;
  stack: Stack;
  dir: string;
  /** of the hub */
  url: string;
  server: { agent: TestAgent; counter: ByteCounter };
}

async function startHub(stack: Stack, context: Context, dir: string, started: AsyncDisposableStack): Promise<string> {
  const hub = await prepareBusHub({ dir, kube: stack.kube, log: context.log });
  const ports = {
    serverPort: await freePort(),
    leafPort: await freePort(),
    mqttPort: await freePort(),
    httpPort: await freePort(),
  };
  const daemon = await hub.start(0, [{ ...ports, clusterPort: 0 }]);
  started.defer(() => daemon.stop());
  await hub.announce(ports, () => daemon.assertRunning());
  return `nats://${hub.host}:${ports.serverPort}`;
}

/** A node whose bus server has the tokens of all accounts. */
async function startServerNode({ rest, url, kube }: Stack, started: AsyncDisposableStack): Promise<Run['server']> {
  const name = 'bus-server';
  const counter = started.use(await countBytes(url));
  const [http, pollHttp] = [started.use(createHttp(counter.url, 4)), started.use(createHttp(counter.url, null))];
  const { uuid } = await rest.call<{ uuid: string }>('POST', '/node', { name, archId: 1 });
  const spec = { busMode: 'server', host: '127.0.0.1' };
  await kube.request('PATCH', pathOf('edgenodes', name), { spec }, 'application/merge-patch+json');
  const { key } = await rest.call<{ key: string }>('GET', `/node/${uuid}/provisioning-key`);
  const agent = await provisionTestAgent({ name, key, http, pollHttp });
  const stop = new AbortController();
  const ended = agent.live(stop.signal);
  started.defer(() => {
    stop.abort();
    return ended;
  });
  return { agent, counter };
}

const applicationName = (i: number) => `plant-${i}`;
const ruleName = (i: number) => `rule-${i}`;
const nodeOf = ({ stack }: Run, i: number) => stack.fleet.agents[i % NODES] as TestAgent;

async function create({ kube }: Stack, kind: string, plural: string, name: string, spec: object): Promise<void> {
  await kube.request('POST', pathOf(plural), { apiVersion: API_VERSION, kind, metadata: { name }, spec });
}
const patch = ({ kube }: Stack, plural: string, name: string, spec: object) =>
  kube.request('PATCH', pathOf(plural, name), { spec }, 'application/merge-patch+json');

/** An entry of the application with this number. */
const entry = (run: Run, i: number, name: string, busAccess: boolean) => ({
  name,
  agent: { name: nodeOf(run, i).name },
  images: { amd64: 'plant/client:1' },
  busConfig: { busAccess },
  container: {},
});

/** Applications with an account, a user and a user of their node, until there are this number. */
async function growAccounts(run: Run, size: number): Promise<void> {
  const { stack, context } = run;
  const first = await accounts(stack);
  context.log(`Creating applications with accounts, until there are ${size}`);
  const load = await closedLoop(size - first, 16, async (n) => {
    const i = first + n;
    await create(stack, 'BusAccountRule', 'busaccountrules', ruleName(i), { maxConnections: 100, memStorage: -1 });
    await create(stack, 'Application', 'applications', applicationName(i), {
      busConfig: { busAccess: true, busRule: ruleName(i) },
      microservices: i < WITH_MICROSERVICES ? [entry(run, i, 'pump', true), entry(run, i, 'valve', true)] : [],
    });
  });
  assertAllAnswered(load);
  await waitFor(async () => (await accounts(stack)) === size, {
    what: `${size} accounts to be signed`,
    timeoutMs: 900_000,
    intervalMs: 500,
  });
  await stack.quiet(900_000);
}

interface Listed {
  items: { spec: { application?: string }; status?: { issuedAt?: number } }[];
}
/** Number of accounts of applications with a token. */
async function accounts({ kube }: Stack): Promise<number> {
  const { items } = await kube.request<Listed>('GET', pathOf('busaccounts'));
  return items.filter(({ spec, status }) => spec.application !== undefined && status?.issuedAt).length;
}

interface Measured {
  figures: Record<string, number>;
  notes: readonly string[];
}

async function edits(run: Run, size: number): Promise<Measured> {
  const { context, stack, server } = run;
  await growAccounts(run, size);
  const count = by(context, EDITS);
  const passed = server.counter.watch();
  context.log(`${size} accounts: ${count} edits of a rule`);
  const rule = await edited(run, `rule among ${size}`, (i) =>
    patch(stack, 'busaccountrules', ruleName(i), { maxConnections: 100 + size + i }),
  );
  const { up, down } = passed();
  context.log(`${size} accounts: access of ${count} microservices turned off`);
  const first = size === SIZES[0] ? 0 : SIZES[0];
  const access = await edited(run, `access among ${size}`, (i) =>
    patch(stack, 'applications', applicationName(first + i), {
      microservices: [entry(run, first + i, 'pump', true), entry(run, first + i, 'valve', false)],
    }),
  );
  return {
    figures: {
      ruleCpu: rule.cost.total,
      ruleController: rule.cost.controller,
      ruleWrites: rule.writes.total / count - 1,
      ruleBytes: (up + down) / count,
      accessCpu: access.cost.total,
      accessController: access.cost.controller,
      accessWrites: access.writes.total / count - 1,
    },
    notes: [
      `written for an edit of a rule: ${describeRequests(rule.writes, count)}`,
      `written for access turned off: ${describeRequests(access.writes, count)}`,
    ],
  };
}

/** One edit after another, each until the files of the server node have changed. */
async function edited(run: Run, name: string, edit: (i: number) => Promise<unknown>) {
  const { context, stack, server } = run;
  const count = by(context, EDITS);
  const rest = await restOf(stack);
  const wrote = await stack.watchWrites();
  const began = performance.now();
  const cost = await costOf(stack, rest.cost, count, () =>
    context.profiled(
      name,
      async () => {
        for (let i = 0; i < count; i++) {
          const { digest } = server.agent.files;
          await edit(i);
          await waitFor(async () => server.agent.files.digest !== digest, {
            what: `the files of a server node after the edit ${i}`,
            intervalMs: 20,
          });
        }
        await sleep(SETTLE_MS);
      },
      stack,
    ),
  );
  await stack.quiet(300_000);
  const others = (rest.writes * (performance.now() - began)) / 1_000;
  const { total, kinds }: Requests = await wrote();
  return { cost, writes: { total: total - others, kinds } };
}

/** A client of an account, by the credentials of a user that is created. */
async function credentialsOf({ rest }: Stack, account: string, name: string): Promise<string> {
  const path = `/bus/accounts/${account}/users`;
  await rest.call('POST', path, { name });
  const { credsBase64 } = await rest.call<{ credsBase64: string }>('GET', `${path}/${name}/creds`);
  return Buffer.from(credsBase64, 'base64').toString();
}

/** Connects once the server has the token of the account. */
const client = (url: string, creds?: string): Promise<NatsConnection> =>
  waitFor(
    () =>
      connect({
        ...{ servers: url, reconnect: false, timeout: 5_000 },
        ...(creds !== undefined && { authenticator: credsAuthenticator(new TextEncoder().encode(creds)) }),
      }),
    { what: `a client to be let in at ${url}`, timeoutMs: 30_000, intervalMs: 20 },
  );

async function revocations({ context, stack, url }: Run): Promise<Record<string, number>> {
  const count = by(context, REVOKED);
  context.log(`${count} users revoked`);
  const account = applicationName(0);
  const times: number[] = [];
  const fromRequest: number[] = [];
  for (let i = 0; i < count; i++) {
    const name = `guest-${i}`;
    const guest = await client(url, await credentialsOf(stack, account, name));
    const ended = guest.closed().then(() => performance.now());
    const asked = performance.now();
    await stack.rest.call('DELETE', `/bus/accounts/${account}/users/${name}`);
    const answered = performance.now();
    // The connection may end before the answer.
    times.push(Math.max(0, (await ended) - answered));
    fromRequest.push((await ended) - asked);
  }
  return {
    revokedP50: percentile(times, 0.5),
    revokedP99: percentile(times, 0.99),
    revokedAsked: percentile(fromRequest, 0.99),
  };
}

async function messages(run: Run, started: AsyncDisposableStack): Promise<Record<string, number>> {
  const { context, stack, dir } = run;
  // Its account is on two leafs.
  const name = 'talk';
  const ends = [nodeOf(run, 0), nodeOf(run, 1)] as const;
  await create(stack, 'Application', 'applications', name, {
    busConfig: { busAccess: true },
    microservices: ends.map(({ name: node }, i) => ({ ...entry(run, 0, `end-${i}`, true), agent: { name: node } })),
  });
  const urls: string[] = [];
  let memory = 0;
  for (const agent of ends) {
    const [busServerPort, busMqttPort, busHttpPort] = [await freePort(), await freePort(), await freePort()];
    await patch(stack, 'edgenodes', agent.name, { busServerPort, busMqttPort, busHttpPort });
    await stack.quiet(300_000);
    const daemon = await startBusServerOf(agent, join(dir, agent.name));
    started.defer(() => daemon.stop());
    await untilLinked(busHttpPort, 1);
    urls.push(`nats://127.0.0.1:${busServerPort}`);
    memory = Math.max(memory, memoryOf(daemon.pid).rss);
  }
  const creds = await credentialsOf(stack, name, 'meter');
  context.log('Messages over leaf, hub and leaf, and over a plain server');
  const over = await between(context, await client(urls[0] ?? '', creds), await client(urls[1] ?? '', creds));
  const plain = await startNatsServer({ dir, config: [] });
  started.defer(() => plain.stop());
  const plainUrl = `nats://127.0.0.1:${plain.port}`;
  const alone = await between(context, await client(plainUrl), await client(plainUrl));
  return {
    leafMemory: memory / 2 ** 20,
    message: over.p50,
    messagePlain: alone.p50,
    messageRatio: over.p50 / alone.p50,
    rateRatio: over.rate / alone.rate,
  };
}

/** Messages from one client to another: one after another, then as fast as the first sends them. */
async function between(context: Context, from: NatsConnection, to: NatsConnection) {
  const count = by(context, MESSAGES);
  const payload = new Uint8Array(128);
  let received = Promise.withResolvers<void>();
  let left = 1;
  to.subscribe('meter', { callback: () => void (--left === 0 && received.resolve()) });
  const send = async (number: number) => {
    left = number;
    received = Promise.withResolvers();
    for (let i = 0; i < number; i++) from.publish('meter', payload);
    await received.promise;
  };
  await to.flush();
  // The interest in the subject reaches the other leaf after the subscription does.
  await waitFor(
    async () => {
      left = 1;
      received = Promise.withResolvers();
      from.publish('meter', payload);
      // A flush of the first leaf answers before the message has passed the hub.
      return Promise.race([received.promise.then(() => true), sleep(FIRST_MS, false)]);
    },
    { what: 'the first message', intervalMs: 20 },
  );
  const times: number[] = [];
  for (let i = 0; i < count; i++) {
    const began = performance.now();
    await send(1);
    times.push(performance.now() - began);
  }
  const began = performance.now();
  await send(count * 20);
  const rate = (count * 20 * 1_000) / (performance.now() - began);
  for (const one of [from, to]) await one.close();
  return { p50: spread(times).p50, rate };
}

/** One edit of a rule gives all its users other keys. */
async function manyUsers({ context, stack }: Run): Promise<Measured> {
  const count = by(context, USERS);
  context.log(`Creating ${count} users with one rule`);
  await create(stack, 'BusUserRule', 'bususerrules', RULE, { pubAllow: ['plant.>'] });
  const before = await stack.watchWrites();
  const load = await closedLoop(count, 16, (i) =>
    create(stack, 'BusUser', 'bususers', `fleet-${i}`, {
      ...{ name: `fleet-${i}`, account: applicationName(i % 50), rule: RULE },
    }),
  );
  assertAllAnswered(load);
  const untilSigned = (wrote: () => Promise<Requests>) =>
    waitFor(async () => statusesIn(await wrote()) >= count, {
      what: `${count} users to be signed`,
      timeoutMs: 1_800_000,
      intervalMs: 500,
    });
  await untilSigned(before);
  await stack.quiet(900_000);
  context.log('An edit of their rule');
  const rest = await restOf(stack);
  const wrote = await stack.watchWrites();
  let [seconds, blocked] = [0, 0];
  const edit = async (...subjects: string[]) => {
    const signed = await stack.watchWrites();
    await patch(stack, 'bususerrules', RULE, { pubAllow: subjects });
    await untilSigned(signed);
  };
  const cost = await costOf(stack, rest.cost, count, () =>
    context.profiled(
      'users',
      async () => {
        const began = performance.now();
        blocked = await longestBlock(stack.controller(), () => edit('plant.>', 'site.>'));
        seconds = (performance.now() - began) / 1_000;
        await stack.quiet(900_000);
      },
      stack,
    ),
  );
  const writes = describeRequests(await wrote(), count);
  context.log('An edit of their rule, beside polls');
  const latencies: number[] = [];
  let isSigned = false;
  const all = edit('plant.>').finally(() => {
    isSigned = true;
  });
  while (!isSigned) {
    const polls = await openLoop(POLLS_PER_SECOND, 2, sender(stack, 2 * POLLS_PER_SECOND));
    assertAllAnswered(polls);
    latencies.push(...polls.latencies);
  }
  await all;
  await stack.quiet(900_000);
  return {
    figures: {
      users: count / seconds,
      usersCpu: cost.total,
      usersController: cost.controller,
      usersPolls: percentile(latencies, 0.99),
      usersBlocked: blocked,
    },
    notes: [`written for each user of an edited rule: ${writes}`],
  };
}

/** Statuses of users among the writes. */
const statusesIn = ({ kinds }: Requests) =>
  ['PUT', 'PATCH', 'APPLY'].reduce((sum, verb) => sum + (kinds.get(`${verb} bususers/status`) ?? 0), 0);
