import { jitter, type Random } from '../../domain/jitter.ts';
import { type Failure, type MicroserviceRecord, withoutFailure } from '../../domain/record.ts';
import type { BareStep, BareStepOf, Step, StepOf } from '../../domain/step.ts';
import { backoff, TIMES } from './backoff.ts';
import { isPulledAs } from './serves.ts';

/** How a step ended. */
export type StepResult = { ok: true; imageId?: string } | { ok: false; code: string; reason: string; message: string };

/** A record when a step of its microservice begins, so that the consequences of the step are recognised while it runs. */
export function noteBegin(record: MicroserviceRecord, step: BareStep): MicroserviceRecord {
  if (step.kind !== 'stop') return record;
  return { ...record, live: { ...record.live, stopping: step.containerId } };
}

/** A record when a step of its microservice has ended. Pure. */
export function noteResult(
  record: MicroserviceRecord,
  step: Step,
  result: StepResult,
  now: number,
  random: Random,
): MicroserviceRecord {
  if (step.kind === 'network') return record;
  if (!result.ok) return noteFailure(record, step, result, now, random);
  const next = record.failure?.step === step.kind ? withoutFailure(record) : record;
  switch (step.kind) {
    case 'image':
      return { ...next, image: lookedUp(record, step, result.imageId ?? '') };
    case 'create':
      return noteCreate(next, step, result.imageId);
    case 'start':
      return noteStart(record, next, step);
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

/** The image of a reference that now comes from another registry is another one, even with the same id. */
function lookedUp(
  { image: known, generation }: MicroserviceRecord,
  { reference, rebuildCount, pull: { reference: pullReference } }: StepOf<'image'>,
  id: string,
): MicroserviceRecord['image'] {
  const same = known?.reference === reference ? known : undefined;
  const moved = same && !isPulledAs(same.pullReference, pullReference);
  return {
    ...{ reference, id, rebuildCount, pullReference },
    outdatedGeneration: moved ? generation : same?.outdatedGeneration,
  };
}

function noteCreate(
  record: MicroserviceRecord,
  step: BareStepOf<'create'>,
  imageId: string | undefined,
): MicroserviceRecord {
  return {
    ...record,
    generation: Math.max(record.generation, step.generation),
    restartCount: step.reason === 'RebuildRequested' ? 0 : record.restartCount,
    // The image id that the engine reports is authoritative, unless the image was looked up again in the meantime.
    image:
      record.image && imageId && record.image.id === step.imageId ? { ...record.image, id: imageId } : record.image,
  };
}

/** The start of an older container does not undo the failure of the one that was to replace it. */
function noteStart(
  record: MicroserviceRecord,
  cleared: MicroserviceRecord,
  step: BareStepOf<'start'>,
): MicroserviceRecord {
  const { stopping, startedLocally, restart, ...live } = record.live;
  const kept = step.reason === 'Returned' || record.failure?.target !== step.target ? record : cleared;
  const restartCount = step.reason === 'Crashed' ? record.restartCount + 1 : record.restartCount;
  return { ...kept, restartCount, live };
}

function noteFailure(
  record: MicroserviceRecord,
  step: Exclude<BareStep, { kind: 'network' }>,
  { code, reason, message }: Extract<StepResult, { ok: false }>,
  now: number,
  random: Random,
): MicroserviceRecord {
  // The image was removed between its look-up and its use: it is looked up again at once, with a back-off when that repeats.
  const lost = step.kind === 'create' && code === 'ImageMissing';
  // Another program removed it in between: another one is made.
  const vanished = step.kind === 'start' && code === 'NotFound';
  // Another container has the name: the next attempt uses another one.
  const named = step.kind === 'create' && code === 'NameTaken';
  const count = record.failure?.target === step.target ? record.failure.count + 1 : 1;
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
  const { stopping, startedLocally, restart, ...rest } = record.live;
  const live = {
    ...rest,
    ...(step.kind !== 'stop' && { stopping }),
    // A start that a person on the machine asked for is tried at once, and once.
    ...(step.kind !== 'start' && { startedLocally, restart }),
  };
  return {
    ...record,
    failure,
    error: { message, at: now },
    ...(lost && record.image && { image: { ...record.image, id: '' } }),
    live,
  };
}
