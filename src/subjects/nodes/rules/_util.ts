import { API_VERSION } from '../../../api/names.ts';
import type { EdgeNode, EdgeNodeSpec, EdgeNodeStatus, ObservedMicroservice } from '../../../api/v3/index.ts';
import type { DesiredEntry, Observation } from '../../../rules/inputs.ts';
import type { MicroserviceStatus } from '../../../wire/agent.ts';

/** The time that tests count from. */
export const T0 = Date.parse('2026-01-01T12:00:00.000Z');
export const SECOND = 1000;
export const MINUTE = 60 * SECOND;
export const at = (ms: number) => new Date(ms).toISOString();

interface NodeOverrides {
  spec?: EdgeNodeSpec;
  status?: Partial<EdgeNodeStatus>;
  metadata?: Partial<EdgeNode['metadata']>;
}

export const makeNode = ({ spec, status, metadata }: NodeOverrides = {}): EdgeNode => ({
  apiVersion: API_VERSION,
  kind: 'EdgeNode',
  metadata: { name: 'gw-1', uid: 'node-uid', generation: 1, creationTimestamp: at(T0), ...metadata },
  spec: { ...spec },
  ...(status && { status: { observedGeneration: 1, ...status } }),
});

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
