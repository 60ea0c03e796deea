import type { Access } from '../hack/cluster/cluster.ts';
import packageJson from '../package.json' with { type: 'json' };
import { CRD_VERSION } from '../src/api/crd.ts';
import { API_VERSION, GROUP } from '../src/api/names.ts';
import { KINDS } from '../src/subjects/kinds.ts';
import { until } from './_stack.ts';

/** An installation on a cluster of others: what is asked before it, and how all of it but the CRDs is taken away. */
interface Place {
  cluster: Access;
  namespace: string;
  /** of the controller, as IMAGE names it */
  image: string;
}

/** What a kubelet says of a container whose image it does not get. */
const WITHOUT_IMAGE = ['ErrImagePull', 'ImagePullBackOff', 'InvalidImageName', 'ErrImageNeverPull'];

interface Probe {
  status: {
    phase: string;
    containerStatuses?: { state: { waiting?: { reason: string; message?: string } } }[];
  };
}

/**
 * Why a run may not bring its CRDs to a cluster: CRDs of another version serve an installation there, or did. Undefined where there are
 * none, and where all have this version, which the run leaves as they are. `versions`: name of a CRD -> its version.
 */
export function crdsRefusal(versions: ReadonlyMap<string, string>, own: string): string | undefined {
  const others = [...versions].filter(([, version]) => version !== own);
  if (others.length === 0) return undefined;
  const [[name = '', version = ''] = []] = others;
  return `the cluster has CRDs of another version of Skerry (${name}: "${version}"), which this run would replace by ${own}: name another cluster, or delete them where no installation needs them`;
}

/** Throws where the cluster has CRDs that a run would change. */
export async function expectNoForeignCrds({ kube }: Access): Promise<void> {
  const path = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
  const versions = new Map<string, string>();
  for (const { definition } of Object.values(KINDS)) {
    const name = `${definition.plural}.${GROUP}`;
    const found = await kube.get<{ metadata: { annotations?: Record<string, string> } }>(`${path}/${name}`);
    if (found) versions.set(name, found.metadata.annotations?.[CRD_VERSION] ?? '');
  }
  const refusal = crdsRefusal(versions, packageJson.version);
  if (refusal !== undefined) throw new Error(refusal);
}

/** Fails within seconds where no node gets the image; an installation would fail after minutes, and say only that it took too long. */
export async function expectImage({ cluster, namespace, image }: Place): Promise<void> {
  const name = 'skerry-image';
  await cluster.kube.apply({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace },
    spec: {
      restartPolicy: 'Never',
      automountServiceAccountToken: false,
      securityContext: { runAsNonRoot: true, runAsUser: 65532, seccompProfile: { type: 'RuntimeDefault' } },
      containers: [
        {
          ...{ name, image, imagePullPolicy: 'IfNotPresent', command: ['/usr/bin/node', '--version'] },
          resources: { requests: { cpu: '10m', memory: '64Mi' }, limits: { memory: '256Mi' } },
          securityContext: {
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            capabilities: { drop: ['ALL'] },
          },
        },
      ],
    },
  });
  const ended = await until(
    `a pod of IMAGE=${image} to run`,
    async () => {
      const probe = await cluster.kube.get<Probe>(`/api/v1/namespaces/${namespace}/pods/${name}`);
      const waiting = probe?.status.containerStatuses?.[0]?.state.waiting;
      if (waiting && WITHOUT_IMAGE.includes(waiting.reason)) return { problem: waiting };
      return ['Succeeded', 'Failed'].includes(probe?.status.phase ?? '') && { phase: probe?.status.phase };
    },
    { timeoutMs: 180_000 },
  );
  if (ended.problem) {
    const { reason, message = '' } = ended.problem;
    throw new Error(`IMAGE=${image}: the node neither has it nor can pull it (${reason}: ${message})`);
  }
  if (ended.phase !== 'Succeeded') throw new Error(`IMAGE=${image}: /usr/bin/node does not run in it`);
  await cluster.kubectl('--namespace', namespace, 'delete', 'pod', name, '--wait=false');
}

/** Whatever the state of the installation. Without its image, the job that removes finalizers fails; this then does its work. */
export async function removeInstallation({ cluster, namespace }: Place): Promise<void> {
  const uninstall = (...args: string[]) =>
    cluster.helm('uninstall', 'skerry', '--namespace', namespace, '--ignore-not-found', ...args);
  try {
    await uninstall('--wait', '--timeout', '2m').catch(() => uninstall('--no-hooks', '--wait', '--timeout', '2m'));
  } finally {
    await removeFinalizers(cluster, namespace);
    // Hooks that failed keep what they made.
    const hooks = ['clusterrole', 'clusterrolebinding'].map((kind) => `${kind}/skerry-crds-${namespace}`);
    await cluster.kubectl('delete', ...hooks, '--ignore-not-found');
    await cluster.kubectl('delete', 'namespace', namespace, '--ignore-not-found', '--timeout=180s');
  }
}

async function removeFinalizers({ kube }: Access, namespace: string): Promise<void> {
  for (const { definition } of Object.values(KINDS)) {
    const path = `/apis/${API_VERSION}/namespaces/${namespace}/${definition.plural}`;
    const list = await kube.get<{ items: { metadata: { name: string; finalizers?: string[] } }[] }>(path);
    for (const { metadata } of list?.items ?? [])
      if (metadata.finalizers?.length)
        await kube.request(
          'PATCH',
          `${path}/${metadata.name}`,
          { metadata: { finalizers: null } },
          'application/merge-patch+json',
        );
  }
}
