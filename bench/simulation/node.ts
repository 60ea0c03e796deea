import { randomUUID } from 'node:crypto';
import { testDependencies } from '../../agent/src/_agent.ts';
import { type Agent, createAgent } from '../../agent/src/app.ts';
import { parseConfig } from '../../agent/src/domain/config.ts';
import { MemoryEngine } from '../../agent/src/engines/memory/_engine.ts';
import type { Transport } from '../../agent/src/link/client.ts';
import type { Machine } from '../../agent/src/machine/machine.ts';
import { memoryIdentity } from '../../agent/src/state/_identity.ts';
import { memoryDatabase } from '../../agent/src/state/database.ts';
import type { Clock } from '../../src/lib/clock.ts';
import type { NodeCredentials } from './calls.ts';

/** A node with the real agent; only its engine, disk and network are simulated. */
export interface SimulatedNode {
  readonly agent: Agent;
  readonly engine: MemoryEngine;
  credentials(): NodeCredentials;
  /** The stored document, and when it was stored: ms since 1970, with fractions. */
  stored(name: 'registries' | 'microservices'): { body: string; at: number } | undefined;
  /** Number of requests begun, by path. */
  readonly requests: Map<string, number>;
}

export interface SimulatedNodeOptions {
  clock: Clock;
  transport: Transport;
  controllerUrl: string;
}

export function createSimulatedNode({ clock, transport, controllerUrl }: SimulatedNodeOptions): SimulatedNode {
  const identity = memoryIdentity();
  const store = memoryDatabase();
  const engine = new MemoryEngine({ anyImage: true });
  const requests = new Map<string, number>();
  const stored = new Map<string, { body: string; at: number }>();
  let have = '';
  let headers: Record<string, string> = {};
  let reported: Record<string, unknown> = {};

  const deps = testDependencies({
    clock,
    engine: () => engine,
    database: {
      ...store,
      saveResponses(changed) {
        store.saveResponses(changed);
        for (const [name, { body }] of changed)
          stored.set(name, { body, at: performance.timeOrigin + performance.now() });
      },
    },
    identity,
    machine: machine(),
    transport(request, limit) {
      const url = new URL(request.path, 'http://agent');
      requests.set(url.pathname, (requests.get(url.pathname) ?? 0) + 1);
      headers = request.headers ?? {};
      have = url.searchParams.get('have') ?? have;
      if (url.pathname === '/api/v3/agent/status') reported = { ...reported, ...JSON.parse(request.body ?? '{}') };
      return transport(request, limit);
    },
  });
  const agent = createAgent(parseConfig(`{controllerUrl: "${controllerUrl}"}`, '/simulated/config.yaml'), deps);

  return {
    agent,
    engine,
    requests,
    stored: (name) => stored.get(name),
    credentials() {
      const { node, nodeKey } = identity.load() ?? {};
      if (!node || !nodeKey) throw new Error('this node is not provisioned');
      const { authorization: _, ...others } = headers;
      return { uuid: node.uuid, nodeKey, headers: others, have, report: JSON.stringify(reported) };
    },
  };
}

/** A machine whose measurements vary as on a real machine. */
function machine(): Machine {
  let turn = 0;
  return {
    bootId: randomUUID(),
    architecture: 'amd64',
    limits: { mayRaise: true, hard: {} },
    disk: async () => undefined,
    diskAt: () => undefined,
    addresses: () => ({ name: 'eth0', address: '192.0.2.7' }),
    hardware: () => ({}),
    async measure() {
      turn++;
      return {
        systemOs: 'linux',
        systemOsVersion: 'Debian GNU/Linux 12',
        systemKernelVersion: '6.1.0',
        memoryUsage: 60_000_000 + (turn % 7) * 4096,
        cpuUsage: 0.3 + (turn % 5) / 10,
        systemCpus: 4,
        systemTotalMemory: 4_000_000_000,
        systemAvailableMemory: 3_000_000_000 - (turn % 7) * 4096,
        systemTotalCpu: 4 + (turn % 3),
        systemTotalDisk: 120_000_000_000,
        systemAvailableDisk: 60_000_000_000 - turn * 4096,
      };
    },
  };
}
