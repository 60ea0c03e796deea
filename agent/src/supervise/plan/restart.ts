import { isStartedLocally, type MicroserviceRecord } from '../../domain/record.ts';
import type { START_REASONS } from '../../domain/step.ts';
import { type Container, hasRun, isRunning } from '../../engine-port/container.ts';
import type { Context, Decision } from './context.ts';
import { waitForOrder } from './start-order.ts';
import { start } from './steps.ts';

/** Starts a stopped container again when its time has come. */
export function startAgain(
  container: Container,
  record: MicroserviceRecord,
  target: string,
  context: Context,
): Decision {
  const { uuid, crash, failure } = record;
  const { now } = context;
  const reason = startReason(record);
  const isLocal = reason === 'StartedLocally';
  const { leftAloneUntil = 0 } = record.live;
  if (!isLocal && now < leftAloneUntil) return { uuid, why: 'RetryBackoff', until: leftAloneUntil };
  if (reason === 'Crashed' && crash && now < crash.notBefore)
    return { uuid, why: 'CrashBackoff', until: crash.notBefore };
  if (!isLocal && failure?.step === 'start' && failure.target === target && now < failure.notBefore)
    return { uuid, why: 'RetryBackoff', until: failure.notBefore };
  return waitForOrder(record, context) ?? start(container, target, reason);
}

/** The old container runs on while its successor is not ready; its own crashes are backed off as usual. */
export function keepRunning(old: Container, record: MicroserviceRecord, target: string, { now }: Context): Decision {
  if (isRunning(old) || !hasRun(old)) return undefined;
  const { uuid, failure, crash } = record;
  if (failure?.step === 'start' && failure.containerId === old.id && now < failure.notBefore)
    return { uuid, why: 'RetryBackoff', until: failure.notBefore };
  const reason = startReason(record);
  if (reason === 'Crashed' && crash && now < crash.notBefore)
    return { uuid, why: 'CrashBackoff', until: crash.notBefore };
  return start(old, target, reason === 'Crashed' || reason === 'StartedLocally' ? reason : 'Returned');
}

const CAUSE_REASONS = {
  Stopped: 'FoundStopped',
  Crash: 'Crashed',
  Engine: 'EngineRestarted',
  Reboot: 'MachineRebooted',
  Unwatched: 'FoundStopped',
} as const satisfies Record<string, keyof typeof START_REASONS>;

function startReason(record: MicroserviceRecord): keyof typeof START_REASONS {
  if (isStartedLocally(record)) return 'StartedLocally';
  return record.exit ? CAUSE_REASONS[record.exit.cause] : 'FoundStopped';
}
