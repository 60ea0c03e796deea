import { join } from 'node:path';
import { silentLog } from '../../src/lib/log.ts';
import { type Agent, createAgent } from './app.ts';
import { NoArtifacts } from './content/artifacts/_no-artifacts.ts';
import type { AgentDependencies } from './dependencies.ts';
import { PLAIN_PLACES } from './domain/_places.ts';
import { parseConfig } from './domain/config.ts';
import { OPEN_POLICY } from './domain/policy.ts';
import { fetchAuthority } from './link/trust.ts';
import { filesInMemory } from './machine/_mounted-files.ts';
import { systemClock } from './machine/clock.ts';
import type { Machine } from './machine/machine.ts';
import { memoryIdentity } from './state/_identity.ts';
import { memoryRows } from './state/_rows.ts';
import { memoryDatabase } from './state/database.ts';

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
  const config = parseConfig(`diskDirectory: ${folder}\n${settings}`, join(folder, 'config.yaml'));
  return createAgent(config, testDependencies(deps));
}

/** Runs an agent; the result ends it. */
export function runAgent(agent: Agent): () => Promise<void> {
  const stop = new AbortController();
  const done = agent.run(stop.signal);
  return async () => {
    stop.abort();
    await done;
  };
}

/** Dependencies of an agent; what `chosen` lacks is in memory, refuses nothing, and does nothing. */
export function testDependencies(
  chosen: Pick<AgentDependencies, 'engine'> & Partial<AgentDependencies>,
): AgentDependencies {
  const { clock = systemClock() } = chosen;
  return {
    clock,
    random: Math.random,
    log: silentLog,
    database: memoryDatabase(),
    identity: memoryIdentity(),
    ownMicroservices: memoryRows(),
    localRegistries: memoryRows(),
    localArtifacts: { models: memoryRows(), knowledge: memoryRows() },
    localRuntimeClasses: memoryRows(),
    machine: TEST_MACHINE,
    revocations: memoryRows(),
    apiAuthority: () => undefined,
    policy: OPEN_POLICY,
    protectedPaths: [],
    places: PLAIN_PLACES,
    prepareMounts: ({ mounts }) => mounts,
    mountsInUse: () => [],
    mountedFiles: filesInMemory(clock.wall),
    artifacts: ({ observed }) => new NoArtifacts(observed),
    cdiDevices: () => [],
    ownAddresses: () => [],
    setLogging: () => {},
    fileProblems: () => [],
    isAlive: async () => false,
    restart: () => {},
    instanceChanged: () => {},
    fetchAuthority,
    async *readDevice() {},
    lookUp: async () => '',
    ssh: NO_SSH,
    ...NO_SESSION_FILES,
    ...chosen,
  };
}

/** A machine without an ssh client. */
const NO_SSH: AgentDependencies['ssh'] = {
  open: async () => 'this machine has no ssh client',
  clear: () => {},
};

/** A machine without a log of its agent, and without programs of an earlier process. */
export const NO_SESSION_FILES: Pick<AgentDependencies, 'ownLog' | 'programs'> = {
  async *ownLog() {},
  programs: { add: () => {}, remove: () => {}, left: () => [] },
};

export const TEST_MACHINE: Machine = {
  bootId: 'boot-1',
  architecture: 'amd64',
  limits: { mayRaise: true, hard: {} },
  measure: async () => ({ systemCpus: 2, memoryUsage: 1024 * 1024 }),
  disk: async () => undefined,
  diskAt: () => undefined,
  addresses: () => ({ name: 'eth0', address: '192.0.2.7' }),
  hardware: () => ({ 'board-serial': 'board 1' }),
};
