import { generateKeyPairSync, type JsonWebKey } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../../hack/ports.ts';
import { startController } from '../../hack/stack/controller.ts';
import { waitFor } from '../../hack/wait.ts';
import { DEFAULT_NAMESPACE } from '../../src/api/names.ts';
import { signed as signedToken } from '../../src/identity/jwt.ts';
import { createTokenVerifier } from '../../src/identity/verifier.ts';
import { createDispatch } from '../../src/rest/access/dispatch.ts';
import { type Benchmark, by, type Context, type Row } from '../benchmark.ts';
import { costOf, rateOf } from '../cost.ts';
import type { Answer } from '../http.ts';
import { liveHeap } from '../inspector.ts';
import { assertAllAnswered, closedLoop, openLoop, type Send } from '../load.ts';
import { createPeople, makePeople, type People, type Person } from '../people.ts';
import { percentile } from '../percentile.ts';
import { memoryOf } from '../processes.ts';
import { createStack, describeRequests, type Stack } from '../stack.ts';
import { PUBLIC_URL } from '../tokens.ts';
import { sender } from './poll.ts';

const SETTINGS = { CONTROLLER_PUBLIC_URL: PUBLIC_URL, TRUST_PROXY: 'true' };
const NODES = { short: 50, usual: 200, long: 200 };
const POLLS_PER_SECOND = 300;
const SECONDS = { short: 4, usual: 15, long: 60 };
/** More than one second of logins, so that no user logs in twice at once. */
const PEOPLE = 100;
/** Who is guessed at: five wrong passwords lock an account. */
const VICTIMS = 20;
const CHANGES = { short: 3, usual: 10, long: 20 };
const MANY = { short: 1_000, usual: 10_000, long: 10_000 };
const LOGINS = 5;
const REQUESTS = { short: 500, usual: 2_000, long: 5_000 };
const VERIFICATIONS = { short: 500, usual: 2_000, long: 5_000 };

/** What people do, each beside polls of agents. */
const LOADS: Readonly<Record<string, { what: string; perSecond: number; p99?: number }>> = {
  logins: { what: 'logins', perSecond: 20 },
  refreshes: { what: 'refreshes', perSecond: 50, p99: 100 },
  guesses: { what: 'logins with a wrong password', perSecond: 1_000 },
};

/** What logins and tokens of people cost, and whether agents notice. */
export const identity: Benchmark = {
  name: 'identity',
  about: 'logins, refreshes and tokens of people, beside polls of agents',
  rows: {
    known: {
      what: 'an access token that the replica has seen: verification',
      unit: 'CPU-ms',
      budget: { atMost: 0.05 },
    },
    new: {
      what: 'an access token that the replica has not seen: verification',
      unit: 'CPU-ms',
      budget: { atMost: 0.4 },
    },
    requests: { what: 'GET /user/profile with a known token, the controller', unit: 'CPU-ms' },
    calls: { what: 'the same: requests to the API server, for each', unit: '', budget: { exactly: 0 } },
    ...Object.fromEntries(Object.entries(LOADS).flatMap(([key, load]) => Object.entries(rowsOf(key, load)))),
    refused: { what: 'of these logins: refused for their number', unit: '', budget: { exactly: 0 } },
    guessWrites: {
      what: 'objects written in a second of these wrong logins',
      unit: '/s',
      budget: { atMost: 10 },
    },
    roles: {
      what: 'a role binding is created or deleted: until both replicas act by it, at most',
      unit: 'ms',
      budget: { atMost: 1_000 },
    },
    keys: {
      what: 'signing keys are rotated: until both replicas publish the new one, at most',
      unit: 'ms',
      budget: { atMost: 1_000 },
    },
    memory: {
      what: `10,000 users with ${LOGINS} logins each: resident memory of a replica for them`,
      unit: 'MiB',
      budget: { atMost: 100 },
    },
    heap: { what: 'the same: JavaScript objects', unit: 'MiB' },
  },
  async run(context) {
    const figures: Record<string, number> = { ...(await verification(by(context, VERIFICATIONS))) };
    await using stack = await createStack(context.log, SETTINGS);
    await using second = await startReplica(stack);
    await stack.fleet.grow(by(context, NODES));
    context.log('Creating users');
    const crowd = await makePeople(stack, 'ann', PEOPLE);
    const victims = await makePeople(stack, 'vic', VICTIMS);
    await stack.quiet(120_000);

    const people = createPeople(stack);
    const sends = sendsOf(people, crowd, victims);
    // Before anything is measured: first polls wait for their connections, and code is compiled.
    assertAllAnswered(await openLoop(POLLS_PER_SECOND, 2, sender(stack, POLLS_PER_SECOND * 2)));
    assertAllAnswered(await closedLoop(PEOPLE, 2, sends.logins));
    Object.assign(figures, await profileCost(context, stack, people, crowd));
    const notes = [
      `verification is measured in the process of the benchmark, ${by(context, VERIFICATIONS)} tokens`,
      `each load for ${by(context, SECONDS)} s beside ${POLLS_PER_SECOND} polls a second of ${by(context, NODES)} nodes, whose p99 is given; CPU is that of controller, API server and etcd, without the polls`,
    ];
    for (const key of Object.keys(LOADS)) {
      const { refused } = people;
      const { writes, reads, ...measured } = await besidePolls(context, stack, key, sends[key as keyof typeof sends]);
      Object.assign(figures, measured);
      const count = (LOADS[key]?.perSecond ?? 0) * by(context, SECONDS);
      if (key === 'logins') figures.refused = people.refused - refused;
      if (key === 'guesses') figures.guessWrites = writes.total / by(context, SECONDS);
      notes.push(
        `${key}: written ${describeRequests(writes, count)}; read ${describeRequests(reads, count)}, for each`,
      );
    }
    const replicas = [stack.url, second.url];
    figures.roles = await roleChanges(by(context, CHANGES), stack, replicas, {
      person: crowd[0] as Person,
      token: (await people.login(crowd[0] as Person, 1)).accessToken,
    });
    figures.keys = await rotations(by(context, CHANGES), stack, replicas);
    Object.assign(figures, await memoryOfUsers(context, stack, second));
    return { figures, notes };
  },
};

function rowsOf(key: string, { what, perSecond, p99 }: (typeof LOADS)[string]): Record<string, Row> {
  const of = `${what} at ${perSecond.toLocaleString('en-US')}/s`;
  return {
    [`${key}.p50`]: { what: `${of}, p50`, unit: 'ms' },
    [`${key}.p99`]: { what: `${of}, p99`, unit: 'ms', ...(p99 !== undefined && { budget: { atMost: p99 } }) },
    [`${key}.cpu`]: { what: `${of}: for each`, unit: 'CPU-ms' },
    [`${key}.cpuController`]: { what: `${of}: of it, the controller`, unit: 'CPU-ms' },
    [`${key}.polls`]: { what: `polls at ${POLLS_PER_SECOND}/s beside ${of}, p99`, unit: 'ms', budget: { atMost: 50 } },
  };
}

/** CPU-ms of this process for one verification by the parts of the product: of the first use of a token, and of later ones. */
async function verification(count: number): Promise<{ known: number; new: number }> {
  const issuer = `${PUBLIC_URL}/oidc`;
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const [privateJwk, publicJwk] = [privateKey.export({ format: 'jwk' }), publicKey.export({ format: 'jwk' })];
  const facts = {
    email: 'ann@example.com',
    name: 'ann',
    groups: ['viewer'],
    mustChangePassword: false,
    isBootstrap: false,
  };
  const verifier = createTokenVerifier({
    ...{ issuer, audience: 'controller', prefix: 'skerry', presentGroup: (name) => name, now: Date.now },
    keys: { find: async () => publicJwk as JsonWebKey } as unknown as Parameters<typeof createTokenVerifier>[0]['keys'],
    users: {
      synced: true,
      facts: () => ({ ...facts, mfaEnabled: false, lockedUntil: 0, passwordAt: 0 }),
      byUuid: async () => undefined,
    },
  });
  const dispatch = createDispatch({
    byIssuer: (name) => (name === issuer ? verifier : undefined),
    cluster: { authenticate: async () => undefined },
  });
  const at = Math.floor(Date.now() / 1000);
  const tokenOf = (i: number) =>
    signedToken(
      {
        ...{ iss: issuer, aud: 'controller', sub: `${i}`.padStart(36, '0'), iat: at, exp: at + 900 },
        ...{ token_use: 'access', preferred_username: facts.email, email: facts.email, groups: facts.groups },
      },
      { kid: 'one', privateJwk },
    );
  const tokens = await Promise.all(Array.from({ length: count }, (_, i) => tokenOf(i)));
  const { signal } = new AbortController();
  const verifyAll = async (times: number) => {
    const began = process.cpuUsage();
    for (let i = 0; i < times; i++)
      for (const token of tokens)
        if (!(await dispatch.authenticate(token, signal))) throw new Error('a token was refused');
    const { user, system } = process.cpuUsage(began);
    return (user + system) / 1_000 / times / tokens.length;
  };
  return { new: await verifyAll(1), known: await verifyAll(20) };
}

/** Another replica of the controller, which does not lead. */
async function startReplica({ kube, kubeconfig }: Stack) {
  const dir = await mkdtemp(join(tmpdir(), 'skerry-bench-replica-'));
  const ports = { rest: await freePort(), metrics: await freePort(), internal: await freePort() };
  const daemon = await startController({ dir, kube, kubeconfig, ports, settings: SETTINGS });
  return {
    url: `http://127.0.0.1:${ports.rest}`,
    inspected: { pid: daemon.pid, log: daemon.logFile },
    async [Symbol.asyncDispose]() {
      await daemon.stop(5_000);
      await rm(dir, { recursive: true });
    },
  };
}

/** The requests of each load. */
function sendsOf(people: People, crowd: readonly Person[], victims: readonly Person[]) {
  const of = <T>(list: readonly T[], i: number) => list[i % list.length] as T;
  /** by person: the refresh token of the last response; each use waits for the one before */
  const sessions = new Map<Person, Promise<string>>();
  const refreshed = async (person: Person, i: number) => {
    const before = await (sessions.get(person) ?? people.login(person, i).then((pair) => pair.refreshToken));
    return (await people.refresh(before, i)).refreshToken;
  };
  return {
    logins: async (i: number) => {
      const person = of(crowd, i);
      sessions.set(person, Promise.resolve((await people.login(person, i % PEOPLE)).refreshToken));
    },
    refreshes: async (i: number) => {
      const person = of(crowd, i);
      const next = refreshed(person, i % PEOPLE);
      sessions.set(person, next);
      await next;
    },
    /** Each from an address of its own: the limits of addresses do not count. Every second name is nobody's. */
    guesses: async (i: number) => {
      const name = i % 2 === 0 ? of(victims, i / 2) : { email: `nobody-${i}@example.com` };
      await people.wrongLogin(name, 1_000 + i);
    },
  } satisfies Record<string, Send>;
}

async function besidePolls(context: Context, stack: Stack, key: string, send: Send) {
  const seconds = by(context, SECONDS);
  const perSecond = LOADS[key]?.perSecond ?? 0;
  context.log(`${key}: ${perSecond} a second`);
  const signed = () => sender(stack, POLLS_PER_SECOND * seconds);
  let polling = signed();
  const alone = await rateOf(stack, async () => assertAllAnswered(await openLoop(POLLS_PER_SECOND, seconds, polling)));
  polling = signed();
  const [wrote, read] = [await stack.watchWrites(), await stack.watchReads()];
  let polls: number[] = [];
  let times: number[] = [];
  const { total, controller } = await costOf(stack, alone, perSecond * seconds, () =>
    context.profiled(
      key,
      async () => {
        const [ofPolls, ofLoad] = await Promise.all([
          openLoop(POLLS_PER_SECOND, seconds, polling),
          openLoop(perSecond, seconds, send),
        ]);
        for (const load of [ofPolls, ofLoad]) assertAllAnswered(load);
        [polls, times] = [ofPolls.latencies, ofLoad.latencies];
      },
      stack,
    ),
  );
  return {
    [`${key}.p50`]: percentile(times, 0.5),
    [`${key}.p99`]: percentile(times, 0.99),
    [`${key}.cpu`]: total,
    [`${key}.cpuController`]: controller,
    [`${key}.polls`]: percentile(polls, 0.99),
    ...{ writes: await wrote(), reads: await read() },
  };
}

const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

/** Requests with a token that the replica knows. */
async function profileCost(context: Context, stack: Stack, people: People, [person]: readonly Person[]) {
  const { accessToken } = await people.login(person as Person, 1);
  const ask = async (): Promise<Answer> => {
    const answer = await stack.http.send({ method: 'GET', path: '/api/v3/user/profile', headers: bearer(accessToken) });
    if (answer.status !== 200) throw new Error(`a profile: ${answer.status} ${answer.text}`);
    return answer;
  };
  for (let i = 0; i < 200; i++) await ask();
  const atRest = await rateOf(stack);
  const count = by(context, REQUESTS);
  const [wrote, read] = [await stack.watchWrites(), await stack.watchReads()];
  const { controller } = await costOf(stack, atRest, count, async () => {
    for (let i = 0; i < count; i++) await ask();
  });
  // The leader reads and writes a few objects of its own meanwhile.
  const calls = Math.floor(((await wrote()).total + (await read()).total) / count);
  return { requests: controller, calls };
}

/** ms from a request until every replica does what `isDone` says. */
async function untilAll(replicas: readonly string[], isDone: (url: string) => Promise<boolean>): Promise<number> {
  const began = performance.now();
  await Promise.all(
    replicas.map((url) =>
      waitFor(() => isDone(url), { what: `${url} to act by a change`, timeoutMs: 30_000, intervalMs: 5 }),
    ),
  );
  return performance.now() - began;
}

async function roleChanges(
  rounds: number,
  { kube }: Stack,
  replicas: readonly string[],
  { person, token }: { person: Person; token: string },
): Promise<number> {
  const path = `/apis/rbac.authorization.k8s.io/v1/namespaces/${DEFAULT_NAMESPACE}/rolebindings`;
  const binding = {
    metadata: { name: 'bench-reader', namespace: DEFAULT_NAMESPACE },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'skerry-developer' },
    subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: `skerry:${person.email}` }],
  };
  // A viewer may read, and not create: 400 says that the body alone is wrong.
  const answers = (status: number) => async (url: string) => {
    const headers = { ...bearer(token), 'content-type': 'application/json' };
    const reply = await fetch(`${url}/api/v3/application`, { method: 'POST', headers, body: '{}' });
    await reply.text();
    return reply.status === status;
  };
  const times: number[] = [];
  await untilAll(replicas, answers(403));
  for (let i = 0; i < rounds; i++) {
    await kube.request('POST', path, binding);
    times.push(await untilAll(replicas, answers(400)));
    await kube.request('DELETE', `${path}/${binding.metadata.name}`);
    times.push(await untilAll(replicas, answers(403)));
  }
  return Math.max(...times);
}

async function rotations(rounds: number, { rest }: Stack, replicas: readonly string[]): Promise<number> {
  const times: number[] = [];
  for (let i = 0; i < rounds; i++) {
    const began = performance.now();
    const { kid } = await rest.call<{ kid: string }>('POST', '/auth/jwks/rotate');
    await untilAll(replicas, async (url) => (await (await fetch(`${url}/oidc/jwks`)).text()).includes(kid));
    times.push(performance.now() - began);
  }
  return Math.max(...times);
}

type Replica = Awaited<ReturnType<typeof startReplica>>;

/** MiB that a replica has more for users, as if there were 10,000; of the leader and of the other replica the larger one. */
async function memoryOfUsers(context: Context, stack: Stack, second: Replica) {
  const count = by(context, MANY);
  context.log(`Creating ${count} users with ${LOGINS} logins each`);
  const taken = async () => {
    const each = [];
    for (const replica of [stack.controller(), second.inspected])
      each.push({ heap: await liveHeap(replica), rss: memoryOf(replica.pid).rss });
    return each;
  };
  const before = await taken();
  await makePeople(stack, 'many', count, LOGINS);
  const isUser = ({ kind = '' }: Readonly<Record<string, string>>) => kind === 'AuthUser';
  await waitFor(async () => (await stack.metric('skerry_objects', isUser)) >= count, {
    what: 'the controller to have all users',
    timeoutMs: 300_000,
    intervalMs: 500,
  });
  await stack.quiet(300_000);
  const after = await taken();
  const more = (figure: 'heap' | 'rss') =>
    Math.max(...after.map((one, i) => (one[figure] - (before[i]?.[figure] ?? 0)) / 2 ** 20)) * (10_000 / count);
  return { memory: more('rss'), heap: more('heap') };
}
