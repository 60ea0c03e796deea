import { CORE_RESOURCES, type ResourceOf } from '../api/resources.ts';
import type { IdentityIndex, Kind } from '../kinds/definition.ts';
import type { KindObject } from '../kinds/object.ts';
import type { ReferencedObjects } from '../rules/inputs.ts';
import { serviceAccountKind } from './accounts/kinds/service-account.ts';
import { busAccountKind } from './bus-accounts/kinds/bus-account.ts';
import { busOperatorKind } from './bus-accounts/kinds/bus-operator.ts';
import { busUserKind } from './bus-accounts/kinds/bus-user.ts';
import { busAccountRuleKind } from './bus-rules/kinds/bus-account-rule.ts';
import { busUserRuleKind } from './bus-rules/kinds/bus-user-rule.ts';
import { busHubKind } from './bus-servers/kinds/bus-hub.ts';
import { catalogItemKind } from './catalog/kinds/catalog-item.ts';
import { registryKind } from './catalog/kinds/registry.ts';
import { runtimeClassKind } from './catalog/kinds/runtime-class.ts';
import { knowledgeKind } from './content/kinds/knowledge.ts';
import { modelKind } from './content/kinds/model.ts';
import { volumeMountKind } from './content/kinds/volume-mount.ts';
import { authGroupKind } from './identity/kinds/auth-group.ts';
import { authPolicyKind } from './identity/kinds/auth-policy.ts';
import { authUserKind } from './identity/kinds/auth-user.ts';
import { edgeNodeKind } from './nodes/kinds/edge-node.ts';
import { certificateKind } from './pki/kinds/certificate.ts';
import { certificateAuthorityKind } from './pki/kinds/certificate-authority.ts';
import { routerHubKind } from './routers/kinds/router-hub.ts';
import { serviceKind } from './services/kinds/service.ts';
import { applicationKind } from './workloads/kinds/application.ts';
import { applicationTemplateKind } from './workloads/kinds/application-template.ts';
import { microserviceTemplateKind } from './workloads/kinds/microservice-template.ts';

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
  certificateAuthorityKind,
  certificateKind,
  busHubKind,
  busOperatorKind,
  busAccountKind,
  busUserKind,
  busAccountRuleKind,
  busUserRuleKind,
  routerHubKind,
  serviceKind,
  authUserKind,
  authGroupKind,
  authPolicyKind,
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

/** Kinds whose objects desired states look up, besides nodes and applications. */
export const REFERENCED_KINDS = ALL.filter((kind: Kind) => kind.lookedUp).map(
  ({ key }) => key as keyof ReferencedObjects,
);

/** Kinds that desired states are made from: their stores are sufficient to serve agents. */
export const ESSENTIAL_KINDS = ['nodes', 'applications', ...REFERENCED_KINDS] as const satisfies readonly KindKey[];

/** Kinds that desired states are made from while the message bus is on. */
export const ESSENTIAL_BUS_KINDS = ['busHubs', 'busAccounts', 'busUsers'] as const satisfies readonly KindKey[];

/** Kinds that desired states are made from while routers are on. */
export const ESSENTIAL_ROUTER_KINDS = ['routerHubs', 'services'] as const satisfies readonly KindKey[];

const resources = Object.fromEntries(ALL.map(({ key, resource }) => [key, resource])) as {
  readonly [K in KindKey]: ResourceOf<ObjectOf<K>>;
};

/** Every resource that we read or write. */
export const RESOURCES = { ...resources, ...CORE_RESOURCES } as const;
