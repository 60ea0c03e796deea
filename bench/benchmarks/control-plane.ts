import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { controlPlaneImage } from '../../hack/control-plane-image.ts';
import { callEngine } from '../../hack/engine-api.ts';
import { saveImage } from '../../hack/image.ts';
import { freePort } from '../../hack/ports.ts';
import { type Alone, finished, startAlone } from '../alone.ts';
import { type Benchmark, by, type Row } from '../benchmark.ts';
import { createFleet } from '../fleet.ts';
import { createHttp, createRest } from '../http.ts';

const SIZES = [1, 20, 100] as const;
const IMAGE = 'bench.example/control-plane:1';
const ADMIN = { username: 'ann', password: 'Limpets-hold-1' };

/** A control plane in a container of a machine with 2 GiB, of which half is for the system, the engine and what runs there. */
export const controlPlane: Benchmark = {
  name: 'control-plane',
  about: 'memory of a control plane on a node, with 1, 20 and 100 nodes',
  rows: Object.fromEntries(
    SIZES.map((size): [string, Row] => [
      `memory@${size}`,
      {
        what: `control plane on a node with ${size} ${size === 1 ? 'node' : 'nodes'}: memory of its container`,
        unit: 'MiB',
        budget: { atMost: 1_024 },
      },
    ]),
  ),
  async run(context) {
    const dir = await mkdtemp(join(tmpdir(), 'skerry-bench-hub-'));
    await using started = new AsyncDisposableStack();
    started.defer(() => rm(dir, { recursive: true, force: true }));
    const image = await controlPlaneImage(dir, context.log);
    const machine = started.use(await startAlone('docker', context.log));
    await machine.load(saveImage(image, IMAGE));
    const port = await freePort();
    context.log('Deploying the control plane');
    const container = await deploy(machine, port);

    // Its certificate is made by itself.
    const [http, pollHttp] = [64, null].map((connections) =>
      started.use(createHttp(`https://127.0.0.1:${port}`, connections, { rejectUnauthorized: false })),
    ) as [ReturnType<typeof createHttp>, ReturnType<typeof createHttp>];
    let token = '';
    const fleet = started.use(createFleet({ rest: createRest(http, () => token), http, pollHttp }));
    const seconds = by(context, { short: 10, usual: 120, long: 600 });
    const figures: Record<string, number> = {};
    for (const size of by<readonly number[]>(context, { short: [1, 20], usual: SIZES, long: SIZES })) {
      token = await login(createRest(http, () => ''));
      await fleet.grow(size);
      context.log(`${size} nodes: ${seconds} s at rest`);
      await sleep(seconds * 1_000);
      requireRunning(await createRest(http, () => token).call<NodeList>('GET', '/node-list'), size);
      figures[`memory@${size}`] = await memoryOfContainer(machine, container);
    }
    return {
      figures,
      notes: [
        `the image of a release in a container of docker; nodes of test agents that poll and report, without applications; as \`docker stats\` counts it, after ${seconds} s with so many nodes`,
        'half of a machine with 2 GiB is the budget',
      ],
    };
  },
};

/** Deploys the control plane by its manifest, and returns the id of its container. */
async function deploy({ client }: Alone, port: number): Promise<string> {
  const manifest = JSON.stringify({
    apiVersion: 'agent.skerry.dev/v1',
    kind: 'ControlPlane',
    metadata: { name: 'hub' },
    spec: { controller: { image: IMAGE, port }, auth: { mode: 'embedded', bootstrap: ADMIN } },
  });
  const path = '/v1/deploy/controlplane:apply';
  await finished(client, path, await client.call('POST', path, { form: { manifest } }));
  return (await client.call<{ containerId: string }>('GET', '/v1/system/controlplane')).containerId;
}

interface NodeList {
  fogs: { daemonStatus: string }[];
}

/** Throws unless so many nodes have joined, and each of them runs. */
function requireRunning({ fogs }: NodeList, size: number): void {
  const running = fogs.filter(({ daemonStatus }) => daemonStatus === 'RUNNING').length;
  if (fogs.length !== size || running !== size)
    throw new Error(`${running} of ${fogs.length} nodes run, and not ${size} of ${size}`);
}

async function login(rest: ReturnType<typeof createRest>): Promise<string> {
  const { username: email, password } = ADMIN;
  return (await rest.call<{ accessToken: string }>('POST', '/user/login', { email, password })).accessToken;
}

/** MiB, without the files that the kernel could give up. */
async function memoryOfContainer({ engineUrl }: Alone, id: string): Promise<number> {
  const { memory_stats: memory } = await callEngine<{
    memory_stats: { usage: number; stats: { inactive_file?: number; total_inactive_file?: number } };
  }>(engineUrl, 'GET', `/v1.41/containers/${id}/stats?stream=false&one-shot=true`);
  const { inactive_file, total_inactive_file } = memory.stats;
  return (memory.usage - (total_inactive_file ?? inactive_file ?? 0)) / 2 ** 20;
}
