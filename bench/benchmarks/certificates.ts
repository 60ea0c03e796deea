import { waitFor } from '../../hack/wait.ts';
import { API_VERSION } from '../../src/api/names.ts';
import { type Benchmark, by, type Context, type Row } from '../benchmark.ts';
import { type Cost, costOf, rateOf } from '../cost.ts';
import { longestBlock } from '../inspector.ts';
import { assertAllAnswered, closedLoop, openLoop } from '../load.ts';
import { percentile } from '../percentile.ts';
import { createStack, pathOf, type Stack } from '../stack.ts';
import { sender } from './poll.ts';

const NODES = 200;
const COUNT = { short: 100, usual: 500, long: 2_000 };
const POLLS_PER_SECOND = 300;
const ALGORITHMS = ['ECDSA', 'RSA'] as const;
type Algorithm = (typeof ALGORITHMS)[number];
const AUTHORITY = 'plant';

/** Many certificates at once: an authority of a whole fleet is replaced, or a fleet is set up. */
export const certificates: Benchmark = {
  name: 'certificates',
  about: 'certificates that an authority signs, and polls beside it',
  rows: Object.fromEntries(ALGORITHMS.flatMap((algorithm) => Object.entries(rowsOf(algorithm)))),
  async run(context) {
    await using stack = await createStack(context.log);
    context.log(`Provisioning ${NODES} nodes`);
    await stack.fleet.grow(NODES);
    await create(stack, 'CertificateAuthority', AUTHORITY, { subject: 'Plant 3' });
    await untilValid(stack, 1);
    await stack.quiet(120_000);
    const figures: Record<string, number> = {};
    figures.pollsAlone = percentile(
      (await polls(stack, by(context, { short: 3, usual: 10, long: 30 }))).latencies,
      0.99,
    );
    const atRest = await rateOf(stack);
    for (const algorithm of ALGORITHMS)
      for (const [figure, value] of Object.entries(await measure({ context, stack, algorithm, atRest })))
        figures[`${algorithm}.${figure}`] = value;
    const { pollsAlone = Number.NaN, ...shown } = figures;
    return {
      figures: shown,
      notes: [
        `${by(context, COUNT)} certificates of each key type, created by 16 callers at the API server, until all are valid: key, certificate, Secret and status`,
        `CPU of controller, API server and etcd, less what they use at rest; without certificates p99 of the same polls of ${NODES} nodes is ${pollsAlone.toFixed(1)} ms`,
      ],
    };
  },
};

function rowsOf(algorithm: Algorithm): Record<string, Row> {
  const keys = { ECDSA: 'ECDSA P-256', RSA: 'RSA 2048' }[algorithm];
  const rows: Record<string, Row> = {
    rate: {
      what: `certificates with keys of ${keys}, from the first creation until the last is valid`,
      unit: '/s',
      budget: { atLeast: { ECDSA: 20, RSA: 2 }[algorithm] },
    },
    cpu: { what: `one certificate of ${keys}`, unit: 'CPU-ms' },
    cpuController: { what: 'of it, the controller', unit: 'CPU-ms' },
    polls: {
      what: `polls at ${POLLS_PER_SECOND}/s beside certificates of ${keys}, p99`,
      unit: 'ms',
      budget: { atMost: 100 },
    },
    blocked: {
      what: `longest turn of the event loop of the controller meanwhile, ${keys}`,
      unit: 'ms',
      budget: { atMost: 50 },
    },
  };
  return Object.fromEntries(Object.entries(rows).map(([figure, row]) => [`${algorithm}.${figure}`, row]));
}

interface Measurement {
  context: Context;
  stack: Stack;
  algorithm: Algorithm;
  atRest: Cost;
}

/** Certificates in two halves: one alone for rate and cost, one beside polls. */
async function measure({ context, stack, algorithm, atRest }: Measurement): Promise<Record<string, number>> {
  const count = by(context, COUNT);
  const before = await valid(stack);
  context.log(`${count} certificates with keys of ${algorithm}`);
  const began = performance.now();
  let seconds = 0;
  let blocked = 0;
  const cost = await costOf(stack, atRest, count, () =>
    context.profiled(
      algorithm,
      async () => {
        blocked = await longestBlock(stack.controller(), () => createMany(stack, algorithm, 'alone', count));
        await untilValid(stack, before + count);
        seconds = (performance.now() - began) / 1_000;
      },
      stack,
    ),
  );
  await stack.quiet(120_000);
  // As long as the same number took alone, which is less than they take beside polls.
  const [load] = await Promise.all([
    polls(stack, Math.max(2, Math.ceil(seconds))),
    createMany(stack, algorithm, 'beside', count).then(() => untilValid(stack, before + 2 * count)),
  ]);
  await stack.quiet(120_000);
  return {
    rate: count / seconds,
    cpu: cost.total,
    cpuController: cost.controller,
    polls: percentile(load.latencies, 0.99),
    blocked,
  };
}

async function polls(stack: Stack, seconds: number) {
  const load = await openLoop(POLLS_PER_SECOND, seconds, sender(stack, POLLS_PER_SECOND * seconds));
  assertAllAnswered(load);
  return load;
}

async function createMany(stack: Stack, algorithm: Algorithm, group: string, count: number): Promise<void> {
  const ca = { type: 'direct', secretName: AUTHORITY };
  const load = await closedLoop(count, 16, (i) => {
    const name = `${algorithm.toLowerCase()}-${group}-${i}`;
    return create(stack, 'Certificate', name, {
      subject: name,
      hosts: `${name},10.0.0.5`,
      keyAlgorithm: algorithm,
      ca,
    });
  });
  assertAllAnswered(load);
}

async function create({ kube }: Stack, kind: string, name: string, spec: object): Promise<void> {
  const plural = kind === 'Certificate' ? 'certificates' : 'certificateauthorities';
  await kube.request('POST', pathOf(plural), { apiVersion: API_VERSION, kind, metadata: { name }, spec });
}

const valid = ({ metric }: Stack) => metric('skerry_certificates', ({ state }) => state === 'valid');

const untilValid = (stack: Stack, count: number) =>
  waitFor(async () => (await valid(stack)) === count, {
    what: `${count} certificates and authorities to be valid`,
    timeoutMs: 600_000,
    intervalMs: 50,
  });
