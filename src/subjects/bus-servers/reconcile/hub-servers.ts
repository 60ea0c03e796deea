import { randomBytes } from 'node:crypto';
import { BUS_HUB_CERTIFICATES, FIELD_MANAGERS, LABELS, SYSTEM_AUTHORITY } from '../../../api/names.ts';
import type { Secret } from '../../../api/resources.ts';
import type { BusHub } from '../../../api/v3/bus-hub.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { decodeData, encodeData } from '../../../datastore/keyed-text.ts';
import { applyOwned, createOrUpdate, deleteOwned, equal, type KubeObject, type Resource } from '../../../kube/mod.ts';
import { withoutSharing } from '../../content/rules/core-objects/form.ts';
import { RESOURCES } from '../../kinds.ts';
import { keepSystemCertificate } from '../../pki/reconcile/system-certificate.ts';
import { HUB_NAMES } from '../rules/hub.ts';
import {
  HUB_KEYS,
  type HubConfig,
  type HubPlacement,
  type HubTrust,
  hubConfig,
  hubHosts,
  hubObjects,
  storeMarkIn,
} from '../rules/hub-objects.ts';

const resource = <T extends KubeObject>(group: string, plural: string, kind: string): Resource<T> => ({
  ...{ group, version: 'v1', plural, kind },
  namespaced: true,
});

interface ServiceObject extends KubeObject {
  status?: { loadBalancer?: { ingress?: readonly { ip?: string; hostname?: string }[] } };
}
interface StatefulSetObject extends KubeObject {
  spec: { volumeClaimTemplates?: unknown };
}

const CHILDREN = {
  services: resource<ServiceObject>('', 'services', 'Service'),
  disruptions: resource('policy', 'poddisruptionbudgets', 'PodDisruptionBudget'),
  network: resource('networking.k8s.io', 'networkpolicies', 'NetworkPolicy'),
  members: resource<StatefulSetObject>('apps', 'statefulsets', 'StatefulSet'),
};

/** What became of the servers of the hub. */
export type HubServers =
  /** `address`: of its Service, where the cluster gives it one */
  | { is: 'made'; address?: string }
  /** a certificate is being made */
  | { is: 'waiting' }
  /** an object of somebody else has the name */
  | { is: 'taken'; what: string }
  /** the key of the streams is lost, and members still have it: nothing of them is changed */
  | { is: 'keyless' };

/** Whether the cluster deletes an object with this very hub, and not with a former one of its name. */
const isChildOf = (hub: BusHub, object: KubeObject | undefined): boolean =>
  object?.metadata.ownerReferences?.some(({ uid }) => uid === hub.metadata.uid) === true;

const OPTIONS = { fieldManager: FIELD_MANAGERS.controller };

/** Makes the servers of the hub in the cluster: each object is a child of the BusHub and ends with it, except for volumes. */
export function createHubServers(deps: Pick<ControllerDependencies, 'client' | 'namespace' | 'stores'>) {
  const { client, namespace, stores } = deps;

  /**
   * Writes the Secret of the configuration. It has no owner: volumes outlive the hub, and nobody reads them without the key in it.
   * Resolves with the configuration. Members that run with a key that the Secret lacks get no other one: with it they do not
   * start on their volumes.
   */
  async function keepConfig(
    configOf: (storeKey: string) => HubConfig,
    { hasMembers }: { hasMembers: boolean },
    signal: AbortSignal,
  ): Promise<HubConfig | 'taken' | 'keyless'> {
    const name = HUB_NAMES.config;
    let config: HubConfig | 'taken' | 'keyless' = 'taken';
    await createOrUpdate<Secret>(
      client,
      RESOURCES.secrets,
      { namespace, name },
      (present) => {
        config = 'taken';
        if (present && present.metadata.labels?.[LABELS.bus] !== 'server') return undefined;
        const stored = decodeData(present?.data)[HUB_KEYS.store];
        config = 'keyless';
        if (!stored && hasMembers) return undefined;
        const storeKey = stored || randomBytes(32).toString('base64');
        config = configOf(storeKey);
        const data = encodeData({ ...config.files, [HUB_KEYS.store]: storeKey });
        const kept = withoutSharing(present?.metadata ?? { name, namespace });
        const metadata = { ...kept, labels: { ...kept.labels, [LABELS.bus]: 'server' } };
        const isSame = present && equal(present.data, data) && equal(present.metadata, metadata);
        return isSame ? present : { apiVersion: 'v1', kind: 'Secret', type: 'Opaque', ...present, metadata, data };
      },
      { known: stores.secrets.get(namespace, name), signal, call: OPTIONS },
    );
    return config;
  }

  return {
    /** Makes or changes the servers, which trust what `needs` has. */
    async keep(
      hub: BusHub,
      placement: HubPlacement,
      needs: Omit<HubTrust, 'storeKey'>,
      signal: AbortSignal,
    ): Promise<HubServers> {
      const apply = <T extends KubeObject>(of: Resource<T>, object: object) =>
        applyOwned(client, of, hub, object as T, { signal, ...OPTIONS });
      const certificate = (name: string, authority: string) =>
        keepSystemCertificate(deps, { owner: hub, name, authority, hosts: hubHosts(hub, placement) }, signal);
      const site = await certificate(BUS_HUB_CERTIFICATES.site, SYSTEM_AUTHORITY.busSite);
      const mqtt = await certificate(BUS_HUB_CERTIFICATES.mqtt, SYSTEM_AUTHORITY.busLocal);
      if (!site || !mqtt) return { is: 'waiting' };
      const present = await client.find(CHILDREN.members, { namespace, name: HUB_NAMES.members }, { signal });
      const former = storeMarkIn(present?.metadata.annotations);
      const config = await keepConfig(
        (storeKey) => hubConfig(hub, placement, { ...needs, storeKey }, { site, mqtt }, former),
        { hasMembers: isChildOf(hub, present) },
        signal,
      );
      if (config === 'taken') return { is: 'taken', what: `Secret ${HUB_NAMES.config}` };
      if (config === 'keyless') return { is: 'keyless' };
      const objects = hubObjects(hub, placement, config);
      let address: string | undefined;
      for (const service of objects.services) {
        const made = await apply(CHILDREN.services, service);
        if (!made) return { is: 'taken', what: `Service ${service.metadata.name}` };
        const [ingress] = made.status?.loadBalancer?.ingress ?? [];
        address ??= ingress?.hostname ?? ingress?.ip;
      }
      const { spec } = objects.members;
      // The claims of a StatefulSet that exists cannot be changed: the owner of a volume enlarges it.
      const claims = present?.spec.volumeClaimTemplates ?? spec.volumeClaimTemplates;
      const rest: readonly [Resource, typeof objects.members][] = [
        [CHILDREN.network, objects.network as typeof objects.members],
        [CHILDREN.disruptions, objects.disruptions as typeof objects.members],
        [CHILDREN.members, { ...objects.members, spec: { ...spec, volumeClaimTemplates: claims } }],
      ];
      for (const [of, object] of rest)
        if (!(await apply(of, object))) return { is: 'taken', what: `${object.kind} ${object.metadata.name}` };
      return { is: 'made', ...(address !== undefined && { address }) };
    },

    /** Ends the servers of a hub that is elsewhere now. Their volumes and the key of their streams stay. */
    async remove(hub: BusHub, signal: AbortSignal): Promise<void> {
      const { members, service, headless } = HUB_NAMES;
      const children: readonly [Resource, string][] = [
        [CHILDREN.members, members],
        [CHILDREN.disruptions, members],
        [CHILDREN.network, members],
        [CHILDREN.services, service],
        [CHILDREN.services, headless],
      ];
      for (const [of, name] of children) await deleteOwned(client, of, hub, { namespace, name }, signal);
    },
  };
}
