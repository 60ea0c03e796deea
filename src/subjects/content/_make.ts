import { annotate, EDITED, type Example, LINK } from '../../../testing/example.ts';
import { find } from '../../../testing/sequences/model.ts';
import type { Knowledge, Model, VolumeMount } from '../../api/v3/index.ts';

/** An artifact in the public registry. */
const makeArtifact = (kind: 'Model' | 'Knowledge', name: string, spec: object) => ({
  apiVersion: 'skerry.dev/v3',
  kind,
  metadata: { name, namespace: 'skerry', uid: `uid-${name}`, generation: 1, creationTimestamp: '2026-01-01T00:00:00Z' },
  spec: { repo: `team/${name}`, registryId: 1, ...spec },
});
export const makeModel = (name: string, spec: Partial<Model['spec']> = {}): Model => makeArtifact('Model', name, spec);
export const makeKnowledge = (name: string, spec: Partial<Knowledge['spec']> = {}): Knowledge =>
  makeArtifact('Knowledge', name, spec);

export const makeVolumeMount = (
  name: string,
  spec: VolumeMount['spec'],
  more: { status?: Partial<VolumeMount['status']>; createdAt?: string } = {},
): VolumeMount => ({
  apiVersion: 'skerry.dev/v3',
  kind: 'VolumeMount',
  metadata: {
    name,
    namespace: 'default',
    uid: `uid-${name}`,
    generation: 1,
    creationTimestamp: more.createdAt ?? '2026-01-01T00:00:00Z',
  },
  spec,
  ...(more.status && { status: { observedGeneration: 1, ...more.status } }),
});

const artifact = (names: Example['names'], format: string): Example => ({
  names,
  spec: ({ text, registry, files }) => ({
    repo: `team/${text}`,
    registryId: registry.ref,
    ...(files && { files: ['*.bin'] }),
  }),
  change: ({ text, registry, files }) => ({
    repo: `team/${text}`,
    registryId: registry.ref,
    files: files ? ['*.bin'] : null,
  }),
  shown: ({ draft: { text, registry, files } }, state) => {
    const id = find(state, registry)?.id ?? (typeof registry.ref === 'number' ? registry.ref : undefined);
    return { repo: `team/${text}`, ...(id !== undefined && { registryId: id }), files: files ? ['*.bin'] : [] };
  },
  edited: { registry: { to: 'registries', ref: EDITED.hub }, files: true },
  edits: [{ body: (n) => ({ revision: `v${n}` }) }, { body: (n) => ({ files: [`part-${n}`] }) }, LINK],
  kubectl: (n) => ({ spec: { format: n % 2 ? format : null } }),
});

export const CONTENT = {
  models: artifact(['tiny', 'big'], 'gguf'),
  knowledge: artifact(['tiny', 'docs'], 'pdf'),
  volumeMounts: {
    names: ['files', 'certs'],
    spec: ({ source: { to, ref } }) => ({ [to === 'secrets' ? 'secretName' : 'configMapName']: ref }),
    shown: ({ draft: { source }, version }) => ({
      [source.to === 'secrets' ? 'secretName' : 'configMapName']: source.ref,
      version,
    }),
    edited: { source: { to: 'configMaps', ref: EDITED.configMaps[0] } },
    edits: [{ body: (n) => ({ configMapName: EDITED.configMaps[n % 2] }) }, LINK],
    kubectl: annotate,
  },
  secrets: {
    names: ['db', 'Db 2'],
    spec: ({ data }) => ({ type: 'Opaque', data }),
    change: ({ data }) => ({ data }),
    edits: [{ body: (n) => ({ data: { a: `${n}` } }) }],
    kubectl: annotate,
  },
  configMaps: {
    names: ['db', 'site'],
    spec: ({ data }) => ({ data }),
    edits: [{ body: (n) => ({ data: { a: `${n}` } }) }],
    kubectl: annotate,
  },
} satisfies Record<string, Example>;
