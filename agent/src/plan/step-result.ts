import { jitter, type Random } from '../domain/clock.ts';
import type { Failure, MicroserviceRecord } from '../domain/record.ts';
import type { Step } from '../domain/step.ts';
import { backoff, TIMES } from './backoff.ts';

/** How a step ended. */
export type StepResult = { ok: true; imageId?: string } | { ok: false; code: string; reason: string; message: string };

type StepOf<K extends Step['kind']> = Extract<Step, { kind: K }>;

/** What is noted before a step is carried out, so that its consequences are recognised while it runs. */
export function noteBegin(row: MicroserviceRecord, step: Step): MicroserviceRecord {
  if (step.kind !== 'stop') return row;
  return { ...row, live: { ...row.live, stopping: step.containerId } };
}

/** What is remembered of a step that ended. Pure. */
export function noteResult(
  row: MicroserviceRecord,
  step: Step,
  outcome: StepResult,
  now: number,
  random: Random,
): MicroserviceRecord {
  if (step.kind === 'network') return row;
  if (!outcome.ok) return concludeFailure(row, step, outcome, now, random);
  const next = row.failure?.step === step.kind ? { ...row, failure: undefined } : row;
  switch (step.kind) {
    case 'image':
      return {
        ...next,
        image: { reference: step.reference, id: outcome.imageId ?? '', rebuildOrder: step.rebuildOrder },
      };
    case 'create':
      return concludeCreate(next, step, outcome.imageId);
    case 'start':
      return concludeStart(row, next, step);
    case 'stop':
    case 'resume':
    case 'rename':
    case 'remove':
      return next;
    default:
      step satisfies never;
      return next;
  }
}

function concludeCreate(
  row: MicroserviceRecord,
  step: StepOf<'create'>,
  imageId: string | undefined,
): MicroserviceRecord {
  return {
    ...row,
    generation: Math.max(row.generation, step.generation),
    restartCount: step.reason === 'RebuildOrdered' ? 0 : row.restartCount,
    // The engine has the last word on which image the container was made from.
    image: row.image && imageId ? { ...row.image, id: imageId } : row.image,
  };
}

/** The start of an older container does not undo the failure of the one that was to replace it. */
function concludeStart(
  row: MicroserviceRecord,
  cleared: MicroserviceRecord,
  step: StepOf<'start'>,
): MicroserviceRecord {
  const { stopping, startedLocally, restart, ...live } = row.live;
  const kept = step.reason === 'Returned' || row.failure?.target !== step.target ? row : cleared;
  const restartCount = step.reason === 'Crashed' ? row.restartCount + 1 : row.restartCount;
  return { ...kept, restartCount, live };
}

function concludeFailure(
  row: MicroserviceRecord,
  step: Exclude<Step, { kind: 'network' }>,
  { code, reason, message }: Extract<StepResult, { ok: false }>,
  now: number,
  random: Random,
): MicroserviceRecord {
  // The image went away between the look-up and its use: look it up again at once, and back off when that repeats.
  const lost = step.kind === 'create' && code === 'ImageMissing';
  // Somebody removed it in between: another one is made.
  const vanished = step.kind === 'start' && code === 'NotFound';
  // Somebody else has the name: the next attempt uses another one.
  const named = step.kind === 'create' && code === 'NameTaken';
  const count = row.failure?.target === step.target ? row.failure.count + 1 : 1;
  const protects = step.kind === 'start' && step.protects;
  const delay =
    (lost || named || vanished) && count === 1
      ? 0
      : protects
        ? jitter(TIMES.longestDelay, random)
        : backoff(count, random);
  const failure: Failure = {
    step: step.kind,
    target: step.target,
    containerId: 'containerId' in step ? step.containerId : undefined,
    count,
    at: now,
    notBefore: now + delay,
    reason,
    message,
  };
  const { stopping, startedLocally, restart, ...rest } = row.live;
  const live = {
    ...rest,
    ...(step.kind !== 'stop' && { stopping }),
    // A start that somebody on the machine ordered is tried at once, and once.
    ...(step.kind !== 'start' && { startedLocally, restart }),
  };
  return {
    ...row,
    failure,
    error: { message, at: now },
    ...(lost && { image: undefined }),
    live,
  };
}
