import { generateKeyPairSync, type KeyObject, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { signToken } from '../agent/src/state/token.ts';
import { nodeKeySecret } from '../src/agents/channel/node-key.ts';
import { API_VERSION, HEADERS, NODE_TOKEN_ISSUER } from '../src/api/names.ts';
import type { EdgeNode } from '../src/api/v3/index.ts';
import { NODE_TOKEN } from '../src/wire/node-token.ts';
import { type ControllerProcess, createStack, type Stack, until } from './_stack.ts';

/**
 * Hundreds of nodes are live, and more than a third fall silent at once: the controller suspects its own side first. One
 * event and a metric report it, REST shows it at once, statuses are written at a limited rate, and all nodes recover.
 */
const NODES = Number(process.env.SKERRY_NODES ?? 240);
const MOST = NODES * 0.9;
const PER_SECOND = 20;
let stack: Stack;
let controller: ControllerProcess;
const fleet: { name: string; uuid: string; key: KeyObject }[] = [];

// biome-ignore lint/suspicious/noExplicitAny: lists of several kinds
type Any = any;
const list = async (path: string): Promise<Any[]> => (await stack.kube.get<Any>(path))?.items ?? [];
const nodes = () => list(`/apis/${API_VERSION}/namespaces/${stack.namespace}/edgenodes`);

async function inTurns<T>(items: readonly T[], work: (item: T) => Promise<unknown>): Promise<void> {
  const queue = [...items];
  await Promise.all(
    Array.from({ length: 16 }, async () => {
      for (let item = queue.pop(); item; item = queue.pop()) await work(item);
    }),
  );
}

beforeAll(async () => {
  if (!process.env.SKERRY_NIGHTLY) return;
  stack = await createStack();
  controller = await stack.startController({ env: { LOG_LEVEL: 'info' } });
  for (let i = 0; i < NODES; i++) {
    const { publicKey, privateKey } = generateKeyPairSync('ed25519');
    fleet.push({ name: `quiet-${i}`, uuid: randomUUID(), key: privateKey });
    Object.assign(fleet[i] as object, { x: publicKey.export({ format: 'jwk' }).x });
  }
  await inTurns(fleet, async ({ name, uuid, ...one }) => {
    const path = `/apis/${API_VERSION}/namespaces/${stack.namespace}/edgenodes`;
    const spec = { uuid, archId: 1, statusFrequency: 10 };
    const body = { apiVersion: API_VERSION, kind: 'EdgeNode', metadata: { name }, spec };
    const node = await stack.kube.request<EdgeNode>('POST', path, body);
    const { x } = one as Any;
    const key = nodeKeySecret(node, {
      nodeUuid: uuid,
      publicKey: { kty: 'OKP', crv: 'Ed25519', x },
      archId: 1,
      provisionedAt: Date.now() - 60_000,
      keyExpiresAt: 0,
      keyIssuedAt: 0,
    });
    await stack.kube.request('POST', `/api/v1/namespaces/${stack.namespace}/secrets`, key);
  });
}, 240_000);
afterAll(() => stack?.[Symbol.asyncDispose](), 60_000);

/** Reports a node as running; without a long poll the node is silent 30 s later. */
async function report({ uuid, key }: (typeof fleet)[number]): Promise<void> {
  const claims = { sub: uuid, iss: NODE_TOKEN_ISSUER, aud: [controller.url], tokenUse: NODE_TOKEN.use };
  const answer = await fetch(`${controller.url}/api/v3/agent/status`, {
    method: 'PUT',
    headers: {
      authorization: `Bearer ${signToken(key, claims, Math.floor(Date.now() / 1000), NODE_TOKEN.lifetime)}`,
      'content-type': 'application/json',
      [HEADERS.agent]: '1.0.0',
      [HEADERS.instance]: uuid,
      [HEADERS.boot]: 'b',
    },
    body: JSON.stringify({ daemonStatus: 'RUNNING', microserviceStatus: [] }),
  });
  expect(answer.status, await answer.text()).toBeLessThan(300);
}

const metric = async () => {
  const text = await (await fetch(`${controller.metricsUrl}/metrics`)).text();
  return Number(/^skerry_mass_silence(?:\{[^}]*\})? (\d)$/m.exec(text)?.[1]);
};
const events = async (reason: string) =>
  (await list(`/apis/events.k8s.io/v1/namespaces/${stack.namespace}/events`)).filter(
    (event) => event.reason === reason,
  );
const silentIn = (all: readonly Any[]) => all.filter(({ status }) => status?.daemonStatus === 'UNKNOWN').length;

test.runIf(process.env.SKERRY_NIGHTLY)(
  `REST shows ${NODES} nodes that fall silent at once as UNKNOWN at once, statuses are written at a limited rate, and all recover`,
  async () => {
    await inTurns(fleet, report);
    await until('all to run', async () => (await nodes()).every(({ status }) => status?.daemonStatus === 'RUNNING'), {
      timeoutMs: 180_000,
    });
    // All nodes report once more at the same time, so that they fall silent together.
    await inTurns(fleet, report);
    expect(await metric()).toBe(0);

    const written: { at: number; count: number }[] = [];
    /** how many REST showed as silent while not all of them were written yet */
    let saidAtOnce = 0;
    await until(
      'all to be marked',
      async () => {
        const count = silentIn(await nodes());
        if (count > (written.at(-1)?.count ?? 0)) written.push({ at: performance.now(), count });
        if (saidAtOnce < MOST && (await metric()) === 1) {
          const { body } = await stack.rest(controller)('GET', '/node-list');
          const said = body.fogs.filter((fog: Any) => fog.daemonStatus === 'UNKNOWN').length;
          if (silentIn(await nodes()) < said) saidAtOnce = Math.max(saidAtOnce, said);
        }
        return count === NODES;
      },
      { timeoutMs: 60_000 + (NODES / PER_SECOND) * 4_000, intervalMs: 200 },
    );
    expect(saidAtOnce).toBeGreaterThan(MOST);
    // Statuses that were written before mass silence was suspected do not count for the rate.
    const paced = written.filter(({ count }) => count > NODES * 0.1);
    const [first, last] = [paced[0], paced.at(-1)];
    const rate = ((last?.count ?? 0) - (first?.count ?? 0)) / (((last?.at ?? 0) - (first?.at ?? 0)) / 1000);
    process.stderr.write(`${NODES} nodes: said at once ${saidAtOnce}, written at ${rate.toFixed(1)} a second\n`);
    expect(rate).toBeLessThanOrEqual(PER_SECOND * 1.1);
    expect(await events('MassSilence')).toHaveLength(1);

    await inTurns(fleet, report);
    await until(
      'all to run again',
      async () => (await nodes()).every(({ status }) => status?.daemonStatus === 'RUNNING'),
      {
        timeoutMs: 60_000,
      },
    );
    await until('the end to be told', async () => (await metric()) === 0, { timeoutMs: 60_000 });
    expect(await events('MassSilence')).toHaveLength(1);
    await until('the end to be an event', async () => (await events('MassSilenceOver')).length === 1);
  },
  600_000,
);
