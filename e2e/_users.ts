import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import type { Kube } from '../hack/kube.ts';
import { BASE } from '../src/rest/contract/base.ts';
import type { SimulatedNode } from './_simulated-nodes.ts';
import { until } from './_stack.ts';

/** Users, who edit the microservices of nodes and make config maps over REST all the time. They repeat what was not answered. */
export interface Users {
  /** Ends their work and checks that nothing that was answered is lost, and that it all reached the agents. */
  finish(): Promise<void>;
  /** Ends their work. */
  stop(): void;
}

export interface UsersOptions {
  url: string;
  token: string;
  kube: Kube;
  namespace: string;
  nodes: readonly SimulatedNode[];
  count: number;
}

export function startUsers({ url, token, kube, namespace, nodes, count }: UsersOptions): Users {
  const ending = new AbortController();
  const { signal } = ending;
  const made = new Set<string>();
  /** microservice -> the last value that was answered */
  const configs = new Map<string, string>();

  async function work(user: number): Promise<void> {
    const mine = nodes.filter((_, index) => index % count === user);
    for (let n = 1; !signal.aborted; n++) {
      const { microservice } = mine[n % mine.length] as SimulatedNode;
      const config = JSON.stringify({ n });
      await send(url, token, 'PATCH', `/microservices/${microservice}`, { config });
      configs.set(microservice, config);
      const name = `note-${user}-${n}`;
      await send(url, token, 'POST', '/configmaps', { name, data: { n: String(n) } });
      made.add(name);
      await sleep(250, undefined, { signal }).catch(() => {});
    }
  }

  const working = Array.from({ length: count }, (_, user) => work(user).catch((error: unknown) => error));
  return {
    stop: () => ending.abort(),
    async finish() {
      ending.abort();
      expect(await Promise.all(working)).toEqual(working.map(() => undefined));
      expect(made.size).toBeGreaterThan(count * 10);
      const list = await kube.get<{ items: { metadata: { name: string } }[] }>(
        `/api/v1/namespaces/${namespace}/configmaps`,
      );
      const names = new Set(list?.items.map(({ metadata }) => metadata.name));
      expect([...made].filter((name) => !names.has(name))).toEqual([]);
      const hasLast = ({ agent, microservice }: SimulatedNode) =>
        agent.view(microservice)?.config === configs.get(microservice);
      await until('the last values to be at their agents', async () => nodes.every(hasLast), { timeoutMs: 120_000 });
    },
  };
}

/** A request that is repeated until it is answered. */
export async function send(url: string, token: string, method: string, path: string, body: object): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    const response = await fetch(`${url}${BASE}${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    }).catch(() => undefined);
    const text = await response?.text().catch(() => undefined);
    if (response?.ok && text !== undefined) return;
    // A request whose response was lost may have been carried out.
    if (method === 'POST' && attempt > 1 && response?.status === 409) return;
    if (response && response.status !== 503) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    await sleep(200);
  }
}
