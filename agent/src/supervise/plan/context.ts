import type { MicroserviceView, RegistryView } from '../../../../src/wire/agent.ts';
import type { ArtifactWait } from '../../domain/artifact.ts';
import type { SpecContext } from '../../domain/container-spec.ts';
import type { Policy } from '../../domain/policy.ts';
import type { Records } from '../../domain/record.ts';
import type { BareStep, Step, Wait } from '../../domain/step.ts';
import type { Desired } from '../../domain/wanted.ts';
import type { Container, EngineSnapshot } from '../../engine-port/container.ts';

/** Everything that a plan is made from. */
export interface PlanInput {
  desired: Desired;
  snapshot: EngineSnapshot;
  records: Records;
  /** steady time */
  now: number;
  /** this machine and this agent, as containers need them */
  machine: SpecContext;
  registries: ReadonlyMap<number, RegistryView>;
  /** the views as they were last sent or deployed, those of entries on hold among them */
  views: ReadonlyMap<string, MicroserviceView>;
  policy: Policy;
  /** why a microservice cannot be started yet: what it mounts is not here */
  artifactWait(uuid: string): ArtifactWait | undefined;
  /** steps that are being carried out */
  underWay: readonly Step[];
}

/** What the rules decide from. */
export interface Context extends Pick<PlanInput, 'desired' | 'snapshot' | 'now' | 'records' | 'artifactWait'> {
  /** the newest container of a microservice first */
  byUuid: ReadonlyMap<string, readonly Container[]>;
}

/** What one rule leads to: a step, a wait, or neither. */
export type Decision = BareStep | Wait | undefined;
