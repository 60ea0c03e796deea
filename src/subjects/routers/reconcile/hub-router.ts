import { FIELD_MANAGERS, ROUTER_HUB_CERTIFICATES, SYSTEM_AUTHORITY } from '../../../api/names.ts';
import type { ConfigMap } from '../../../api/resources.ts';
import type { RouterHub } from '../../../api/v3/index.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import {
  applyOwned,
  createOrUpdate,
  deleteOwned,
  equal,
  type KubeObject,
  ownerReference,
  type Resource,
} from '../../../kube/mod.ts';
import { ROUTER_FILES, type RouterPair } from '../../../wire/router.ts';
import { RESOURCES } from '../../kinds.ts';
import { keepSystemCertificate } from '../../pki/reconcile/system-certificate.ts';
import { ROUTER_HUB_NAMES, type RouterHubPlacement, routerHubHosts, routerHubObjects } from '../rules/hub-objects.ts';
import { mergePairs } from '../rules/merge.ts';

const resource = <T extends KubeObject>(group: string, plural: string, kind: string): Resource<T> => ({
  ...{ group, version: 'v1', plural, kind },
  namespaced: true,
});

interface ServiceObject extends KubeObject {
  status?: { loadBalancer?: { ingress?: readonly { ip?: string; hostname?: string }[] } };
}

const CHILDREN = {
  service: resource<ServiceObject>('', 'services', 'Service'),
  network: resource('networking.k8s.io', 'networkpolicies', 'NetworkPolicy'),
  workload: resource('apps', 'deployments', 'Deployment'),
};

/** What became of the default router in the cluster. */
export type HubRouter =
  /**
   * `address`: of its Service, where the cluster gives it one; `leftOut`: pairs of others that it does not have, each with why; `isWritten`: its
   * configuration was another one
   */
  | { is: 'made'; address?: string; leftOut: readonly string[]; isWritten: boolean }
  /** a certificate is being made */
  | { is: 'waiting' }
  /** an object of somebody else has the name */
  | { is: 'taken'; what: string };

const OPTIONS = { fieldManager: FIELD_MANAGERS.controller };

/** Makes the default router in the cluster: each object is a child of the RouterHub and ends with it. */
export function createHubRouter(deps: Pick<ControllerDependencies, 'client' | 'namespace' | 'stores'>) {
  const { client, namespace, stores } = deps;
  /** whether this process has ended the Service of an installation that dialed its services */
  let isPodEnded = false;

  /** Resolves with the texts of the certificate; undefined while it is being made. */
  const keepCertificate = (hub: RouterHub, which: keyof typeof ROUTER_HUB_CERTIFICATES, signal: AbortSignal) =>
    keepSystemCertificate(
      deps,
      {
        owner: hub,
        name: ROUTER_HUB_CERTIFICATES[which],
        authority: which === 'site' ? SYSTEM_AUTHORITY.routerSite : SYSTEM_AUTHORITY.routerLocal,
        hosts: which === 'agent' ? ['localhost'] : routerHubHosts(hub, namespace),
      },
      signal,
    );

  /**
   * Writes the ConfigMap with our pairs in place of our former ones; the pairs of others stay. Resolves with the pairs that it lacks; undefined when
   * something else has the name.
   */
  async function keepConfig(
    hub: RouterHub,
    own: readonly RouterPair[],
    signal: AbortSignal,
  ): Promise<{ leftOut: readonly string[]; isWritten: boolean } | undefined> {
    const name = ROUTER_HUB_NAMES.config;
    let kept: { leftOut: readonly string[]; isWritten: boolean } | undefined;
    await createOrUpdate<ConfigMap>(
      client,
      RESOURCES.configMaps,
      { namespace, name },
      (present) => {
        kept = undefined;
        const owners = present?.metadata.ownerReferences ?? [];
        if (present && !owners.some((one) => one.kind === hub.kind && one.name === hub.metadata.name)) return undefined;
        const merged = mergePairs(present?.data?.[ROUTER_FILES.config], own);
        const data = { ...present?.data, [ROUTER_FILES.config]: merged.text };
        const metadata = { ...(present?.metadata ?? { name, namespace }), ownerReferences: [ownerReference(hub)] };
        const isSame = present && equal(present.data, data) && equal(present.metadata, metadata);
        kept = { leftOut: merged.leftOut, isWritten: !isSame };
        if (isSame) return present;
        return { apiVersion: 'v1', kind: 'ConfigMap', ...present, metadata, data };
      },
      { known: stores.configMaps.get(namespace, name), signal, call: OPTIONS },
    );
    return kept;
  }

  return {
    /** The certificate by which the controller may command a default router, in the cluster or elsewhere. */
    keepAgentCertificate: (hub: RouterHub, signal: AbortSignal) => keepCertificate(hub, 'agent', signal),

    /** Makes or changes the router, which has these pairs. */
    async keep(
      hub: RouterHub,
      placement: RouterHubPlacement,
      own: readonly RouterPair[],
      signal: AbortSignal,
    ): Promise<HubRouter> {
      const apply = <T extends KubeObject>(of: Resource<T>, object: object) =>
        applyOwned(client, of, hub, object as T, { signal, ...OPTIONS });
      const site = await keepCertificate(hub, 'site', signal);
      const local = await keepCertificate(hub, 'local', signal);
      const config = await keepConfig(hub, own, signal);
      if (!config) return { is: 'taken', what: `ConfigMap ${ROUTER_HUB_NAMES.config}` };
      if (!site || !local) return { is: 'waiting' };
      const { service, pod, network, workload } = routerHubObjects(hub, placement);
      const made = await apply(CHILDREN.service, service);
      if (!made) return { is: 'taken', what: `Service ${service.metadata.name}` };
      const rest = [
        ...(placement.isDialed ? ([[CHILDREN.service, pod]] as const) : []),
        [CHILDREN.network, network],
        [CHILDREN.workload, workload],
      ] as const;
      for (const [of, object] of rest)
        if (!(await apply(of, object))) return { is: 'taken', what: `${object.kind} ${object.metadata.name}` };
      if (!placement.isDialed && !isPodEnded) {
        await deleteOwned(client, CHILDREN.service, hub, { namespace, name: pod.metadata.name }, signal);
        isPodEnded = true;
      }
      const [ingress] = made.status?.loadBalancer?.ingress ?? [];
      const address = ingress?.hostname ?? ingress?.ip;
      return { is: 'made', ...config, ...(address !== undefined && { address }) };
    },

    /** Ends a router whose place another one takes, which is elsewhere. */
    async remove(hub: RouterHub, signal: AbortSignal): Promise<void> {
      const { workload, service, pod } = ROUTER_HUB_NAMES;
      const children: readonly [Resource, string][] = [
        [CHILDREN.workload, workload],
        [CHILDREN.network, workload],
        [CHILDREN.service, service],
        [CHILDREN.service, pod],
      ];
      for (const [of, name] of children) await deleteOwned(client, of, hub, { namespace, name }, signal);
    },
  };
}
