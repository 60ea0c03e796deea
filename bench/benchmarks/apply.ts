import { waitFor } from '../../hack/wait.ts';
import { API_VERSION, CONTAINER_LABELS } from '../../src/api/names.ts';
import { type Benchmark, by } from '../benchmark.ts';
import { watchStarts } from '../engine-events.ts';
import { spread } from '../percentile.ts';
import { pathOf, type Stack } from '../stack.ts';

/** The main job: an application is applied, and its container runs on a machine. */
export const apply: Benchmark = {
  name: 'apply',
  about: 'an application applied, until its container runs (real agent, real engine)',
  rows: {
    createP50: { what: 'apply answered to container started, image present, p50', unit: 'ms' },
    createP99: {
      what: 'apply answered to container started, image present, p99',
      unit: 'ms',
      budget: { atMost: 5_000 },
      baseline: 'up to 20 s',
    },
    editP50: { what: 'edit answered to container replaced, p50', unit: 'ms' },
    editP99: { what: 'edit answered to container replaced, p99', unit: 'ms', budget: { atMost: 5_000 } },
    readyP50: { what: 'apply answered to status Ready, p50', unit: 'ms' },
  },
  async run(context) {
    const stack = await context.stack();
    const { engine, image, node } = await stack.edge();
    using starts = await watchStarts(engine.url);
    const count = by(context, { short: 5, usual: 20, long: 100 });
    const creates: number[] = [];
    const edits: number[] = [];
    const readies: number[] = [];
    for (let i = 0; i < count; i++) {
      const name = `apply-${i}`;
      const next = () => starts.next(CONTAINER_LABELS.application, name, 60_000);
      const created = next();
      await stack.kube.request('POST', pathOf('applications'), application(name, node, image));
      const createdAt = performance.now();
      creates.push(Math.max(0, (await created) - createdAt));
      await untilReady(stack, name);
      readies.push(performance.now() - createdAt);

      const replaced = next();
      const patch = [{ op: 'replace', path: '/spec/microservices/0/container/env/0/value', value: 'second' }];
      await stack.kube.request('PATCH', pathOf('applications', name), patch, 'application/json-patch+json');
      const editedAt = performance.now();
      edits.push(Math.max(0, (await replaced) - editedAt));
      await untilReady(stack, name);

      await stack.kube.request('DELETE', pathOf('applications', name));
      await waitFor(async () => (await stack.kube.get(pathOf('applications', name))) === undefined, {
        what: `${name} to be gone`,
        timeoutMs: 60_000,
      });
      if ((i + 1) % 5 === 0) context.log(`  ${i + 1} of ${count}`);
    }
    return {
      figures: {
        createP50: spread(creates).p50,
        createP99: spread(creates).p99,
        editP50: spread(edits).p50,
        editP99: spread(edits).p99,
        readyP50: spread(readies).p50,
      },
      notes: [
        `${count} applications of one microservice, one after the other, on ${engine.kind}; started is what the engine's events say`,
      ],
    };
  },
};

function application(name: string, node: string, image: string) {
  return {
    apiVersion: API_VERSION,
    kind: 'Application',
    metadata: { name },
    spec: {
      microservices: [
        {
          name: 'web',
          agent: { name: node },
          images: { amd64: image, arm64: image },
          container: { env: [{ key: 'VALUE', value: 'first' }] },
        },
      ],
    },
  };
}

/** Asks the API server every few milliseconds until the present generation of the application is Ready. */
export async function untilReady({ kube }: Stack, name: string): Promise<void> {
  interface Application {
    metadata: { generation?: number };
    status?: { conditions?: { type: string; status: string; observedGeneration?: number; message?: string }[] };
  }
  let last: string | undefined;
  const check = async () => {
    const { metadata, status } = await kube.request<Application>('GET', pathOf('applications', name));
    const ready = status?.conditions?.find(({ type }) => type === 'Ready');
    last = ready?.message;
    return ready?.status === 'True' && ready.observedGeneration === metadata.generation;
  };
  await waitFor(check, { what: `${name} to be ready`, timeoutMs: 60_000, intervalMs: 5 }).catch((error) => {
    throw new Error(`${error.message} (${last})`, { cause: error });
  });
}
