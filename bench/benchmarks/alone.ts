import { randomUUID } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { EngineKind } from '../../hack/engine.ts';
import { callEngine, loadImage } from '../../hack/engine-api.ts';
import { buildImage, saveImage } from '../../hack/image.ts';
import { sampleImage } from '../../hack/sample.ts';
import { waitFor } from '../../hack/wait.ts';
import { CONTAINER_LABELS } from '../../src/api/names.ts';
import { type Alone, startAlone } from '../alone.ts';
import { type Benchmark, by, type Context, type Row } from '../benchmark.ts';
import { watchStarts } from '../engine-events.ts';
import { spread } from '../percentile.ts';
import { memoryOf, watchUsage } from '../processes.ts';

const KINDS: readonly EngineKind[] = ['docker', 'podman'];
const SERVICES = 20;
const IMAGE = 'bench.example/sample:1';

/** The rows of an engine. */
const rowsOf = (kind: EngineKind): Record<string, Row> => ({
  [`applyP50@${kind}`]: { what: `a manifest sent until its container runs, ${kind}, image present, p50`, unit: 'ms' },
  [`applyP99@${kind}`]: {
    what: `a manifest sent until its container runs, ${kind}, image present, p99`,
    unit: 'ms',
    budget: { atMost: 5_000 },
  },
  [`images@${kind}`]: { what: `list of 500 names of images of ${kind} over the local API, p50`, unit: 'ms' },
});

/** A machine that no controller manages. */
export const alone: Benchmark = {
  name: 'alone',
  about: 'an agent without a controller: manifests, rest, images and volumes',
  rows: {
    ...Object.assign({}, ...KINDS.map(rowsOf)),
    privateDirty: {
      what: `agent, idle with ${SERVICES} microservices of the machine: private dirty memory`,
      unit: 'MiB',
      budget: { atMost: 40 },
    },
    rss: {
      what: `agent, idle with ${SERVICES} microservices of the machine: resident memory`,
      unit: 'MiB',
      budget: { atMost: 90 },
    },
    rssAfter: { what: 'the same before its next start, after it has deployed all of them', unit: 'MiB' },
    cpu: {
      what: `agent, idle with ${SERVICES} microservices of the machine: CPU of one core`,
      unit: '%',
      budget: { atMost: 0.5 },
    },
    written: {
      what: `agent, idle with ${SERVICES} microservices of the machine: written to disk in a minute`,
      unit: 'bytes',
      budget: { atMost: 0 },
    },
    claims: { what: '10,000 volume claims listed over the local API, p50', unit: 'ms' },
    dryPrune: { what: 'what a prune of 10,000 volume claims would destroy', unit: 'ms' },
    prune: { what: '10,000 volume claims destroyed by a prune', unit: 's' },
    pruneCpu: { what: 'the same: the agent, for each claim', unit: 'CPU-ms' },
  },
  async run(context) {
    const figures: Record<string, number> = {};
    for (const kind of KINDS) {
      await using machine = await startAlone(kind, context.log);
      await loadImage(machine.engine.url, saveImage(await sampleImage({}, undefined, context.log), IMAGE));
      Object.assign(figures, await timeApplies(context, machine));
      // What follows is the agent's own work; images come last, since each look at the engine takes longer with them.
      if (kind === 'docker')
        Object.assign(figures, await measureRest(context, machine), await timeVolumes(context, machine));
      Object.assign(figures, await timeImages(context, machine));
    }
    return {
      figures,
      notes: [
        `the agent as it is installed; ${applies(context)} manifests of one microservice on each engine, one after the other; running is what the engine's events say`,
        `${restSeconds(context)} s at rest, on docker, after a start with ${SERVICES} containers that ran`,
        `${claims(context)} claims, half of them private and half shared, a file in each; ${images(context)} rows of images, of podman for a fifth as many images; the list of claims 20 times, of images 5 times`,
      ],
    };
  },
};

const applies = (context: Context) => by(context, { short: 5, usual: 20, long: 100 });
const restSeconds = (context: Context) => by(context, { short: 20, usual: 60, long: 300 });
const claims = (context: Context) => by(context, { short: 200, usual: 10_000, long: 10_000 });
const images = (context: Context) => by(context, { short: 50, usual: 500, long: 500 });

/** podman takes a second to load an image. */
const namesOf = (kind: EngineKind) => (kind === 'podman' ? 5 : 1);

const mib = (bytes: number) => bytes / 2 ** 20;
const manifest = (name: string, value: string) =>
  JSON.stringify({
    apiVersion: 'agent.skerry.dev/v1',
    kind: 'Microservice',
    metadata: { name },
    spec: { image: IMAGE, registry: 2, container: { env: [{ key: 'VALUE', value }] } },
  });

interface Operation {
  operationId: string;
  status: 'running' | 'succeeded' | 'failed';
  error?: { message: string };
}

/** Deploys a microservice and waits until the agent says that it runs. */
async function deploy({ client }: Alone, name: string, value: string): Promise<void> {
  const path = '/v1/deploy/microservices:apply';
  const { operationId } = await client.call<Operation>('POST', path, { form: { manifest: manifest(name, value) } });
  const hasEnded = async () => {
    const { status, error } = await client.call<Operation>('GET', `${path}/${operationId}`);
    if (error) throw new Error(`${name}: ${error.message}`);
    return status === 'succeeded';
  };
  await waitFor(hasEnded, { what: `${name} to run`, timeoutMs: 60_000, intervalMs: 20 });
}

async function timeApplies(context: Context, machine: Alone): Promise<Record<string, number>> {
  const { engine, client } = machine;
  context.log(`Manifests on ${engine.kind}`);
  using starts = await watchStarts(engine.url);
  const taken: number[] = [];
  for (let i = 0; i < applies(context); i++) {
    const name = `apply-${i}`;
    const runs = starts.next(CONTAINER_LABELS.microservice, name, 60_000);
    const began = performance.now();
    await Promise.all([deploy(machine, name, 'first'), runs.then((at) => taken.push(at - began))]);
    await client.call('DELETE', `/v1/ms/skerry-agent.${name}`);
  }
  const { p50, p99 } = spread(taken);
  return { [`applyP50@${engine.kind}`]: p50, [`applyP99@${engine.kind}`]: p99 };
}

async function measureRest(context: Context, machine: Alone): Promise<Record<string, number>> {
  for (let i = 0; i < SERVICES; i++) await deploy(machine, `part-${i}`, `${i}`);
  const wait = async (what: string, seconds: number) => {
    context.log(`Waiting ${seconds} s for ${what}`);
    await sleep(seconds * 1_000);
  };
  await wait('the agent to come to rest', 30);
  const after = memoryOf(machine.pid());
  await machine.restart();
  await wait('the agent to come to rest', 30);
  const used = watchUsage({ agent: machine.pid() });
  await wait('nothing to happen', restSeconds(context));
  const { cpuMs, writtenBytes, seconds } = used();
  const { rss, privateDirty } = memoryOf(machine.pid());
  return {
    ...{ rss: mib(rss), privateDirty: mib(privateDirty), rssAfter: mib(after.rss) },
    cpu: (cpuMs.agent ?? 0) / seconds / 10,
    written: ((writtenBytes.agent ?? 0) / seconds) * 60,
  };
}

async function timeVolumes(context: Context, { client, volumes, pid }: Alone): Promise<Record<string, number>> {
  context.log('Volume claims');
  for (let i = 0; i < claims(context) / 2; i++)
    for (const folder of [join(volumes, 'data', randomUUID(), 'db'), join(volumes, 'shared', `pool-${i}`)]) {
      await mkdir(folder, { recursive: true });
      await writeFile(join(folder, 'file'), 'x');
    }
  const listed = await timed(20, () => client.call('GET', '/v1/volumes'));
  const prune = (query: string) => client.call('POST', `/v1/volumes:prune?force=true&${query}`, { deadline: 300_000 });
  const dry = await timed(1, () => prune('dryRun=true'));
  const used = watchUsage({ agent: pid() });
  const pruned = await timed(1, () => prune('yes=true'));
  return {
    ...{ claims: listed.p50, dryPrune: dry.p50, prune: pruned.p50 / 1_000 },
    pruneCpu: (used().cpuMs.agent ?? 0) / claims(context),
  };
}

async function timeImages(context: Context, { engine, client }: Alone): Promise<Record<string, number>> {
  const count = images(context) / namesOf(engine.kind);
  context.log(`Loading ${count} images into ${engine.kind}`);
  const numbers = Array.from({ length: count }, (_, number) => number).values();
  const load = async () => {
    for (const number of numbers) {
      const image = buildImage({ files: [{ path: '/a', content: 'a' }], labels: { number: `${number}` } });
      await loadImage(engine.url, saveImage(image, `bench.example/many:${number}`));
    }
  };
  await Promise.all(Array.from({ length: 4 }, load));
  for (let number = 0; number < count; number++)
    for (let other = 1; other < namesOf(engine.kind); other++)
      await callEngine(
        engine.url,
        'POST',
        `/images/bench.example/many:${number}/tag?repo=bench.example/more&tag=${number}-${other}`,
      );
  return { [`images@${engine.kind}`]: (await timed(5, () => client.call('GET', '/v1/images'))).p50 };
}

/** ms of each of these calls, one after the other. */
async function timed(count: number, call: () => Promise<unknown>) {
  const taken: number[] = [];
  for (let i = 0; i < count; i++) {
    const began = performance.now();
    await call();
    taken.push(performance.now() - began);
  }
  return spread(taken);
}
