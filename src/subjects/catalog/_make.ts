import { describe, type Example } from '../../../testing/example.ts';
import { find } from '../../../testing/sequences/model.ts';

export const CATALOG = {
  registries: {
    names: ['red', 'blue'],
    spec: ({ text, isHub }) => ({
      url: `${text}.example`,
      type: isHub ? 'hub' : 'oci',
      isPublic: true,
      insecure: false,
    }),
    edits: [{ body: (n) => ({ username: `user-${n}` }) }, { body: (n) => ({ userEmail: `user-${n}@example.com` }) }],
    kubectl: (n) => ({ spec: { isPublic: n % 2 === 0 } }),
  },
  runtimeClasses: {
    names: ['fast', 'safe'],
    spec: ({ text }) => ({ handler: text }),
    edits: [{ body: (n) => ({ handler: `crun-${n}` }) }],
    kubectl: (n) => ({ spec: { nodes: [`gw-${n}`] } }),
  },
  catalogItems: {
    names: ['reader', 'Writer 2'],
    spec: ({ image, registry, text }) => ({
      images: [{ archId: 1, containerImage: image }],
      registryId: registry.ref,
      description: text,
    }),
    shown: ({ draft: { image, registry, text } }, state) => ({
      images: [{ archId: 1, containerImage: image }],
      registryId: find(state, registry)?.id ?? registry.ref,
      description: text,
    }),
    edits: [describe, { body: (n) => ({ category: `C${n}` }) }],
    kubectl: (n) => ({ spec: { ramRequired: n } }),
  },
} satisfies Record<string, Example>;
