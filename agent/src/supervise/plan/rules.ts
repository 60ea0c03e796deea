import { containerDigest } from '../../domain/digest.ts';
import type { HoldEntry, RunEntry } from '../../domain/entry.ts';
import { isStartedLocally, type MicroserviceRecord } from '../../domain/record.ts';
import type { Wait } from '../../domain/step.ts';
import { type Container, hasRun, isRunning, runKey } from '../../engine-port/container.ts';
import type { Context, Decision } from './context.ts';
import { keepRunning, startAgain } from './restart.ts';
import { HOLD_TARGET, isImageKnown, mismatch, servesEntry, targetKey } from './serves.ts';
import { waitForOrder, waitForRemovalOrder } from './start-order.ts';
import {
  create,
  giveWay,
  lookUpImage,
  publishedPorts,
  remove,
  renameToCanonical,
  resume,
  start,
  stop,
} from './steps.ts';

/** One microservice, as the rules see it. */
interface Subject {
  record: MicroserviceRecord;
  /** newest first */
  containers: readonly Container[];
  target: string;
  context: Context;
}

/**
 * Rules are asked in order. The first that answers decides, also with an empty list: nothing is to be done. A rule that
 * does not apply answers undefined or false.
 */
type Rule<S> = (subject: S) => readonly Decision[] | undefined | false;

function decide<S>(rules: readonly Rule<S>[], subject: S): readonly Decision[] {
  for (const rule of rules) {
    const answer = rule(subject);
    if (answer) return answer;
  }
  return [];
}

/** What comes before any question of what is wanted. */
const ALWAYS: readonly Rule<Subject>[] = [
  // lost by the engine
  ({ containers, target }) => {
    const dead = containers.find(({ state }) => state === 'dead');
    return dead && [remove(dead, target, 'Dead')];
  },
  // paused by a person on the machine
  ({ containers, target }) => {
    const paused = containers.find((container) => container.paused);
    return paused && [resume(paused, target)];
  },
  // stopped by a person on the machine
  ({ record, containers, target }) => {
    const running = containers.find(isRunning);
    return record.stoppedLocally && [running && stop(running, target, 'StoppedLocally')];
  },
  // restarted by a person on the machine
  ({ record, containers, target }) => {
    const restarted = containers.find((c) => isRunning(c) && runKey(c) === record.live.restart?.key);
    return restarted && [stop(restarted, target, 'RestartingLocally')];
  },
  // The newest stays: it was started last, so the older one is the one that should have been stopped.
  ({ containers, target }) => {
    const oldest = containers.findLast(isRunning);
    return oldest && oldest !== containers.find(isRunning) && [stop(oldest, target, 'Duplicate')];
  },
];

/** A microservice that is to run: `fresh` is the container that serves the entry, `old` the one that it replaces. */
interface RunSubject extends Subject {
  entry: RunEntry;
  fresh?: Container;
  old?: Container;
  /** all but `fresh` */
  others: readonly Container[];
  /** the last attempt failed, and the next one is not due yet */
  failed?: MicroserviceRecord['failure'];
  /** the wait for that */
  retry?: Wait;
}

const RUN: readonly Rule<RunSubject>[] = [
  ...ALWAYS,
  // it runs
  ({ fresh, others, target }) =>
    fresh && isRunning(fresh) && [others[0] ? remove(others[0], target, 'Replaced') : renameToCanonical(fresh, target)],
  // An engine may lose the network while nothing runs on it; containers that know the lost one are made again.
  ({ entry, context }) =>
    !entry.view.hostNetworkMode && context.snapshot.networkId === undefined && [{ kind: 'network' }],
  // a third container
  ({ others, old, target }) => {
    const leftover = others.find((container) => container !== old);
    return leftover && !isRunning(leftover) && [remove(leftover, target, 'Leftover')];
  },
  // it has run, and another container runs or has run in its place
  ({ entry, fresh, old, target }) =>
    fresh && hasRun(fresh) && old && [isRunning(old) ? giveWay(old, entry) : remove(old, target, 'Replaced')],
  // it has run
  ({ fresh, record, target, context }) => fresh && hasRun(fresh) && [startAgain(fresh, record, target, context)],
  // it was made and could not be started
  ({ fresh, old, failed, retry, target }) => {
    if (!fresh || (failed?.step !== 'start' && failed?.step !== 'remove')) return undefined;
    if (!old || failed.containerId === old.id) return [retry];
    return [isRunning(old) ? remove(fresh, target, 'FailedToStart') : start(old, target, 'Returned')];
  },
  // it was made, and others start before it
  ({ fresh, old, record, target, context }) => {
    const order = fresh && waitForOrder(record, context);
    return order && [order, old && keepRunning(old, record, target, context)];
  },
  // it was made, and the old one gives way
  ({ entry, fresh, old }) => fresh && old && isRunning(old) && [giveWay(old, entry)],
  // it was made
  ({ entry, fresh, old, record, target }) => {
    const reason = old ? 'Replacement' : isStartedLocally(record) ? 'StartedLocally' : 'New';
    return fresh && [{ ...start(fresh, target, reason, old !== undefined), ports: publishedPorts(entry) }];
  },
  // there is none, and the last attempt failed
  ({ failed, retry, old, record, target, context }) =>
    failed && [retry, old && keepRunning(old, record, target, context)],
  // there is none, nor its image
  ({ entry, old, record, target, context }) =>
    !isImageKnown(entry, record) && [
      lookUpImage(entry, record, old !== undefined),
      old && keepRunning(old, record, target, context),
    ],
  // there is none, nor the models and knowledge that it mounts
  ({ entry, old, record, target, context }) => {
    const wait = waitForArtifacts(entry, context);
    return wait && [wait, old && keepRunning(old, record, target, context)];
  },
  // there is none
  ({ entry, old, record, containers, context }) => [
    create(entry, record, containers, whyNew(entry, record, old, context)),
  ],
];

/** The manager of artifacts wakes the supervisor, so no time is due. */
function waitForArtifacts({ uuid }: RunEntry, { artifactWait }: Context): Wait | undefined {
  const wait = artifactWait(uuid);
  return wait && { uuid, why: wait.failed ? 'ArtifactFailed' : 'Artifacts', until: 0, message: wait.message };
}

function whyNew(entry: RunEntry, record: MicroserviceRecord, old: Container | undefined, { snapshot }: Context) {
  if (old) return mismatch(old, entry, record, snapshot) ?? 'SpecChanged';
  return record.lastGood ? 'Vanished' : 'New';
}

interface HoldSubject extends Subject {
  entry: HoldEntry;
  running?: Container;
}

/** Keeps what runs or ran last; makes a container only where the one that ran was removed by someone else. */
const HOLD: readonly Rule<HoldSubject>[] = [
  ...ALWAYS,
  // to be stopped
  ({ entry, running }) => entry.stop && [running && stop(running, HOLD_TARGET, 'PolicyRefused')],
  // it runs
  ({ running }) => running && [],
  // it ran
  ({ record, containers, context }) => {
    const kept = containers.find((c) => isLastGood(c, record) && hasRun(c)) ?? containers.find(hasRun);
    return kept && [startAgain(kept, record, HOLD_TARGET, context)];
  },
  // nothing is known to make a container from, or there is one that has not run
  ({ record, containers }) => (!record.lastGood || !record.image?.id || containers.length > 0) && [],
  // the last attempt failed
  ({ record: { uuid, failure }, context }) =>
    failure && context.now < failure.notBefore && [{ uuid, why: 'RetryBackoff', until: failure.notBefore }],
  // the image that is known is not the one that it ran with
  ({ record }) => record.image?.reference !== record.lastGood?.imageId && [],
  // no network
  ({ record, context }) =>
    !record.lastGood?.hostNetworkMode && context.snapshot.networkId === undefined && [{ kind: 'network' }],
  // its container was removed
  ({ record, containers }) => {
    const { uuid, lastGood: view } = record;
    if (!view) return undefined;
    const entry: RunEntry = { kind: 'run', uuid, view, digest: containerDigest(view) };
    return [create(entry, record, containers, 'Vanished', HOLD_TARGET)];
  },
];

function isLastGood(container: Container, { lastGood }: MicroserviceRecord): boolean {
  return lastGood !== undefined && container.revision === lastGood.revision;
}

/** Stopped and removed, the last started first. Volumes stay. */
const ABSENT: readonly Rule<Subject>[] = [
  // others end before it
  ({ record, context }) => {
    const wait = waitForRemovalOrder(record, context);
    return wait && [wait];
  },
  // paused by a person on the machine
  ({ containers, target }) => {
    const paused = containers.find((container) => container.paused);
    return paused && [resume(paused, target)];
  },
  // it runs
  ({ containers, target }) => {
    const running = containers.find(isRunning);
    return running && [stop(running, target, 'NoLongerWanted')];
  },
  // there is one
  ({ containers: [first], target }) => first && [remove(first, target, 'NoLongerWanted')],
];

/** What to do for a microservice that is to run. */
export function decideRun(entry: RunEntry, subject: Omit<Subject, 'target'>): readonly Decision[] {
  const { record, containers, context } = subject;
  const target = targetKey(entry);
  const matching = containers.filter((container) => servesEntry(container, entry, record, context.snapshot));
  const fresh = matching.find(isRunning) ?? matching[0];
  const others = containers.filter((container) => container !== fresh);
  const old = others.find(isRunning) ?? others.find(hasRun);
  const { failure } = record;
  const failed = failure && failure.target === target && context.now < failure.notBefore ? failure : undefined;
  const retry: Wait | undefined = failed && { uuid: entry.uuid, why: 'RetryBackoff', until: failed.notBefore };
  return decide(RUN, { ...subject, target, entry, fresh, old, others, failed, retry });
}

/** What to do for a microservice that may not be changed now. */
export function decideHold(
  entry: HoldEntry,
  subject: Omit<Subject, 'target'>,
  target = HOLD_TARGET,
): readonly Decision[] {
  const running = subject.containers.find(isRunning);
  return decide(HOLD, { ...subject, target, entry, running });
}

/** What to do for a microservice that is no longer wanted. */
export function decideAbsent(subject: Omit<Subject, 'target'>): readonly Decision[] {
  return decide(ABSENT, { ...subject, target: 'absent' });
}

/** What to do while it is not known what is wanted: what ran keeps running. */
export function decideUnknown(subject: Omit<Subject, 'target'>): readonly Decision[] {
  return decideHold({ kind: 'hold', uuid: subject.record.uuid, reason: '', message: '' }, subject, 'unknown');
}
