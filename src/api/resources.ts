import type { KindDefinition, ObjectMeta } from './meta.ts';
import { GROUP, VERSION } from './names.ts';
import { type Application, applicationKind } from './v3/application.ts';
import { type EdgeNode, edgeNodeKind } from './v3/edge-node.ts';
import { type Registry, registryKind } from './v3/registry.ts';

/** Where objects of a kind live in the API; `_object` is never set and carries the type only. */
export interface ResourceOf<T> {
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly kind: string;
  readonly namespaced: boolean;
  readonly _object?: T;
}

/** A core Secret; values are base64. */
export interface Secret {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
  type?: string;
  immutable?: boolean;
  data?: Record<string, string>;
}

/** A core ConfigMap. */
export interface ConfigMap {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
  immutable?: boolean;
  data?: Record<string, string>;
  binaryData?: Record<string, string>;
}

const ours = <T>({ plural, kind }: KindDefinition): ResourceOf<T> => ({
  group: GROUP,
  version: VERSION,
  plural,
  kind,
  namespaced: true,
});
const core = <T>(plural: string, kind: string): ResourceOf<T> => ({
  group: '',
  version: 'v1',
  plural,
  kind,
  namespaced: true,
});

/** Every resource that we read or write, by the word we call it. */
export const RESOURCES = {
  applications: ours<Application>(applicationKind),
  edgeNodes: ours<EdgeNode>(edgeNodeKind),
  registries: ours<Registry>(registryKind),
  secrets: core<Secret>('secrets', 'Secret'),
  configMaps: core<ConfigMap>('configmaps', 'ConfigMap'),
} as const;
