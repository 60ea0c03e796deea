import { CONTAINER_LABELS } from '../../../../src/api/names.ts';
import type { Container } from '../../engine-port/container.ts';
import type { ContainerSpec } from '../../engine-port/container-spec.ts';
import { EngineError } from '../../engine-port/error.ts';
import { type Containerd, RECORD_NAMESPACE } from './client.ts';
import { CONTAINERD } from './wire/containerd.ts';
import type { Of } from './wire/protobuf.ts';

/**
 * A container of this engine is a record in containerd's metadata, in a namespace of the agent: CRI cannot start a container
 * twice, so each start of a record makes a sandbox and a container of CRI, which the record names. A record survives
 * restarts of the agent, of containerd and of the machine.
 */
export interface ContainerRecord {
  id: string;
  spec: ContainerSpec;
  imageId: string;
  createdAt: number;
  run: Run;
}

/** What changes in the life of a record. */
export interface Run {
  name: string;
  /** counts the starts */
  attempt: number;
  /** of the last start, while CRI has them */
  sandboxId?: string;
  containerId?: string;
  ip?: string;
  /** Unix ms before the last start; CRI says a start was when the container may have written already */
  began?: number;
  /** of the last start, whose container CRI has no more */
  ended?: Pick<Container, 'startedAt' | 'finishedAt' | 'exitCode' | 'oomKilled' | 'error' | 'reason'>;
  health?: HealthRecord;
}

/** What health checks have found in a run. */
export interface HealthRecord {
  attempt: number;
  status: NonNullable<Container['health']>;
  failures: number;
  failedCheck?: Container['failedCheck'];
}

const SPEC = 'skerry.dev/container';
const RUN = 'skerry.dev/run';
type Stored = NonNullable<Of<(typeof CONTAINERD)['getContainer']['answer']>['container']>;

/** The records of a containerd, also of other agents. */
export class ContainerRecords {
  readonly #containerd: Containerd;

  constructor(containerd: Containerd) {
    this.#containerd = containerd;
  }

  async list(signal?: AbortSignal): Promise<ContainerRecord[]> {
    const { containers } = await this.#containerd.call(CONTAINERD.listContainers, {}, options(signal));
    return containers.flatMap((stored) => toRecord(stored) ?? []);
  }

  /** Throws EngineError NotFound. */
  async get(id: string, signal?: AbortSignal): Promise<ContainerRecord> {
    const { container } = await this.#containerd.call(CONTAINERD.getContainer, { id }, options(signal));
    const record = container && toRecord(container);
    if (!record) throw new EngineError('NotFound', `no container ${id}`);
    return record;
  }

  async add(record: ContainerRecord, signal?: AbortSignal): Promise<void> {
    const { id, spec, imageId, createdAt, run } = record;
    const container = {
      id,
      labels: { [CONTAINER_LABELS.agent]: spec.labels[CONTAINER_LABELS.agent] ?? '' },
      runtime: { name: 'skerry.dev/record' },
      spec: { type: SPEC, value: json({ spec, imageId, createdAt }) },
      extensions: { [RUN]: { type: RUN, value: json(run) } },
    };
    await this.#containerd.call(CONTAINERD.createContainer, { container }, options(signal));
  }

  async setRun({ id }: Pick<ContainerRecord, 'id'>, run: Run, signal?: AbortSignal): Promise<void> {
    const container = { id, extensions: { [RUN]: { type: RUN, value: json(run) } } };
    const mask = { paths: ['extensions'] };
    await this.#containerd.call(CONTAINERD.updateContainer, { container, mask }, options(signal));
  }

  /** Throws EngineError NotFound. */
  async remove(id: string, signal?: AbortSignal): Promise<void> {
    await this.#containerd.call(CONTAINERD.deleteContainer, { id }, options(signal));
  }
}

const options = (signal: AbortSignal | undefined) => ({ namespace: RECORD_NAMESPACE, signal });
const json = (value: unknown) => Buffer.from(JSON.stringify(value));

/** Undefined for a container that is no record. */
function toRecord({ id, spec, extensions }: Stored): ContainerRecord | undefined {
  const run = extensions[RUN];
  if (spec?.type !== SPEC || !run) return undefined;
  try {
    return { id, ...JSON.parse(spec.value.toString()), run: JSON.parse(run.value.toString()) };
  } catch {
    return undefined;
  }
}
