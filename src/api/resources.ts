import type { ObjectMeta, ResourceDefinition } from './meta.ts';
import { GROUP, VERSION } from './names.ts';

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
