import { describe, type Example } from '../../../testing/example.ts';
import { find } from '../../../testing/sequences/model.ts';
import {
  type CatalogItem,
  type CatalogItemSpec,
  catalogItemSpecSchema,
  type Registry,
  type RuntimeClass,
  registrySpecSchema,
} from '../../api/v3/index.ts';

export function makeRegistry(name: string, spec: Partial<Registry['spec']> = {}): Registry {
  return {
    apiVersion: 'skerry.dev/v3',
    kind: 'Registry',
    metadata: { name, namespace: 'skerry', uid: `uid-${name}`, creationTimestamp: '2026-01-01T00:00:00Z' },
    spec: registrySpecSchema.parse({ url: `${name}.example`, ...spec }),
  };
}

export const makeRuntimeClass = (name: string, handler = name): RuntimeClass => ({
  apiVersion: 'skerry.dev/v3',
  kind: 'RuntimeClass',
  metadata: { name, uid: `uid-${name}` },
  spec: { handler },
});

/** A CatalogItem `reader` with the id 12. */
export function makeCatalogItem(spec: Partial<CatalogItemSpec> = {}, name = 'reader'): CatalogItem {
  return {
    apiVersion: 'skerry.dev/v3',
    kind: 'CatalogItem',
    metadata: { name, uid: `uid-${name}` },
    spec: catalogItemSpecSchema.parse({
      id: 12,
      images: [{ archId: 1, containerImage: 'reg.example/reader:2' }],
      registryId: 1,
      ...spec,
    }),
  };
}

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
