import { randomUUID } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { cleanUp, makeSpec } from '../../agent/src/engines/_contract.ts';
import { openEngine } from '../../agent/src/engines/open.ts';
import { ownLimits } from '../../agent/src/machine/machine.ts';
import { callEngine } from '../../hack/engine-api.ts';
import { buildImage, saveImage } from '../../hack/image.ts';
import { sampleImage } from '../../hack/sample.ts';
import { shellImage } from '../../hack/shell-image.ts';
import { type Alone, type AloneKind, finished, startAlone } from '../alone.ts';
import { type Benchmark, by, type Context, type Row } from '../benchmark.ts';
import { spread } from '../percentile.ts';
import { memoryOf, watchUsage } from '../processes.ts';
import { timeLocalEchoes, timeLocalText } from '../sessions/local.ts';

const KINDS: readonly AloneKind[] = ['docker', 'podman', 'embedded'];
const SERVICES = 20;
const IMAGE = 'bench.example/sample:1';
const SHELL = 'bench.example/shell:1';
const AT_REST = `idle with ${SERVICES} microservices of the machine`;

/** The rows of an engine. */
const rowsOf = (kind: AloneKind): Record<string, Row> => ({
  [`applyP50@${kind}`]: { what: `a manifest sent until its container runs, ${kind}, image present, p50`, unit: 'ms' },
  [`applyP99@${kind}`]: {
    what: `a manifest sent until its container runs, ${kind}, image present, p99`,
    unit: 'ms',
    budget: { atMost: 5_000 },
  },
  [`createP50@${kind}`]: { what: `a container created and started, ${kind}, p50`, unit: 'ms' },
  [`echoP50@${kind}`]: {
    what: `a byte to \`cat\` in a container and back over the local API, ${kind}, p50`,
    unit: 'ms',
  },
  [`text@${kind}`]: { what: `text of a program in a container over the local API, ${kind}`, unit: 'MiB/s' },
  [`privateDirty@${kind}`]: {
    what: `agent, ${AT_REST}, ${kind}: private dirty memory`,
    unit: 'MiB',
    budget: { atMost: 40 },
  },
  [`rss@${kind}`]: { what: `agent, ${AT_REST}, ${kind}: resident memory`, unit: 'MiB', budget: { atMost: 90 } },
  [`rssAfter@${kind}`]: { what: 'the same before its next start, after it has deployed all of them', unit: 'MiB' },
  [`engineRss@${kind}`]: { what: `the daemons of ${kind} then: resident memory`, unit: 'MiB' },
  [`helpersRss@${kind}`]: { what: `the processes that ${kind} has for these containers: resident memory`, unit: 'MiB' },
  [`cpu@${kind}`]: { what: `agent, ${AT_REST}, ${kind}: CPU of one core`, unit: '%', budget: { atMost: 0.5 } },
  [`written@${kind}`]: {
    what: `agent, ${AT_REST}, ${kind}: written to disk in a minute`,
    unit: 'bytes',
    budget: { atMost: 0 },
  },
  [`engineWritten@${kind}`]: { what: `the daemons of ${kind} then: written to disk in a minute`, unit: 'bytes' },
  [`images@${kind}`]: { what: `list of 500 names of images of ${kind} over the local API, p50`, unit: 'ms' },
});

/** A machine that no controller manages. */
export const alone: Benchmark = {
  name: 'alone',
  about:
    'an agent without a controller on docker, podman and its own engine: manifests, exec, rest, images and volumes',
  rows: {
    ...Object.assign({}, ...KINDS.map(rowsOf)),
    claims: { what: '10,000 volume claims listed over the local API, p50', unit: 'ms' },
    dryPrune: { what: 'what a prune of 10,000 volume claims would destroy', unit: 'ms' },
    prune: { what: '10,000 volume claims destroyed by a prune', unit: 's' },
    pruneCpu: { what: 'the same: the agent, for each claim', unit: 'CPU-ms' },
  },
  async run(context) {
    const figures: Record<string, number> = {};
    for (const kind of KINDS) {
      await using machine = await startAlone(kind, context.log);
      await machine.load(saveImage(await sampleImage({}, undefined, context.log), IMAGE));
      await machine.load(saveImage(shellImage(), SHELL));
      Object.assign(figures, await timeApplies(context, machine));
      Object.assign(figures, await timeCreations(context, machine));
      Object.assign(figures, await timeExec(context, machine));
      Object.assign(figures, await measureRest(context, machine));
      // The agent's own work, on whatever engine.
      if (kind === 'docker') Object.assign(figures, await timeVolumes(context, machine));
      // Last, since each look at the engine takes longer with them.
      Object.assign(figures, await timeImages(context, machine));
    }
    return {
      figures,
      notes: [
        `the agent as it is installed; ${applies(context)} manifests of one microservice on each engine, one after the other; running is what the agent says, which is asked every 10 ms`,
        `${creations(context)} containers of the same image created and started one after the other by the adapter of the engine in the agent, without the agent`,
        `${echoes(context)} bytes one after the other; ${textMiB(context)} MiB of text`,
        `${restSeconds(context)} s at rest after a start with ${SERVICES} containers that ran; the agent's own engine is containerd`,
        `${claims(context)} claims, half of them private and half shared, a file in each; ${images(context)} rows of images, each with a layer of its own, of podman for a fifth as many images; the list of claims 20 times, of images 5 times`,
        'podman lists images in one call, in which version 4.3 looks at all images for each image: that is nearly all of the time',
      ],
    };
  },
};

const applies = (context: Context) => by(context, { short: 5, usual: 20, long: 100 });
const creations = (context: Context) => by(context, { short: 3, usual: 20, long: 100 });
const echoes = (context: Context) => by(context, { short: 50, usual: 1_000, long: 5_000 });
const textMiB = (context: Context) => by(context, { short: 8, usual: 128, long: 512 });
const restSeconds = (context: Context) => by(context, { short: 20, usual: 60, long: 300 });
const claims = (context: Context) => by(context, { short: 200, usual: 10_000, long: 10_000 });
const images = (context: Context) => by(context, { short: 50, usual: 500, long: 500 });

/** podman takes a second to load an image. */
const namesOf = (kind: AloneKind) => (kind === 'podman' ? 5 : 1);

const mib = (bytes: number) => bytes / 2 ** 20;
const manifest = (name: string, value: string, image = IMAGE) =>
  JSON.stringify({
    apiVersion: 'agent.skerry.dev/v1',
    kind: 'Microservice',
    metadata: { name },
    spec: { image, registry: 2, container: { env: [{ key: 'VALUE', value }] } },
  });

/** Deploys a microservice, waits until the agent says that it runs, and returns its uuid. */
async function deploy({ client }: Alone, text: string): Promise<string> {
  const path = '/v1/deploy/microservices:apply';
  const operation = await client.call<Parameters<typeof finished>[2] & { deploymentId: string }>('POST', path, {
    form: { manifest: text },
  });
  await finished(client, path, operation);
  return operation.deploymentId;
}

async function timeApplies(context: Context, machine: Alone): Promise<Record<string, number>> {
  const { kind, client } = machine;
  context.log(`Manifests on ${kind}`);
  const taken: number[] = [];
  for (let i = 0; i < applies(context); i++) {
    const name = `apply-${i}`;
    const began = performance.now();
    await deploy(machine, manifest(name, 'first'));
    taken.push(performance.now() - began);
    await client.call('DELETE', `/v1/ms/skerry-agent.${name}`);
  }
  const { p50, p99 } = spread(taken);
  return { [`applyP50@${kind}`]: p50, [`applyP99@${kind}`]: p99 };
}

/** What of it the engine takes. */
async function timeCreations(context: Context, { kind, engineUrl }: Alone): Promise<Record<string, number>> {
  const instance = randomUUID().replaceAll('-', '');
  const engine = openEngine({ url: engineUrl, instance });
  const facts = await engine.connect();
  await engine.ensureNetwork();
  try {
    const taken = await timed(creations(context), async () => {
      const { id } = await engine.create(makeSpec({ view: { imageId: IMAGE }, facts, instance, limits: ownLimits() }));
      await engine.start(id);
    });
    return { [`createP50@${kind}`]: taken.p50 };
  } finally {
    await cleanUp(engine);
  }
}

async function timeExec(context: Context, machine: Alone): Promise<Record<string, number>> {
  const { kind, api, client } = machine;
  context.log(`Programs in a container of ${kind}`);
  const uuid = await deploy(machine, manifest('shell', 'shell', SHELL));
  const { p50 } = await timeLocalEchoes(api, uuid, echoes(context));
  const text = await timeLocalText(api, uuid, textMiB(context) * 2 ** 20);
  await client.call('DELETE', '/v1/ms/skerry-agent.shell');
  return { [`echoP50@${kind}`]: p50, [`text@${kind}`]: text };
}

async function measureRest(context: Context, machine: Alone): Promise<Record<string, number>> {
  const { kind } = machine;
  for (let i = 0; i < SERVICES; i++) await deploy(machine, manifest(`part-${i}`, `${i}`));
  const wait = async (what: string, seconds: number) => {
    context.log(`Waiting ${seconds} s for ${what}`);
    await sleep(seconds * 1_000);
  };
  await wait('the agent to come to rest', 30);
  const after = memoryOf(machine.pid());
  await machine.restart();
  await wait('the agent to come to rest', 30);
  const { daemons, helpers } = machine.engineProcesses();
  const used = watchUsage({ ...Object.fromEntries(daemons.entries()), agent: machine.pid() });
  await wait('nothing to happen', restSeconds(context));
  const { cpuMs, writtenBytes, seconds } = used();
  const { rss, privateDirty } = memoryOf(machine.pid());
  const { agent = 0, ...others } = writtenBytes;
  const aMinute = (bytes: number) => (bytes / seconds) * 60;
  const together = (pids: readonly number[]) => sum(pids.map((pid) => mib(memoryOf(pid).rss)));
  const figures = {
    ...{ rss: mib(rss), privateDirty: mib(privateDirty), rssAfter: mib(after.rss) },
    ...{ engineRss: together(daemons), helpersRss: together(helpers) },
    cpu: (cpuMs.agent ?? 0) / seconds / 10,
    ...{ written: aMinute(agent), engineWritten: aMinute(sum(Object.values(others))) },
  };
  return Object.fromEntries(Object.entries(figures).map(([name, value]) => [`${name}@${kind}`, value]));
}

const sum = (values: readonly number[]) => values.reduce((all, each) => all + each, 0);

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

async function timeImages(context: Context, machine: Alone): Promise<Record<string, number>> {
  const { kind, engineUrl, client } = machine;
  const count = images(context) / namesOf(kind);
  context.log(`Loading ${count} images into ${kind}`);
  const numbers = Array.from({ length: count }, (_, number) => number).values();
  const load = async () => {
    // Images that share all of their layers are another matter: podman compares each of them with each.
    for (const number of numbers)
      await machine.load(
        saveImage(buildImage({ files: [{ path: '/a', content: `${number}` }] }), `bench.example/many:${number}`),
      );
  };
  await Promise.all(Array.from({ length: 4 }, load));
  for (let number = 0; number < count; number++)
    for (let other = 1; other < namesOf(kind); other++)
      await callEngine(
        engineUrl,
        'POST',
        `/images/bench.example/many:${number}/tag?repo=bench.example/more&tag=${number}-${other}`,
      );
  return { [`images@${kind}`]: (await timed(5, () => client.call('GET', '/v1/images'))).p50 };
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
