import { FIELD_MANAGERS } from '../api/names.ts';
import { CORE_RESOURCES, type ConfigMap } from '../api/resources.ts';
import { createOrUpdate, type KubeClient, type KubeObject, type Store } from '../kube/mod.ts';
import { type Clock, sleep, systemClock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';

/** What an admission policy reads from a ConfigMap, since it knows one object and the leader knows all. */
interface PolicyParameters {
  /** name of the ConfigMap */
  name: string;
  /** what is to be in it */
  data(): Readonly<Record<string, string>>;
  /** what the policy does not learn when the ConfigMap cannot be written, for the log: `how much is stored` */
  says: string;
}

export interface PolicyParametersOptions {
  client: Pick<KubeClient, 'find' | 'create' | 'replace'>;
  namespace: string;
  configMaps: Store<ConfigMap>;
  /** from which the data are: before all of them are complete the data say less than what is stored */
  stores: Iterable<Pick<Store<KubeObject>, 'whenSynced'>>;
  parameters: readonly PolicyParameters[];
  log: Log;
  clock?: Clock;
}

/** How often the data are compared with what the admission policies know, ms: policies are out of date for so long. */
const LOOK_MS = 1_000;

/**
 * Keeps the ConfigMaps that admission policies read, until the signal aborts. It writes only when the data change, or when
 * someone else has changed a ConfigMap.
 */
export async function keepPolicyParameters(options: PolicyParametersOptions, signal: AbortSignal): Promise<void> {
  const { client, namespace, configMaps, stores, parameters, log, clock = systemClock } = options;
  await Promise.all(Array.from(stores, (store) => store.whenSynced(signal))).catch(() => {});
  while (!signal.aborted) {
    for (const { name, data: dataOf, says } of parameters) {
      const ref = { namespace, name };
      const data = dataOf();
      const known = configMaps.get(namespace, name);
      if (isSame(known?.data, data)) continue;
      try {
        await createOrUpdate<ConfigMap>(
          client,
          CORE_RESOURCES.configMaps,
          ref,
          (present) => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: ref, ...present, data }),
          { signal, known, call: { fieldManager: FIELD_MANAGERS.controller } },
        );
      } catch (err) {
        if (!signal.aborted) log.warn({ err, configMap: name }, `The admission policy is not told ${says}`);
      }
    }
    await sleep(LOOK_MS, signal, clock);
  }
}

const isSame = (a: Readonly<Record<string, string>> = {}, b: Readonly<Record<string, string>>): boolean =>
  Object.keys(a).length === Object.keys(b).length && Object.entries(b).every(([key, value]) => a[key] === value);
