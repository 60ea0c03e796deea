import { CORE_RESOURCES, type ResourceOf } from '../api/resources.ts';
import type { ReferencedObjects } from '../domain/inputs.ts';
import { applicationKind } from './application.ts';
import { applicationTemplateKind } from './application-template.ts';
import { catalogItemKind } from './catalog-item.ts';
import type { IdentityIndex, Kind, KindObject } from './definition.ts';
import { edgeNodeKind } from './edge-node.ts';
import { knowledgeKind } from './knowledge.ts';
import { microserviceTemplateKind } from './microservice-template.ts';
import { modelKind } from './model.ts';
import { registryKind } from './registry.ts';
import { runtimeClassKind } from './runtime-class.ts';
import { serviceAccountKind } from './service-account.ts';
import { volumeMountKind } from './volume-mount.ts';

/** Every kind. The order is that of generated files. */
const ALL = [
  applicationKind,
  catalogItemKind,
  edgeNodeKind,
  registryKind,
  runtimeClassKind,
  modelKind,
  knowledgeKind,
  serviceAccountKind,
  applicationTemplateKind,
  microserviceTemplateKind,
  volumeMountKind,
] as const;

type All = (typeof ALL)[number];
export type KindKey = All['key'];
type KindOf<K extends KindKey> = Extract<All, { key: K }>;
/** The type of the objects of a kind. */
export type ObjectOf<K extends KindKey> = KindOf<K> extends Kind<infer T, string, string> ? T : never;
/** Names of the indexes of a kind. */
export type IndexOf<K extends KindKey> = IdentityIndex | (keyof KindOf<K>['indexes'] & string);

/** Kinds by key. What is made from kinds takes them as a parameter, so that tests can add one. */
export type Kinds = Readonly<Record<string, Kind>>;

const byKey = (kinds: readonly Kind<KindObject, string, string>[]): Kinds =>
  Object.fromEntries(kinds.map((kind) => [kind.key, kind]));

export const KINDS = byKey(ALL as readonly Kind[]) as { readonly [K in KindKey]: KindOf<K> };

/**
 * Kinds that desired states are made from: their stores are sufficient to serve agents. A new one is added at the end,
 * since agents carry a resource version for each (src/agents/pipeline/not-older-than.ts).
 */
export const ESSENTIAL_KINDS = [
  'nodes',
  'applications',
  'registries',
  'runtimeClasses',
  'models',
  'knowledge',
  'serviceAccounts',
  'catalogItems',
  'volumeMounts',
] as const satisfies readonly KindKey[];

/** Kinds whose objects desired states look up, besides nodes and applications. */
export const REFERENCED_KINDS = [
  'registries',
  'runtimeClasses',
  'models',
  'knowledge',
  'serviceAccounts',
  'catalogItems',
  'volumeMounts',
] as const satisfies readonly (keyof ReferencedObjects & KindKey)[];

const resources = Object.fromEntries(ALL.map(({ key, resource }) => [key, resource])) as {
  readonly [K in KindKey]: ResourceOf<ObjectOf<K>>;
};

/** Every resource that we read or write. */
export const RESOURCES = { ...resources, ...CORE_RESOURCES } as const;

export {
  type FindReferenced,
  inUseError,
  type Kind,
  type KindObject,
  NAMED_USERS,
  nameIn,
  referenceKey,
  refsTo,
  type Users,
  usersOf,
} from './definition.ts';
export type { Operation, Write } from './rest.ts';
