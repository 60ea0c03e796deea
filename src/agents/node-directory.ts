import type { KeyObject } from 'node:crypto';
import { LABELS } from '../api/names.ts';
import type { EdgeNode } from '../api/v3/index.ts';
import { RESOURCES } from '../kinds/index.ts';
import type { Clock, KubeClient } from '../kube/mod.ts';
import { oldest } from '../stores/oldest.ts';
import type { AgentStores } from './dependencies.ts';
import { createKeyReader, nodeKeyName } from './node-key.ts';

/** Nodes and their keys from the stores, and from the API server when a store may be late. */
export interface NodeDirectory {
  node(uuid: string): EdgeNode | undefined;
  keyOf(node: EdgeNode, uuid: string): KeyObject | undefined;
  /**
   * Updates one node in the stores. `done` when the stores are at least as new as the last second; `busy` when there are too
   * many requests for the API server. Rejects when the API server cannot be reached.
   */
  refresh(uuid: string): Promise<'done' | 'busy'>;
}

export interface NodeDirectoryOptions {
  stores: Pick<AgentStores, 'nodes' | 'secrets'>;
  client: Pick<KubeClient, 'list' | 'find'>;
  namespace: string;
  clock: Clock;
  /** reads from the API server per second, for all nodes */
  looksPerSecond?: number;
}

const FRESH_MS = 1_000;
const LOOK_MS = 5_000;

export function createNodeDirectory(options: NodeDirectoryOptions): NodeDirectory {
  const { stores, client, namespace, clock, looksPerSecond = 20 } = options;
  const readKey = createKeyReader();
  const looks = new Map<string, { at: number; running: Promise<void> | undefined }>();
  let windowFrom = Number.NEGATIVE_INFINITY;
  let inWindow = 0;

  async function look(uuid: string): Promise<void> {
    const [found, key] = await Promise.all([
      client.list(RESOURCES.nodes, { namespace, labelSelector: `${LABELS.uuid}=${uuid}`, timeoutMs: LOOK_MS }),
      client.find(RESOURCES.secrets, { namespace, name: nodeKeyName(uuid) }, { timeoutMs: LOOK_MS }),
    ]);
    for (const node of found.items) stores.nodes.observe(node);
    if (key) stores.secrets.observe(key);
  }

  function forgetOld(now: number) {
    if (looks.size < 1_000) return;
    for (const [uuid, { at, running }] of looks) if (!running && at + FRESH_MS < now) looks.delete(uuid);
  }

  return {
    node: (uuid) => oldest(stores.nodes.byIndex('uuid', uuid)),
    keyOf(node, uuid) {
      const secret = stores.secrets.get(namespace, nodeKeyName(uuid));
      return secret && readKey(secret, node);
    },
    async refresh(uuid) {
      const now = clock.now();
      const last = looks.get(uuid);
      if (last?.running) return last.running.then(() => 'done');
      if (last && last.at + FRESH_MS > now) return 'done';
      if (windowFrom + 1_000 <= now) [windowFrom, inWindow] = [now, 0];
      if (inWindow >= looksPerSecond) return 'busy';
      inWindow++;
      forgetOld(now);
      const entry = { at: now, running: undefined as Promise<void> | undefined };
      entry.running = look(uuid).finally(() => {
        entry.running = undefined;
      });
      looks.set(uuid, entry);
      try {
        await entry.running;
      } catch (error) {
        looks.delete(uuid);
        throw error;
      }
      return 'done';
    },
  };
}
