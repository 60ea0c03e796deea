import type { ObjectMeta, ResourceOf } from '../lib/kubernetes-object.ts';
import type { ResourceDefinition } from './meta.ts';
import { GROUP, VERSION } from './names.ts';

export type { ResourceOf };

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

/** The resource of one of our kinds. */
export const customResource = <T>({ plural, kind }: ResourceDefinition): ResourceOf<T> => ({
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

/** The core resources that we read and write. */
export const CORE_RESOURCES = {
  secrets: core<Secret>('secrets', 'Secret'),
  configMaps: core<ConfigMap>('configmaps', 'ConfigMap'),
} as const;
