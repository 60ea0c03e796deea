import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { createMemorySegments } from '../datastore/_audit.ts';
import { createAuditLog } from '../datastore/audit-log.ts';
import { decodeData } from '../datastore/keyed-text.ts';
import { createLookups } from '../datastore/lookups.ts';
import { byKey, createStores, type Stores, storeOf } from '../datastore/stores.ts';
import { trackUsage } from '../datastore/usage.ts';
import { createReferences } from '../datastore/use.ts';
import { ApiError } from '../kube/api-error.ts';
import type { KubeObject } from '../kube/object.ts';
import type { MutableStore } from '../kube/store.ts';
import type { Replicas } from '../replicas/replicas.ts';
import { budgetsOf, DEFAULT_BUDGETS } from '../rules/budget.ts';
import { nodeUuid } from '../rules/identity.ts';
import type { Observation } from '../rules/inputs.ts';
import type { Replica } from '../rules/replica.ts';
import { DEFAULT_GROUPS_PREFIX } from '../subjects/access/rules/names.ts';
import { KINDS } from '../subjects/kinds.ts';
import { createRenderer } from '../templates/renderer.ts';
import { tokensOfRoles } from './_rules.ts';
import { createBusSecretReader } from './adapters/bus-secrets.ts';
import { createConfigMaps, createSecrets } from './adapters/core-objects.ts';
import { untilGone } from './adapters/gone.ts';
import type { BusSecretReader, KindsObjects, Objects, RestDependencies } from './contract/dependencies.ts';
import { createWriteBudgets } from './objects/budgets.ts';

const NAMESPACE = 'test';

/** Dependencies in memory: objects with resource versions and conflicts, tokens `admin`, `sre`, `developer` and `viewer`. */
export interface MemoryDependencies extends RestDependencies {
  stores: Stores;
  /** the next resource version */
  version: { next: number };
  passwords: Map<string, string>;
  keys: { uuid: string; key: string; expiresAt: number }[];
  observed: Map<string, Observation>;
}

export function createMemoryDependencies(overrides: Partial<RestDependencies> = {}): MemoryDependencies {
  const { kinds = KINDS } = overrides;
  const stores = createStores({ namespace: NAMESPACE, kinds });
  const version = { next: 1 };
  const ids = new Map<string, number>();
  const passwords = new Map<string, string>();
  const keys: MemoryDependencies['keys'] = [];
  const observed = new Map<string, Observation>();
  return {
    stores,
    version,
    passwords,
    keys,
    observed,
    ...(Object.fromEntries(
      Object.entries(kinds).map(([key, kind]) => [key, memoryObjects(storeOf(stores, kind), version)]),
    ) as KindsObjects),
    kinds,
    references: createReferences(stores, kinds),
    secrets: createSecrets(memoryObjects(stores.secrets, version)),
    configMaps: createConfigMaps(memoryObjects(stores.configMaps, version)),
    roles: memoryObjects(stores.roles, version),
    roleBindings: memoryObjects(stores.roleBindings, version),
    subjects: { prefix: DEFAULT_GROUPS_PREFIX, namespace: NAMESPACE },
    lookups: createLookups(stores),
    registryPasswords: {
      read: async (registry) => passwords.get(registry.metadata.name),
      write: async ({ metadata: { name } }, password) => {
        passwords.set(name, password);
        return { name: `${name}-password`, key: 'password' };
      },
      remove: async (registry) => void passwords.delete(registry.metadata.name),
    },
    ownedSecrets: {
      read: async (_owner, name) => {
        const secret = stores.secrets.get(NAMESPACE, name);
        return secret && decodeData(secret.data);
      },
    },
    busSecrets: withoutLeader(createBusSecretReader(stores.secrets, NAMESPACE)),
    provisioningKeys: {
      issue: async (node, { key, expiresAt }) => void keys.push({ uuid: nodeUuid(node), key, expiresAt }),
    },
    provisioning: () => undefined,
    ids: {
      async next(kind) {
        const id = ids.get(kind) ?? 10;
        ids.set(kind, id + 1);
        return id;
      },
    },
    observations: { of: async () => observed, listeningSince: () => 0 },
    replicas: memoryReplicas(),
    budgets: createWriteBudgets({ usage: trackUsage(byKey(stores)), budgets: budgetsOf(DEFAULT_BUDGETS) }),
    audit: createAuditLog({ segments: createMemorySegments().segments }),
    readiness: { check: async () => undefined },
    templates: createRenderer(),
    ...tokensOfRoles(kinds),
    self: { version: '0.0.0-test', caCert: () => '', controlPlane: 'kubernetes' },
    clock: Date.now,
    ...overrides,
  };
}

/** Nobody signs here. */
const withoutLeader = (reader: BusSecretReader): BusSecretReader => ({
  ...reader,
  whenSigned: async (of, name) => reader.read(of, name),
});

function memoryReplicas(): Replicas {
  const at = new Date(0).toISOString();
  const times = { lastHeartbeat: at, createdAt: at, updatedAt: at };
  const replicas = new Map<string, Replica>(
    [true, false].map((isActive) => {
      const uuid = isActive ? 'active' : 'former';
      return [uuid, { uuid, host: '10.0.0.1', processId: 1, isActive, ...times }];
    }),
  );
  const change = (uuid: string, fields: Partial<Replica>) => {
    const known = replicas.get(uuid);
    if (known) replicas.set(uuid, { ...known, ...fields });
    return replicas.get(uuid);
  };
  return {
    list: async () => [...replicas.values()],
    find: async (uuid) => replicas.get(uuid),
    setHost: async (uuid, host) => change(uuid, { host }),
    deactivate: async (uuid) => change(uuid, { isActive: false }) !== undefined,
  };
}

function memoryObjects<T extends KubeObject, I extends string>(
  store: MutableStore<T>,
  version: { next: number },
): Objects<T, I> {
  store.swap([], '0');
  const stored = (object: T): T => {
    const copy = structuredClone(object);
    copy.metadata.resourceVersion = String(version.next++);
    store.set(copy);
    return store.get(NAMESPACE, copy.metadata.name) as T;
  };
  return {
    get synced() {
      return store.synced;
    },
    list: () => store.list(),
    find: (index, key) => store.byIndex(index, key),
    read: async (name) => store.get(NAMESPACE, name),
    select: async (field, value) =>
      store.list().filter((object) => (object.spec as Record<string, unknown> | undefined)?.[field] === value),
    refresh: async () => {},
    async create(object) {
      const { name } = object.metadata;
      if (store.get(NAMESPACE, name)) throw new ApiError(409, { reason: 'AlreadyExists' }, 'create');
      const metadata = {
        ...object.metadata,
        namespace: NAMESPACE,
        uid: randomUUID(),
        creationTimestamp: new Date().toISOString(),
        generation: 1,
      };
      return stored({ ...object, metadata });
    },
    async replace(object) {
      const known = store.get(NAMESPACE, object.metadata.name);
      if (!known) throw new ApiError(404, { reason: 'NotFound' }, 'update');
      if (known.metadata.resourceVersion !== object.metadata.resourceVersion)
        throw new ApiError(409, { reason: 'Conflict' }, 'update');
      // The API server writes nothing when nothing changes.
      return isDeepStrictEqual(known, object) ? known : stored(object);
    },
    async delete(object) {
      const known = store.get(NAMESPACE, object.metadata.name);
      if (known?.metadata.uid !== object.metadata.uid || !known) return;
      if (known.metadata.finalizers?.length) {
        stored({ ...known, metadata: { ...known.metadata, deletionTimestamp: new Date().toISOString() } });
        return;
      }
      store.remove({ ...known, metadata: { ...known.metadata, resourceVersion: String(version.next++) } });
    },
    untilGone: (object, ms, signal) => untilGone(store, { ...object.metadata, namespace: NAMESPACE }, ms, signal),
  };
}
