import type { KeyObject } from 'node:crypto';
import { LABELS } from '../../api/names.ts';
import type { EdgeNode } from '../../api/v3/index.ts';
import type { ReadStores } from '../../datastore/stores.ts';
import type { KubeClient } from '../../kube/mod.ts';
import type { Clock } from '../../lib/clock.ts';
import { createTokenBuckets } from '../../lib/token-bucket.ts';
import { holder } from '../../rules/precedence.ts';
import { RESOURCES } from '../../subjects/kinds.ts';
import { createKeyReader, nodeKeyName } from './node-key.ts';

/** Nodes and their keys from the stores, and from the API server when a store may be late. */
export interface NodeDirectory {
  node(uuid: string): EdgeNode | undefined;
  keyOf(node: EdgeNode, uuid: string): KeyObject | undefined;
  /**
   * Updates one node in the stores: `done` once they are at least as new as the call; `busy`, without a look-up, when too many
   * others wait for one. Rejects when the API server cannot be reached.
   */
  refresh(uuid: string): Promise<'done' | 'busy'>;
}

export interface NodeDirectoryOptions {
  stores: Pick<ReadStores, 'nodes' | 'secrets'>;
  client: Pick<KubeClient, 'list' | 'find'>;
  namespace: string;
  clock: Clock;
}

/**
 * Look-ups at the API server, which also a caller without any credential can cause: one list for all who wait, a few at once and
 * then one a second. A list is for so many nodes, most of which may be unknown; the other places are for known nodes, whose
 * key may be late.
 */
export const LOOKS = { perSecond: 1, burst: 5, nodes: 50, unknown: 30 } as const;
const LOOK_MS = 5_000;

interface Look {
  uuids: Set<string>;
  unknown: number;
  done: Promise<'done'>;
}

export function createNodeDirectory({ stores, client, namespace, clock }: NodeDirectoryOptions): NodeDirectory {
  const readKey = createKeyReader();
  const looks = createTokenBuckets({ clock, ...LOOKS });
  /** has not begun yet */
  let next: Look | undefined;

  const nodeBy = (uuid: string) => holder(stores.nodes.byIndex('uuid', uuid), { uuid });

  async function look(uuids: ReadonlySet<string>): Promise<void> {
    const labelSelector = `${LABELS.uuid} in (${[...uuids].join(',')})`;
    const { items } = await client.list(RESOURCES.nodes, { namespace, labelSelector, timeoutMs: LOOK_MS });
    for (const node of items) stores.nodes.observe(node);
    // A uuid without a node has no key, so that guessed ones cost nothing more.
    const known = [...uuids].filter(nodeBy);
    const find = (uuid: string) =>
      client.find(RESOURCES.secrets, { namespace, name: nodeKeyName(uuid) }, { timeoutMs: LOOK_MS });
    for (const key of await Promise.all(known.map(find))) if (key) stores.secrets.observe(key);
  }

  function open(): Look {
    const uuids = new Set<string>();
    const waitMs = looks.waitMs('');
    const turn = waitMs > 0 && new Promise<void>((resolve) => clock.after(waitMs, resolve));
    const done = Promise.resolve(turn).then(async () => {
      next = undefined;
      looks.take('');
      await look(uuids);
      return 'done' as const;
    });
    return { uuids, unknown: 0, done };
  }

  return {
    node: nodeBy,
    keyOf(node, uuid) {
      const secret = stores.secrets.get(namespace, nodeKeyName(uuid));
      return secret && readKey(secret, node);
    },
    async refresh(uuid) {
      next ??= open();
      const { uuids, done } = next;
      if (uuids.has(uuid)) return done;
      const isKnown = nodeBy(uuid) !== undefined;
      if (uuids.size >= LOOKS.nodes || (!isKnown && next.unknown >= LOOKS.unknown)) return 'busy';
      uuids.add(uuid);
      if (!isKnown) next.unknown++;
      return done;
    },
  };
}
