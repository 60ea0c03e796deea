import { join } from 'node:path';
import { silentLog } from '../../src/lib/log.ts';
import { type Agent, type AgentDependencies, createAgent } from './app.ts';
import { parseConfig } from './domain/config.ts';
import { memoryDatabase } from './state/database.ts';
import { memoryIdentity } from './state/identity.ts';
import { systemClock } from './system/clock.ts';
import type { Machine } from './system/machine.ts';

export interface TestAgentOptions
  extends Partial<Omit<AgentDependencies, 'engine'>>,
    Pick<AgentDependencies, 'engine'> {
  /** the directory that the agent's paths name */
  folder: string;
  /** further settings, as lines of the file */
  settings?: string;
}

/** An agent in this process. Dependencies that the test does not choose are in memory, on a machine that is always the same. */
export function createTestAgent({ folder, settings = '', ...deps }: TestAgentOptions): Agent {
  return createAgent(parseConfig(`diskDirectory: ${folder}\n${settings}`, join(folder, 'config.yaml')), {
    clock: systemClock(),
    random: Math.random,
    log: silentLog,
    database: memoryDatabase(),
    identity: memoryIdentity(),
    machine: TEST_MACHINE,
    ...deps,
  });
}

const TEST_MACHINE: Machine = {
  bootId: 'boot-1',
  architecture: 'amd64',
  limits: { mayRaise: true, hard: {} },
  measure: async () => ({ systemCpus: 2, memoryUsage: 1024 * 1024 }),
  disk: async () => undefined,
  addresses: () => ({ name: 'eth0', address: '192.0.2.7' }),
};
