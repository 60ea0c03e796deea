import { type BareStep, type Plan, type Step, serialKey, type Wait } from '../../domain/step.ts';
import { isUnwanted } from '../../domain/wanted.ts';
import type { Container } from '../../engine-port/container.ts';
import { completeSteps } from './complete.ts';
import type { Context, Decision, PlanInput } from './context.ts';
import { arrangePorts } from './ports.ts';
import { decideAbsent, decideHold, decideRun, decideUnknown } from './rules.ts';

/**
 * Decides what to do next: for each microservice the one step that its containers, its entry and its record call for,
 * and in addition the pull of an image that it will need. Each step carries everything that its executor needs. Pure: the
 * same input gives the same plan. The caller carries steps out, looks again, and plans again until nothing is left; it
 * may die between any two steps.
 *
 * Guarantees:
 * - a step never makes a second container of a microservice run: the old one is stopped before the new one starts;
 * - an old container is not stopped before the new one's image is there and the new one is made;
 * - when the new one cannot be pulled, made or started, the old one runs (again);
 * - an old container is not stopped for a port that another program keeps;
 * - nothing is removed for being absent from the entries unless that is known to be meant (`isUnwanted`).
 */
export function plan(input: PlanInput): Plan {
  const { desired, snapshot, records } = input;
  const context: Context = { ...input, byUuid: groupByUuid(snapshot.containers) };
  const decisions: Decision[] = [];
  const wanted = new Map(desired.entries.map((entry) => [entry.uuid, entry]));
  for (const uuid of new Set([...wanted.keys(), ...context.byUuid.keys()])) {
    const record = records.get(uuid);
    if (!record) continue;
    const subject = { record, containers: context.byUuid.get(uuid) ?? [], context };
    const entry = wanted.get(uuid);
    if (entry?.kind === 'run') decisions.push(...decideRun(entry, subject));
    else if (entry) decisions.push(...decideHold(entry, subject));
    else decisions.push(...(isUnwanted(desired, record) ? decideAbsent(subject) : decideUnknown(subject)));
  }
  return collect(decisions, input);
}

/** Keeps what may be done now: a step that failed waits for its time, and a port is free before it is taken. */
function collect(decisions: readonly Decision[], input: PlanInput): Plan {
  const { records, now, snapshot } = input;
  const steps = new Map<string, BareStep>();
  const waits: Wait[] = [];
  for (const decision of decisions) {
    if (!decision) continue;
    if ('why' in decision) {
      waits.push(decision);
      continue;
    }
    const failure = decision.kind === 'network' ? undefined : records.get(decision.uuid)?.failure;
    if (failure && failure.step === decision.kind && now < failure.notBefore && REPEATED.has(decision.kind))
      waits.push({ uuid: (decision as { uuid: string }).uuid, why: 'RetryBackoff', until: failure.notBefore });
    else steps.set(serialKey(decision), decision);
  }
  const arranged = arrangePorts([...steps.values()], snapshot.containers, now);
  return { steps: completeSteps(arranged.steps, input), waits: [...waits, ...arranged.waits] };
}

/** Steps whose failure has no other consequence than trying them again later. */
const REPEATED: ReadonlySet<Step['kind']> = new Set(['stop', 'resume', 'rename', 'remove']);

/** Newest first. */
function groupByUuid(containers: readonly Container[]): Map<string, Container[]> {
  const groups = new Map<string, Container[]>();
  for (const container of containers) groups.set(container.uuid, [...(groups.get(container.uuid) ?? []), container]);
  // Of two with one generation, the later is a copy that another program created.
  for (const group of groups.values())
    group.sort((a, b) => b.generation - a.generation || a.startedAt - b.startedAt || (a.id < b.id ? -1 : 1));
  return groups;
}
