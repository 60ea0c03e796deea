import type { MicroserviceStatus, RegistryView } from '../../../../src/wire/agent.ts';
import { notHonoured, type ProcessLimits } from '../../domain/container-spec.ts';
import { newRecord, type Records } from '../../domain/record.ts';
import { type Step, serialKey, type Wait } from '../../domain/step.ts';
import { type Desired, isUnwanted } from '../../domain/wanted.ts';
import type { EngineSnapshot } from '../../engine-port/container.ts';
import type { EngineFacts } from '../../engine-port/facts.ts';
import { statusOf, unknownStatus } from './status.ts';

/** Everything that the statuses of a node's microservices are made from. */
export interface NodeStatusInput {
  /** why the engine cannot be read: then every state is unknown, whatever was read last */
  unreachable: string | undefined;
  desired: Desired;
  records: Records;
  snapshot: EngineSnapshot;
  waits: readonly Wait[];
  /** the step that is being carried out, by serial key */
  running(key: string): { step: Step; percentage?: number } | undefined;
  networkProblem: string | undefined;
  facts: EngineFacts | undefined;
  limits: ProcessLimits;
  registries: ReadonlyMap<number, RegistryView>;
  now: number;
}

/** What the node reports of its microservices. Pure. */
export function nodeStatuses(input: NodeStatusInput): MicroserviceStatus[] {
  const { unreachable, desired, records, snapshot, facts, limits, registries } = input;
  const entries = new Map(desired.entries.map((entry) => [entry.uuid, entry]));
  if (unreachable !== undefined)
    return [...new Set([...records.keys(), ...entries.keys()])].map((uuid) =>
      unknownStatus(records.get(uuid) ?? newRecord(uuid), entries.get(uuid), unreachable),
    );
  const waits = new Map(input.waits.map((wait) => [wait.uuid, wait]));
  const names = new Set([...records.values()].map(({ application, name }) => `${application}.${name}`));
  const isMicroservice = (name: string) => names.has(name);
  return [...records.values()].map((record) => {
    const { uuid } = record;
    const entry = entries.get(uuid);
    const pull = input.running(serialKey({ kind: 'image', uuid }));
    const work = input.running(uuid);
    const view = entry?.kind === 'run' ? entry.view : undefined;
    return statusOf({
      entry,
      isUnwanted: entry === undefined && isUnwanted(desired, record),
      record,
      containers: snapshot.containers
        .filter((container) => container.uuid === uuid)
        .sort((a, b) => b.generation - a.generation),
      snapshot,
      step: work?.step ?? pull?.step,
      percentage: pull?.percentage,
      wait: waits.get(uuid),
      networkProblem: input.networkProblem,
      notHonoured:
        facts &&
        view &&
        notHonoured(view, { facts, limits, isMicroservice, registry: registries.get(view.registryId) }),
      now: input.now,
    });
  });
}
