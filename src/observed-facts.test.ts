import { expect, test } from 'vitest';
import { ANNOTATIONS } from './api/names.ts';
import type { EdgeNode, EdgeNodeStatus } from './api/v3/index.ts';
import { createMemoryDependencies } from './rest/_memory.ts';
import { serveInMemory } from './rest/_server.ts';
import { startStack } from './sessions/_stack.ts';
import type { StatusReport } from './wire/agent.ts';

/**
 * Every rule of a route that judges a fact that a node reports (docs/spec/rest-v3.md#one-truth), with the stored status always
 * saying the opposite: no leader writes here.
 */
let archId = 1;

const deps = createMemoryDependencies({
  provisioning: () => ({ archId }),
  self: { version: '0.0.0', caCert: () => '', releasesUrl: 'https://releases.example', controlPlane: 'kubernetes' },
});
const admin = (await serveInMemory({ deps })).as('admin');
const { uuid: gateway } = (await admin.post('/node', { json: { name: 'gw-1' } })).body;
const { uuid: other } = (await admin.post('/node', { json: { name: 'gw-2' } })).body;
await admin.post('/runtimeClasses', { json: { name: 'sandboxed', handler: 'runsc' } });
await admin.post('/application', { json: { name: 'plant' } });

/** What the leader last wrote of a node. */
function write(uuid: string, status: Partial<EdgeNodeStatus>) {
  const [node] = deps.nodes.find('uuid', uuid) as [EdgeNode];
  const metadata = { ...node.metadata, resourceVersion: String(deps.version.next++) };
  deps.stores.nodes.set({ ...node, metadata, status: { observedGeneration: 1, ...status } });
}

function report(uuid: string, said: StatusReport) {
  const now = Date.now();
  const common = { contactAt: now, reportedAt: now, waitSeconds: 60, agent: '1.0.0', instances: {}, sentRevisions: {} };
  deps.observed.set(uuid, { ...common, report: { daemonStatus: 'RUNNING', ...said } });
}

/** Makes a microservice and takes it away again; resolves with the code of a refusal. */
async function create(body: object): Promise<string | undefined> {
  const images = [{ containerImage: 'team/web:1', archId: 1 }];
  const made = await admin.post('/microservices', {
    json: { name: 'web', application: 'plant', nodeUuid: gateway, images, ...body },
  });
  if (made.status === 201) await admin.delete(`/microservices/${made.body.uuid}`);
  return made.body.code;
}

const command = (name: string) => async () => (await admin.post(`/node/${gateway}/version/${name}`)).body?.code;

async function link(): Promise<string | undefined> {
  const nodes = { json: { fogUuids: [gateway] } };
  const { status, body } = await admin.post('/runtimeClasses/sandboxed/link', nodes);
  if (status === 200) await admin.delete('/runtimeClasses/sandboxed/link', nodes);
  return body.code;
}

/** How a fact gets into a status and into a report, with a value for which the rule allows the request and one for which not. */
interface Rule {
  of?: () => string;
  fact: (value: never) => Partial<EdgeNodeStatus> & StatusReport;
  good: unknown;
  bad: unknown;
  /** resolves with the code of a refusal */
  act: () => Promise<string | undefined>;
  code: string;
}

const runtimes = {
  fact: (availableRuntimes: string[]) => ({ availableRuntimes }),
  good: ['runc', 'runsc'],
  bad: ['runc'],
};

const RULES: Record<string, Rule> = {
  'an upgrade of the agent': {
    fact: (isReadyToUpgrade: boolean) => ({ isReadyToUpgrade }),
    ...{ good: true, bad: false, act: command('upgrade'), code: 'INVALID_VERSION_COMMAND_UPGRADE' },
  },
  'a rollback of the agent': {
    fact: (isReadyToRollback: boolean) => ({ isReadyToRollback }),
    ...{ good: true, bad: false, act: command('rollback'), code: 'INVALID_VERSION_COMMAND_ROLLBACK' },
  },
  'a link of a runtime class': { ...runtimes, act: link, code: 'RUNTIME_CLASS_LINK_NOT_AVAILABLE' },
  'a microservice with a runtime': {
    ...runtimes,
    ...{ act: () => create({ runtime: 'sandboxed' }), code: 'RUNTIME_CLASS_MISSING' },
  },
  'a microservice whose host is another node': {
    of: () => other,
    fact: (ipAddress: string) => ({ ipAddress }),
    ...{ good: '10.0.0.2', bad: '0.0.0.0', code: 'NOT_FOUND_HOST_TEMPLATE' },
    act: () => create({ extraHosts: [{ name: 'other', address: `\${Agents.gw-2}` }] }),
  },
};

const ROUNDS = 100;

test.each(Object.entries(RULES))('%s is judged by what the node has just reported', async (_, rule) => {
  const { of = () => gateway, fact, good, bad, act, code } = rule;
  const answers: (string | undefined)[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const [now, before] = round % 2 === 0 ? [good, bad] : [bad, good];
    write(of(), fact(before as never));
    report(of(), fact(now as never));
    answers.push(await act());
  }
  expect(answers).toEqual(Array.from({ length: ROUNDS }, (_, round) => (round % 2 === 0 ? undefined : code)));
});

test('an image is judged by the architecture with which the agent was just provisioned', async () => {
  const answers: unknown[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    archId = 1 + (round % 2);
    write(gateway, { archId: 3 - archId });
    answers.push(await create({}));
  }
  archId = 1;
  expect(answers).toEqual(Array.from({ length: ROUNDS }, (_, i) => (i % 2 === 0 ? undefined : 'MISSING_IMAGE')));
});

test.each(['reboot', 'prune'] as const)(
  'a request to %s comes after those that the agent has just reported as carried out',
  async (action) => {
    for (let round = 0; round < ROUNDS; round++) {
      const carriedOut = 10 * (round + 1);
      write(gateway, { actions: { [action]: 1 } });
      report(gateway, { actions: { [action]: carriedOut } });
      await admin.post(`/node/${gateway}/${action}`);
      const [node] = deps.nodes.find('uuid', gateway);
      expect(node?.metadata.annotations?.[ANNOTATIONS[action]]).toBe(String(carriedOut + 1));
    }
  },
);

test('a rebuild comes after those that the agent has just reported as carried out', async () => {
  const images = [{ containerImage: 'team/web:1', archId: 1 }];
  const { body } = await admin.post('/microservices', {
    json: { name: 'again', application: 'plant', nodeUuid: gateway, images },
  });
  for (let round = 0; round < ROUNDS; round++) {
    const rebuildCount = 10 * (round + 1);
    write(gateway, { microservices: [{ uuid: body.uuid, state: 'RUNNING', rebuildCount: 1 }] });
    report(gateway, { microserviceStatus: [{ id: body.uuid, status: 'RUNNING', rebuildCount }] });
    await admin.patch(`/microservices/${body.uuid}/rebuild`);
    const [application] = deps.applications.find('name', 'plant');
    expect(JSON.parse(application?.metadata.annotations?.[ANNOTATIONS.rebuild] ?? '')).toEqual({
      again: rebuildCount + 1,
    });
  }
});

/** What a node reports of itself and of its microservice `web`. */
interface Fact {
  daemonStatus: 'RUNNING' | 'DEPROVISIONED';
  state: 'RUNNING' | 'PULLING';
  /** version of our agent; absent for one of another make */
  agent?: string;
  /** as any agent reports it */
  version?: string;
}
const RUNS: Fact = { daemonStatus: 'RUNNING', state: 'RUNNING', agent: '1.0.0' };
const LEFT: Fact = { ...RUNS, daemonStatus: 'DEPROVISIONED' };
const PULLS: Fact = { ...RUNS, state: 'PULLING' };
const ofOtherMake = ({ agent: _, ...fact }: Fact): Fact => fact;

test.each<[kind: 'exec' | 'logs', words: string, good: Fact, bad: Fact]>([
  ['exec', 'of its node', RUNS, LEFT],
  ['exec', 'of its microservice', RUNS, PULLS],
  [
    'exec',
    'of its node, whose agent of another make was upgraded,',
    { ...ofOtherMake(RUNS), version: '3.8.0' },
    { ...ofOtherMake(RUNS), version: '3.7.0' },
  ],
  ['logs', 'of its node', RUNS, LEFT],
  ['logs', 'of its microservice, with an agent of another make,', ofOtherMake(RUNS), ofOtherMake(PULLS)],
])('a socket for %s is judged by the state %s that was just reported', async (kind, _, good, bad) => {
  await using stack = await startSessions();
  const answers: (number | 'open')[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const [now, before] = round % 2 === 0 ? [good, bad] : [bad, good];
    stack.write(before);
    stack.report(now);
    answers.push(await stack.open(kind, round));
  }
  expect(answers).toEqual(Array.from({ length: ROUNDS }, (_, round) => (round % 2 === 0 ? 'open' : 1008)));
});

/** A node, its microservice `web`, and the sockets of users. */
async function startSessions() {
  const stack = await startStack();
  const { node, nodeUuid, web, replica } = stack;
  let version = 1_000_000;
  const { observations } = replica.agents;
  return {
    write({ daemonStatus, state, agent, version: reported }: Fact) {
      const metadata = { ...node.metadata, resourceVersion: String(++version) };
      const microservices = [{ uuid: web, state, application: 'shop', name: 'web' }];
      const status = { ...node.status, daemonStatus, agent, version: reported, microservices };
      replica.stores.nodes.set({ ...node, metadata, status } as never);
    },
    report({ daemonStatus, state, agent, version: reported }: Fact) {
      const now = Date.now();
      const microserviceStatus = [{ id: web, status: state }];
      const report = { daemonStatus, ...(reported && { version: reported }), microserviceStatus };
      const at = { contactAt: now, reportedAt: now, waitSeconds: 60 };
      observations.observe({ uuid: nodeUuid, ...at, ...(agent && { agent }), report });
    },
    /** The first frame says that the session began, or why there is none. */
    async open(kind: 'exec' | 'logs', round: number): Promise<number | 'open'> {
      const path = kind === 'exec' ? `/microservices/exec/${web}` : `/microservices/${web}/logs`;
      const user = await stack.user(path, `admin-${round % 60}`);
      await user.until('');
      const isOpen = /^(ACTIVATION|LOG_START)/.test(user.seen[0] ?? '');
      if (isOpen) user.ws.terminate();
      return isOpen ? 'open' : (await user.closed).code;
    },
    [Symbol.asyncDispose]: () => stack[Symbol.asyncDispose](),
  };
}
