import {
  type Application,
  applicationSpecSchema,
  type CatalogItem,
  type CatalogItemSpec,
  catalogItemSpecSchema,
  type EdgeNode,
  edgeNodeSpecSchema,
  type Knowledge,
  type MicroserviceEntry,
  type Model,
  microserviceSchema,
  type ObservedMicroservice,
  type Registry,
  type RuntimeClass,
  registrySpecSchema,
  type VolumeMount,
} from '../api/v3/index.ts';
import { entriesOn } from '../subjects/nodes/rules/placement/entries.ts';
import { nodesOfLeaving } from '../subjects/nodes/rules/placement/moves.ts';
import { nodeUuid } from './identity.ts';
import type { Find, KeyedText, Linked, Lookups, NodeInputs, Observation, ReferencedObjects } from './inputs.ts';
import { entryUuid, v3Name } from './names.ts';

/** Builders for tests: valid objects with as few members as possible. */

export const NOW = '2026-01-02T03:04:05.000Z';
export const NODE_UUID = '11111111-1111-4111-8111-111111111111';
export const APP_UUID = '22222222-2222-4222-8222-222222222222';

type EntryInput = Partial<MicroserviceEntry> & { name?: string };

export function makeEntry(entry: EntryInput = {}): MicroserviceEntry {
  return microserviceSchema.parse({
    name: 'reader',
    agent: { name: 'gw-1' },
    images: { amd64: 'reg.example/reader:2' },
    ...entry,
  });
}

export function makeApplication({
  name = 'plant-a',
  uid = APP_UUID,
  createdAt = '2026-01-01T00:00:00Z',
  spec = {},
  entries = [makeEntry()],
  ...metadata
}: {
  name?: string;
  uid?: string;
  createdAt?: string;
  spec?: Partial<Application['spec']>;
  entries?: readonly MicroserviceEntry[];
  annotations?: Record<string, string>;
  deletionTimestamp?: string;
  generation?: number;
} = {}): Application {
  return {
    apiVersion: 'skerry.dev/v3',
    kind: 'Application',
    metadata: { name, namespace: 'skerry', uid, creationTimestamp: createdAt, generation: 1, ...metadata },
    spec: applicationSpecSchema.parse({ ...spec, microservices: entries }),
  };
}

export function makeNode({
  name = 'gw-1',
  uuid = NODE_UUID,
  spec = {},
  status,
  ...metadata
}: {
  name?: string;
  uuid?: string;
  spec?: Partial<EdgeNode['spec']>;
  status?: Partial<NonNullable<EdgeNode['status']>>;
  annotations?: Record<string, string>;
  deletionTimestamp?: string;
  generation?: number;
  creationTimestamp?: string;
} = {}): EdgeNode {
  return {
    apiVersion: 'skerry.dev/v3',
    kind: 'EdgeNode',
    metadata: {
      name,
      namespace: 'skerry',
      uid: uuid,
      creationTimestamp: '2026-01-01T00:00:00Z',
      generation: 1,
      ...metadata,
    },
    spec: edgeNodeSpecSchema.parse({ archId: 1, ...spec }),
    ...(status && { status: { observedGeneration: 1, ...status } }),
  };
}

export function makeRegistry(name: string, spec: Partial<Registry['spec']> = {}): Registry {
  return {
    apiVersion: 'skerry.dev/v3',
    kind: 'Registry',
    metadata: { name, namespace: 'skerry', uid: `uid-${name}`, creationTimestamp: '2026-01-01T00:00:00Z' },
    spec: registrySpecSchema.parse({ url: `${name}.example`, ...spec }),
  };
}

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

export function makeObserved(item: Partial<ObservedMicroservice> = {}): ObservedMicroservice {
  return {
    uuid: entryUuid(makeApplication(), { name: 'reader' }),
    application: 'plant-a',
    name: 'reader',
    state: 'RUNNING',
    containerId: 'c1',
    ...item,
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

export function makeObservation(observation: Partial<Observation> = {}): Observation {
  return { report: {}, waitSeconds: 0, instances: {}, sentRevisions: {}, ...observation };
}

interface Things extends Referenced {
  nodes?: readonly EdgeNode[];
  applications?: readonly Application[];
  secrets?: readonly KeyedText[];
  configMaps?: readonly KeyedText[];
}

/** Objects by kind, each list sorted by age. */
export type Referenced = { [K in keyof ReferencedObjects]?: readonly ReferencedObjects[K][] };

/** Look-ups among these objects. */
export const makeFind =
  (objects: Referenced): Find =>
  (kind, ref) => {
    const known: readonly ReferencedObjects[typeof kind][] = objects[kind] ?? [];
    return known.find(
      (object) => (typeof ref === 'number' ? (object.spec as { id?: number }).id : v3Name(object)) === ref,
    );
  };

/** The objects that are linked to a node. */
const linkedIn =
  (objects: Referenced, node: EdgeNode): Linked =>
  (kind) => {
    const names = [v3Name(node), nodeUuid(node)];
    return (objects[kind] ?? []).filter(({ spec }) => spec.nodes?.some((one) => names.includes(one)));
  };

const byName =
  <T extends { name: string }>(items: readonly T[]) =>
  (name: string) =>
    items.find((item) => item.name === name);

/** Lookups over exactly these objects; lists must be sorted by age. */
export function makeLookups({
  nodes = [makeNode()],
  applications = [],
  secrets = [],
  configMaps = [],
  ...referenced
}: Things = {}): Lookups {
  return {
    find: makeFind(referenced),
    linkedTo: (node) => linkedIn(referenced, node),
    nodeByName: (name) => nodes.find((node) => v3Name(node) === name),
    nodeByUuid: (uuid) => nodes.find((node) => nodeUuid(node) === uuid),
    applicationsOn: (node) =>
      applications.filter(
        (application) =>
          entriesOn(application, node).length > 0 ||
          nodesOfLeaving(application).includes(nodeUuid(node)) ||
          node.status?.microservices?.some((item) => item.application === v3Name(application)),
      ),
    applicationByName: (name) => applications.find((application) => v3Name(application) === name),
    applicationsWithEntry: (uuid) =>
      applications.filter((application) =>
        application.spec.microservices?.some((entry) => entryUuid(application, entry) === uuid),
      ),
    secret: byName(secrets),
    configMap: byName(configMaps),
  };
}

/** The same for one node. */
export function makeInputs({ node = makeNode(), ...things }: Things & Partial<NodeInputs> = {}): NodeInputs {
  const { applications = [makeApplication()], secrets = [], configMaps = [], nodes = [] } = things;
  return {
    node,
    applications,
    find: makeFind(things),
    linked: linkedIn(things, node),
    nodeByName: (name) => [node, ...nodes].find((other) => v3Name(other) === name),
    secret: byName(secrets),
    configMap: byName(configMaps),
    registryPassword: () => undefined,
    ...('revisionKey' in things && { revisionKey: things.revisionKey }),
    ...(things.registryPassword && { registryPassword: things.registryPassword }),
    ...(things.applicationByName && { applicationByName: things.applicationByName }),
    ...(things.applicationsWithEntry && { applicationsWithEntry: things.applicationsWithEntry }),
  };
}
