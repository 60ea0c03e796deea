import { randomUUID } from 'node:crypto';
import type { ObjectMeta } from '../src/api/meta.ts';
import type { Secret } from '../src/api/resources.ts';
import type { Application, EdgeNode, MicroserviceEntry, Model, Registry, VolumeMount } from '../src/api/v3/index.ts';
import { makeRegistry } from '../src/subjects/catalog/_make.ts';
import { makeModel, makeVolumeMount } from '../src/subjects/content/_make.ts';
import { makeNode } from '../src/subjects/nodes/_make.ts';
import { makeApplication } from '../src/subjects/workloads/_make.ts';

/** Objects as the API server stores them: each with an identity and a version of its own. */

export const NAMESPACE = 'skerry';

let version = 0;
/** A resource version above all before it. */
export const nextVersion = (): string => String(++version);

const metadata = (name: string, extra: object = {}) => ({
  name,
  namespace: NAMESPACE,
  uid: randomUUID(),
  resourceVersion: nextVersion(),
  generation: 1,
  creationTimestamp: '2026-01-01T00:00:00Z',
  ...extra,
});

/** The object with the metadata of a new one; `extra` replaces members of it. */
export const stored = <T extends { metadata: ObjectMeta }>(object: T, extra: object = {}): T => ({
  ...object,
  metadata: metadata(object.metadata.name, extra),
});

export const storedNode = (name: string, spec: EdgeNode['spec'] = {}, extra: object = {}): EdgeNode =>
  stored(makeNode({ name, spec: { uuid: randomUUID(), ...spec } }), extra);

export const storedApplication = (name: string, microservices: object[], extra: object = {}): Application =>
  stored(
    makeApplication({
      name,
      spec: { uuid: randomUUID(), isActivated: true },
      entries: microservices as MicroserviceEntry[],
    }),
    extra,
  );

export const storedRegistry = (name: string, id: number, spec: object = {}): Registry =>
  stored(makeRegistry(name, { id, isPublic: true, type: 'oci', insecure: false, ...spec }));

export const storedModel = (name: string, spec: object = {}): Model => stored(makeModel(name, spec));

export const storedVolumeMount = (name: string, spec: VolumeMount['spec']): VolumeMount =>
  stored(makeVolumeMount(name, spec));

export function storedSecret(name: string, data: Record<string, string>, extra: object = {}): Secret {
  const encoded = Object.entries(data).map(([key, value]) => [key, Buffer.from(value).toString('base64')]);
  return { apiVersion: 'v1', kind: 'Secret', metadata: metadata(name, extra), data: Object.fromEntries(encoded) };
}

/** A copy of the object after a change, with the next resource version and generation. */
export function changed<T extends { metadata: { generation?: number } }>(object: T, change: (copy: T) => void): T {
  const copy = structuredClone(object);
  change(copy);
  const resourceVersion = nextVersion();
  Object.assign(copy.metadata, { resourceVersion, generation: Number(resourceVersion) });
  return copy;
}
