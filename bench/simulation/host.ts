import { systemClock } from '../../agent/src/machine/clock.ts';
import { serveCalls } from '../child.ts';
import { closedLoop } from '../load.ts';
import type { Calls } from './calls.ts';
import { type LinkQuality, through } from './link.ts';
import { createSimulatedNode, type SimulatedNode } from './node.ts';

/**
 * The process of many agents. It carries out calls from its IPC channel and ends with the channel; a process of its own, so
 * that its usage is separate from the controller's.
 */
const clock = systemClock();
const stop = new AbortController();
const nodes: SimulatedNode[] = [];
let link: LinkQuality = { roundTripMs: 0, loss: 0, cuts: 0 };

const calls: Calls = {
  async link({ quality }) {
    link = quality;
  },

  async provision({ url, keys, concurrency }) {
    const transport = through(() => link);
    const added = keys.map(() => createSimulatedNode({ clock, transport, controllerUrl: url }));
    const load = await closedLoop(keys.length, concurrency, async (i) => {
      const { agent } = added[i] as SimulatedNode;
      void agent.run(stop.signal);
      await persistently(() => agent.provision(keys[i] as string));
    });
    nodes.push(...added);
    return { ...load, failures: [...load.failures] };
  },

  async state() {
    const requests: Record<string, number> = {};
    for (const node of nodes) for (const [path, count] of node.requests) requests[path] = (requests[path] ?? 0) + count;
    return {
      nodes: nodes.length,
      connected: nodes.filter(({ agent }) => agent.connection.state === 'OK').length,
      running: nodes.reduce((sum, { engine }) => sum + engine.running().size, 0),
      starts: nodes.reduce((sum, { engine }) => sum + engine.history.filter((it) => it.startsWith('start ')).length, 0),
      requests,
    };
  },

  async credentials() {
    return nodes.map((node) => node.credentials());
  },

  async stored({ document, text }) {
    return nodes.map((node) => {
      const { body = '', at = 0 } = node.stored(document) ?? {};
      return body.includes(text) ? at : undefined;
    });
  },
};

/** Repeats the request with the same key, as one does on a bad network. */
async function persistently(act: () => Promise<unknown>): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await act();
      return;
    } catch (error) {
      if (attempt === 5) throw error;
    }
  }
}

serveCalls(calls);
