import type { Example } from '../../../testing/example.ts';
import type { EdgeNode, ObservedMicroservice } from '../../api/v3/index.ts';
import type { DesiredEntry, Observation } from '../../rules/inputs.ts';
import type { MicroserviceStatus } from '../../wire/agent.ts';

export const NODE_UUID = '11111111-1111-4111-8111-111111111111';

/** The time that tests count from. */
export const T0 = Date.parse('2026-01-01T12:00:00.000Z');
export const SECOND = 1000;
export const MINUTE = 60 * SECOND;
export const at = (ms: number) => new Date(ms).toISOString();

/** A node for amd64 with no other member than are given. */
export function makeNode({
  name = 'gw-1',
  uuid = NODE_UUID,
  spec = {},
  status,
  ...metadata
}: {
  name?: string;
  uuid?: string;
  spec?: Partial<EdgeNode['spec']>;
  status?: Partial<NonNullable<EdgeNode['status']>>;
} & Partial<EdgeNode['metadata']> = {}): EdgeNode {
  return {
    apiVersion: 'skerry.dev/v3',
    kind: 'EdgeNode',
    metadata: {
      name,
      namespace: 'skerry',
      uid: uuid,
      creationTimestamp: '2026-01-01T00:00:00Z',
      generation: 1,
      ...metadata,
    },
    spec: { archId: 1, ...spec },
    ...(status && { status: { observedGeneration: 1, ...status } }),
  };
}

/** An observation of a third-party agent at T0; `agent` makes it one of ours. */
export const makeObservation = (overrides: Partial<Observation> = {}): Observation => ({
  report: { daemonStatus: 'RUNNING' },
  reportedAt: T0,
  contactAt: T0,
  waitSeconds: 0,
  instances: {},
  sentRevisions: {},
  ...overrides,
});

export const makeItem = (overrides: Partial<MicroserviceStatus> = {}): MicroserviceStatus => ({
  id: 'ms-1',
  status: 'RUNNING',
  containerId: 'c-1',
  startTime: T0 - MINUTE,
  ...overrides,
});

export const makeObserved = (overrides: Partial<ObservedMicroservice> = {}): ObservedMicroservice => ({
  uuid: 'ms-1',
  application: 'plant',
  name: 'reader',
  state: 'RUNNING',
  containerId: 'c-1',
  startTime: T0 - MINUTE,
  ...overrides,
});

export const makeDesired = (...entries: (Partial<DesiredEntry> & { uuid?: string })[]) => ({
  microservices: [],
  entries: new Map(
    entries.map(({ uuid = 'ms-1', ...entry }) => [
      uuid,
      { owner: 'plant-uid', application: 'plant', name: 'reader', shouldRun: true, ...entry },
    ]),
  ),
});

export const NODES = {
  nodes: {
    names: ['gw-a', 'Gate B'],
    rest: { path: '/node', listPath: '/node-list', list: 'fogs' },
    spec: ({ text }) => ({ description: text }),
    edits: [{ body: (n) => ({ location: `hall ${n}` }) }, { body: (n) => ({ diskLimit: n }) }],
    kubectl: (n) => ({ spec: { timeZone: `Etc/GMT+${n}` } }),
  },
} satisfies Record<string, Example>;
