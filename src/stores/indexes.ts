import type { ConfigMap, Secret } from '../api/resources.ts';
import { v3Name } from '../domain/names.ts';
import { type Kind, type KindObject, referenceKey } from '../kinds/index.ts';
import { provisioningKeyOf } from './provisioning-key.ts';
import { textNameOf } from './references.ts';

type Indexes = Record<string, (object: KindObject) => Iterable<string>>;

/** The indexes of a kind: v3 name, identity, and those of its definition. */
export function indexesOf({ identity: { uuid, id }, references, links, indexes }: Kind): Indexes {
  return {
    name: (object) => [v3Name(object)],
    ...(uuid && { uuid: (object) => [uuid(object)] }),
    ...(id && {
      id(object) {
        const number = id(object);
        return number === undefined ? [] : [String(number)];
      },
    }),
    ...(references && { ref: (object) => Array.from(references(object), referenceKey) }),
    // names and uuids of the nodes that an object is linked to
    ...(links && { linked: ({ spec }) => spec.nodes ?? [] }),
    ...indexes,
  };
}

/** The indexes of core objects. */
export const CORE_INDEXES = {
  secrets: {
    name: (secret: Secret) => [textNameOf(secret)],
    /** uuid of the node that a provisioning key is for */
    provisioningKeyOf,
  },
  configMaps: { name: (configMap: ConfigMap) => [textNameOf(configMap)] },
} as const;
