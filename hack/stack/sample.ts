import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DEFAULT_NAMESPACE } from '../../src/api/names.ts';
import { type Kube, type KubeObject, objectsOfYaml } from '../kube.ts';
import { ROOT } from '../paths.ts';
import { waitFor } from '../wait.ts';

const FILE = join(ROOT, 'manifests/sample.yaml');

/** The sample application. */
export interface Sample {
  name: string;
  /** URL of its container. */
  url: string;
}

interface Application extends KubeObject {
  metadata: KubeObject['metadata'] & { generation?: number };
  spec: { microservices: { container?: { ports?: { external: number }[] } }[] };
  status?: { observedGeneration?: number; conditions?: Condition[] };
}

interface Condition {
  type: string;
  status: string;
  reason?: string;
  message?: string;
}

/** The port of this machine that the sample uses; SKERRY_SAMPLE_PORT names another than manifests/sample.yaml has. */
export function samplePort(): number {
  const port = readSample().spec.microservices[0]?.container?.ports?.[0]?.external;
  if (!port) throw new Error(`${FILE} has no port`);
  return port;
}

/** Applies manifests/sample.yaml with the image that the stack pushed. */
export async function applySample(kube: Kube, image: string): Promise<Sample> {
  const application = readSample(image);
  await kube.apply(application);
  return { name: application.metadata.name, url: `http://127.0.0.1:${samplePort()}` };
}

function readSample(image = 'none'): Application {
  const text = readFileSync(FILE, 'utf8').replaceAll('${IMAGE}', image);
  const [application] = objectsOfYaml(text, FILE) as Application[];
  if (!application) throw new Error(`${FILE} has no application`);
  const port = application.spec.microservices[0]?.container?.ports?.[0];
  if (port && process.env.SKERRY_SAMPLE_PORT) port.external = Number(process.env.SKERRY_SAMPLE_PORT);
  return application;
}

/** Returns the response of the sample's container, once it responds and the application is Ready. */
export async function waitForSample(
  kube: Kube,
  sample: Sample,
  assertAlive: () => void,
  signal?: AbortSignal,
): Promise<string> {
  let conditions: Condition[] = [];
  try {
    return await waitFor(
      async () => {
        assertAlive();
        const application = await kube.get<Application>(pathOf(sample.name));
        conditions = application?.status?.conditions ?? [];
        const ready = conditions.find(({ type }) => type === 'Ready');
        const isCurrent = application?.status?.observedGeneration === application?.metadata.generation;
        if (ready?.status !== 'True' || !isCurrent) return undefined;
        const answer = await fetch(sample.url, { signal: AbortSignal.timeout(2_000) });
        return answer.ok ? (await answer.text()).trim() : undefined;
      },
      {
        what: `the application ${sample.name} to be Ready and to answer at ${sample.url}`,
        timeoutMs: 120_000,
        intervalMs: 50,
        signal,
      },
    );
  } catch (error) {
    signal?.throwIfAborted();
    const lines = conditions.map(({ type, status, reason, message }) => `  ${type}=${status} ${reason}: ${message}`);
    throw new Error(
      [(error as Error).message, 'Its conditions:', ...(lines.length > 0 ? lines : ['  none'])].join('\n'),
      {
        cause: error,
      },
    );
  }
}

function pathOf(name: string): string {
  return `/apis/skerry.dev/v3/namespaces/${DEFAULT_NAMESPACE}/applications/${name}`;
}
