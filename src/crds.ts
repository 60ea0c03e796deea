import packageJson from '../package.json' with { type: 'json' };
import { CRD_VERSION, toCrd } from './api/crd.ts';
import { isAlreadyExists, isConflict, type KubeClient, type KubeObject, type Resource } from './kube/mod.ts';
import type { Kinds } from './subjects/kinds.ts';

/**
 * Brings the CRDs of the cluster to those of this version, since Helm never upgrades them. It only creates and replaces
 * definitions and never removes one, so that no object is lost; one that a newer version wrote stays as it is.
 */

export interface CustomResourceDefinition extends KubeObject {
  spec: unknown;
  status?: { conditions?: { type: string; status: string }[] };
}

export const CRDS: Resource<CustomResourceDefinition> = {
  group: 'apiextensions.k8s.io',
  version: 'v1',
  plural: 'customresourcedefinitions',
  kind: 'CustomResourceDefinition',
  namespaced: false,
};

const FIELD_MANAGER = 'skerry-crds';
const ATTEMPTS = 5;
const PATIENCE_MS = 60_000;
const LOOK_MS = 250;

export type CrdOutcome = 'created' | 'updated' | 'unchanged' | 'left as a newer version wrote it';

/** Resolves when the API server serves every kind; with what was done, by name. */
export async function applyCrds(
  client: KubeClient,
  kinds: Kinds,
  options: { version?: string; signal?: AbortSignal } = {},
): Promise<Map<string, CrdOutcome>> {
  const { version = packageJson.version, signal = AbortSignal.timeout(PATIENCE_MS) } = options;
  const outcomes = new Map<string, CrdOutcome>();
  for (const { definition } of Object.values(kinds)) {
    const crd = toCrd(definition, version) as unknown as CustomResourceDefinition;
    outcomes.set(crd.metadata.name ?? '', await applyCrd(client, crd, version, signal));
  }
  for (const name of outcomes.keys()) await established(client, name, signal);
  return outcomes;
}

async function applyCrd(
  client: KubeClient,
  { metadata: { name = '', annotations }, ...crd }: CustomResourceDefinition,
  version: string,
  signal: AbortSignal,
): Promise<CrdOutcome> {
  const options = { fieldManager: FIELD_MANAGER, signal };
  for (let attempt = 1; ; attempt++) {
    const before = await client.find(CRDS, { name }, { signal });
    try {
      if (!before) {
        await client.create(CRDS, { ...crd, metadata: { name, annotations } }, options);
        return 'created';
      }
      const { metadata } = before;
      if (isOlder(version, metadata.annotations?.[CRD_VERSION])) return 'left as a newer version wrote it';
      const marked = { ...metadata, annotations: { ...metadata.annotations, ...annotations } };
      const after = await client.replace(CRDS, { ...crd, metadata: marked }, options);
      return after.metadata.generation === metadata.generation ? 'unchanged' : 'updated';
    } catch (error) {
      const another = isConflict(error) || isAlreadyExists(error);
      if (!another || attempt >= ATTEMPTS) throw error;
    }
  }
}

async function established(client: KubeClient, name: string, signal: AbortSignal): Promise<void> {
  for (;;) {
    const { status } = await client.get(CRDS, { name }, { signal });
    if (status?.conditions?.some((one) => one.type === 'Established' && one.status === 'True')) return;
    signal.throwIfAborted();
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}

/** By the numbers alone: a pre-release has the CRDs of its release. */
function isOlder(version: string, than = '0'): boolean {
  const numbers = (text: string) => text.split(/[.+-]/, 3).map((part) => Number.parseInt(part, 10) || 0);
  const [mine, other] = [numbers(version), numbers(than)];
  const at = [0, 1, 2].find((index) => (mine[index] ?? 0) !== (other[index] ?? 0)) ?? 0;
  return (mine[at] ?? 0) < (other[at] ?? 0);
}
