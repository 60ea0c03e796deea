import { annotate, EDITED, type Example, LINK } from '../../../testing/example.ts';
import { find } from '../../../testing/sequences/model.ts';

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
