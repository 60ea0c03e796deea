import { LABELS } from '../api/names.ts';
import type { NativeRole, NativeRoleBinding } from '../api/rbac.ts';
import type { ConfigMap, Secret } from '../api/resources.ts';
import { type Kind, nameIn, referenceKey } from '../kinds/definition.ts';
import type { KindObject } from '../kinds/object.ts';
import { bindingName, isV3Binding } from '../subjects/access/rules/v3-binding.ts';
import { isV3Role } from '../subjects/access/rules/v3-role.ts';
import { BUS_KEYS } from '../subjects/bus-accounts/rules/secret.ts';
import { isShareable, labelledNumber, textNameOf } from '../subjects/content/rules/core-objects/form.ts';
import { provisioningKeyOf } from './provisioning-key.ts';

type Indexes = Record<string, (object: KindObject) => Iterable<string>>;

/** The indexes of a kind: v3 name, identity, and those of its definition. */
export function indexesOf(kind: Kind): Indexes {
  const { identity, references, links, indexes, isOfSystem = isMarkedOfSystem } = kind;
  const { uuid, id } = identity;
  return {
    name: (object) => [nameIn(kind, object)],
    ...(uuid && { uuid: (object) => [uuid(object)] }),
    ...(id && {
      id(object) {
        const number = id(object);
        return number === undefined ? [] : [String(number)];
      },
    }),
    ...(references && {
      ref: (object) => Array.from(references(object), referenceKey),
      /** references of the system's own objects, and of those that the reconciler marked as used by the system */
      systemRef: (object) => (isOfSystem(object) ? Array.from(references(object), referenceKey) : []),
    }),
    // names and uuids of the nodes that an object is linked to
    ...(links && { linked: ({ spec }) => spec.nodes ?? [] }),
    ...indexes,
  };
}

const isMarkedOfSystem = ({ metadata }: KindObject) => metadata.labels?.[LABELS.usedBySystem] === 'true';

/** The indexes of core objects of both kinds. */
const COMMON_INDEXES = {
  name: (object: Secret | ConfigMap) => [textNameOf(object)],
  /** `true`: all that the v3 API has */
  shareable: (object: Secret | ConfigMap) => (isShareable(object) ? ['true'] : []),
  /** numbers of those that the v3 API has */
  id(object: Secret | ConfigMap) {
    const id = isShareable(object) ? labelledNumber(object) : undefined;
    return id === undefined ? [] : [String(id)];
  },
} as const;

/** The indexes of core objects. */
export const CORE_INDEXES = {
  secrets: {
    ...COMMON_INDEXES,
    /** uuid of the node that a provisioning key is for */
    provisioningKeyOf,
    /** names of the nodes whose platform it is for */
    platformOf: ({ metadata: { labels, ownerReferences = [] } }: Secret) =>
      labels?.[LABELS.platform] ? ownerReferences.map(({ name }) => name) : [],
    /** what a Secret of the message bus is of: `operator`, `account`, `user`, `server` */
    bus: ({ metadata: { labels } }: Secret) => (labels?.[LABELS.bus] ? [labels[LABELS.bus] as string] : []),
    /** `true`: the last tokens of accounts of the message bus that ended */
    endedBusAccount: ({ metadata: { labels }, data }: Secret) =>
      labels?.[LABELS.bus] === 'account' && data && BUS_KEYS.ended in data ? ['true'] : [],
  },
  configMaps: COMMON_INDEXES,
} as const;

/** The indexes of Roles and RoleBindings: those that the v3 API has, by their v3 names. */
export const RBAC_INDEXES = {
  roles: { name: (role: NativeRole) => (isV3Role(role) ? [role.metadata.name] : []) },
  roleBindings: {
    name: (binding: NativeRoleBinding) => (isV3Binding(binding) ? [bindingName(binding)] : []),
    /** name of the role that it binds */
    role: (binding: NativeRoleBinding) => (isV3Binding(binding) ? [binding.roleRef.name] : []),
  },
} as const;
