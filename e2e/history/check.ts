import { START_REASONS } from '../../agent/src/domain/step.ts';
import type { EngineRecord, History, Operation, Version, Violation } from './history.ts';
import { apply, MISSPELT, sameState, stateText, wantedRuns } from './model.ts';

/**
 * The guarantees, each checked by a pure function of the history. The functions trust neither the product nor each other:
 * what users asked for comes from the users, what was stored from the API server, what ran from the engines.
 */
export const CHECKERS = {
  'no acknowledged write is lost': writes,
  'a read is never older than a write acknowledged before it': reads,
  'the newest revision wins': revisions,
  'no container is started twice or restarted without a listed reason': starts,
  'the status never claims what was not observed': status,
  'a session shows what there is, once and in its order': sessions,
  'a deletion ends, and not before the machine has stopped the containers': deletions,
  'everything settles': settles,
} as const satisfies Record<string, (history: History) => Finding[]>;

type Finding = Omit<Violation, 'checker'>;

/** All violations, in the order of time. */
export function check(history: History): Violation[] {
  return Object.entries(CHECKERS)
    .flatMap(([checker, find]) => find(history).map((finding) => ({ checker, ...finding })))
    .sort((a, b) => a.at - b.at);
}

/** The longest delay between a write and its watch event at the runner. */
const LAG = 15_000;
/** The longest time between an observation and a Ready that depends on it: a report, the silence limit, a new leader. */
const MEMORY = 180_000;
/** The time after which an agent has reported what it sees, when there is no fault. */
const REPORTED = 15_000;

/** Each change of an application is the write of one user, and each acknowledged write is one such change. */
function writes(history: History): Finding[] {
  return [...applications(history)].flatMap(([app, versions]) => explain(history, app, versions).findings);
}

const CHANGES_NOTHING: ReadonlySet<Operation['action']['kind']> = new Set(['read', 'session']);

interface Explained {
  findings: Finding[];
  /** version index by operation */
  at: Map<Operation, number>;
}

function explain({ operations }: History, app: string, versions: readonly Version[]): Explained {
  const mutating = operations.filter((one) => one.app === app && !CHANGES_NOTHING.has(one.action.kind));
  const at = new Map<Operation, number>();
  const findings: Finding[] = [];
  let state: Version['state'];
  for (const [index, version] of versions.entries()) {
    const before = state;
    state = version.state;
    if (sameState(before, state) || (before?.deleting && !state)) continue;
    const isWhy = (one: Operation) =>
      !at.has(one) && one.invoked <= version.at && sameState(endOf(apply(one.action, before), state), state);
    const candidates = mutating
      .filter((one) => one.outcome !== 'skipped' && isWhy(one))
      .sort(mostCertainAt(version.at));
    const [why] = candidates;
    if (why) at.set(why, index);
    if (why?.outcome === 'refused')
      findings.push({ app, at: version.at, text: `${describe(why)} was refused (${why.said}), and carried out` });
    else if (!why)
      findings.push({
        app,
        at: version.at,
        text: `version ${version.resourceVersion} of ${app} is nobody's write: from [${stateText(before)}] to [${stateText(state)}]`,
      });
  }
  for (const one of mutating) {
    if (one.outcome !== 'done' || at.has(one)) continue;
    if (statesDuring(versions, one).some((each) => meansNothing(one, each))) continue;
    findings.push({
      app,
      at: one.answered ?? one.invoked,
      text: `${describe(one)} was answered, and no version has it`,
    });
  }
  return { findings, at };
}

/** An object without finalizers disappears at once when it is deleted. */
const endOf = (after: Version['state'], seen: Version['state']) => (after?.deleting && !seen ? undefined : after);

/**
 * Orders the operations that may have made a version: acknowledged ones, then those with an unknown outcome, then refused
 * ones. Among acknowledged ones, the one whose response came last before the version was seen, or was still pending,
 * comes first: the others may have changed nothing.
 */
function mostCertainAt(at: number): (a: Operation, b: Operation) => number {
  const rank = { done: 0, unknown: 1, refused: 2, skipped: 3 };
  const ago = ({ answered = Infinity }: Operation) => Math.max(0, at - answered);
  return (a, b) =>
    rank[a.outcome] - rank[b.outcome] ||
    ago(a) - ago(b) ||
    // Avoids `Infinity - Infinity`, and sorts an operation without a response last.
    (a.answered ?? Number.MAX_VALUE) - (b.answered ?? Number.MAX_VALUE);
}

function meansNothing({ action }: Operation, state: Version['state']): boolean {
  if (action.kind === 'delete') return !state || state.deleting;
  const after = apply(action, state);
  return after !== undefined && sameState(after, state);
}

/** The states that an operation may have been applied to. */
function statesDuring(versions: readonly Version[], { invoked, answered = Infinity }: Operation): Version['state'][] {
  const first = versions.findLastIndex(({ at }) => at <= invoked);
  const states = versions.slice(Math.max(0, first)).filter(({ at }, i) => i === 0 || at <= answered + LAG);
  return [...(first < 0 ? [undefined] : []), ...states.map(({ state }) => state)];
}

function reads(history: History): Finding[] {
  const findings: Finding[] = [];
  for (const [app, versions] of applications(history)) {
    const { at } = explain(history, app, versions);
    for (const one of history.operations) {
      if (one.app !== app || one.action.kind !== 'read' || one.outcome !== 'done') continue;
      const told = versions.findLastIndex((version) => version.at <= one.invoked);
      const answered = [...at].filter(
        ([write]) => write.outcome === 'done' && (write.answered ?? Infinity) < one.invoked,
      );
      const least = Math.max(told, ...answered.map(([, index]) => index));
      const possible = [
        ...(least < 0 ? [undefined] : []),
        ...versions
          .slice(Math.max(0, least))
          .filter((version, i) => i === 0 || version.at <= (one.answered ?? one.invoked) + LAG)
          // what is being deleted is not shown
          .map(({ state }) => (state?.deleting ? undefined : state)),
      ];
      const seen = valuesText(one.read);
      if (possible.some((state) => valuesText(state && values(state)) === seen)) continue;
      findings.push({
        app,
        at: one.answered ?? one.invoked,
        text: `${describe(one)} showed [${seen}]; since before it began there was only ${possible
          .map((state) => `[${valuesText(state && values(state))}]`)
          .join(', ')}`,
      });
    }
  }
  return findings;
}

const values = (state: NonNullable<Version['state']>) =>
  Object.fromEntries(Object.entries(state.entries).map(([name, { value }]) => [name, value]));

const valuesText = (read: Readonly<Record<string, string>> | undefined) =>
  read === undefined
    ? 'absent'
    : Object.entries(read)
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([name, value]) => `${name}=${value}`)
        .join(' ');

/** Each container that is created was asked for, and is never of an older revision than an earlier one. */
function revisions(history: History): Finding[] {
  const order = orderOfValues(history);
  const newest = new Map<string, { rank: number; rebuild: number; value: string }>();
  const findings: Finding[] = [];
  for (const record of history.engine) {
    if (record.what !== 'create') continue;
    const key = `${record.node}/${record.uuid}`;
    const known = order.get(`${record.uuid}/${record.value}`);
    if (!known || known.at > record.at + LAG) {
      findings.push({ ...whereOf(record), text: `${record.node} made ${record.value}, which nobody had asked for` });
      continue;
    }
    const before = newest.get(key);
    const isOlder =
      before && (known.rank < before.rank || (known.rank === before.rank && record.rebuild < before.rebuild));
    if (isOlder)
      findings.push({
        ...whereOf(record),
        text: `${record.node} made ${record.value} (rebuild ${record.rebuild}) after the newer ${before.value} (rebuild ${before.rebuild})`,
      });
    else newest.set(key, { rank: known.rank, rebuild: record.rebuild, value: record.value });
  }
  return findings;
}

/** When each value of a microservice was first stored, and its rank in that order. */
function orderOfValues({ versions }: History): Map<string, { rank: number; at: number }> {
  const order = new Map<string, { rank: number; at: number }>();
  for (const [rank, { state, uuids, at }] of versions.entries())
    for (const [name, { value }] of Object.entries(state?.entries ?? {})) {
      const key = `${uuids[name]}/${value}`;
      if (!order.has(key)) order.set(key, { rank, at });
    }
  return order;
}

/** One container of a microservice on a machine, from the engine's record. */
interface Box {
  id: string;
  value: string;
  image: string;
  rebuild: number;
  made: number;
  running: boolean;
  hasRun: boolean;
  /** how its last run ended */
  ended?: 'stop' | 'fault' | 'engine';
  stopWasRight?: boolean;
}

/** At most one container runs at any time; each start, stop and new container is caused by a write or a fault. */
function starts(history: History): Finding[] {
  const boxes = new Map<string, Box[]>();
  const removed = new Map<string, Box & { right: boolean }>();
  const findings: Finding[] = [];
  for (const record of history.engine) {
    const { what, node, uuid, id, at } = record;
    const key = `${node}/${uuid}`;
    const here = boxes.get(key) ?? [];
    const box = here.find((one) => one.id === id);
    const wrong = (text: string) => findings.push({ ...whereOf(record), text: `${node} ${text}` });
    if (what === 'create') {
      const { value, image, rebuild } = record;
      const same = (one: Box) => one.value === value && one.image === image && one.rebuild === rebuild;
      const twin = here.find(same);
      if (twin) wrong(`made a second container of ${value} although ${twin.id.slice(-6)} is the same`);
      const gone = removed.get(key);
      if (gone && same(gone) && gone.hasRun && !gone.right)
        wrong(`had removed the container of ${value} and made it again, and nothing had changed`);
      boxes.set(key, [...here, { id, value, image, rebuild, made: at, running: false, hasRun: false }]);
      continue;
    }
    if (!box) continue;
    if (what === 'start') {
      const other = here.find((one) => one !== box && one.running);
      if (other) wrong(`started ${box.value} while ${other.value} of the same microservice ran`);
      if (box.running) wrong(`started ${box.value}, which ran already`);
      if (record.reason !== undefined && !(record.reason in START_REASONS))
        wrong(`started ${box.value} for a reason that is not in the list: ${record.reason}`);
      if (box.hasRun && box.ended === 'stop' && !box.stopWasRight)
        wrong(`restarted ${box.value} (${record.reason ?? 'no reason'}), which it had stopped without a cause`);
      Object.assign(box, { running: true, hasRun: true });
    }
    if (what === 'stop' && box.running) {
      const right = wasChanged(history, record, box) || here.some((one) => one.running && one !== box);
      if (!right) wrong(`stopped ${box.value} (${record.reason ?? 'no reason'}), which was wanted all the time`);
      Object.assign(box, { running: false, ended: 'stop', stopWasRight: right });
    }
    if (what === 'exit') Object.assign(box, { running: false, ended: record.because });
    if (what === 'remove' || what === 'vanish') {
      const right = what === 'vanish' || wasChanged(history, record, box);
      removed.set(key, { ...box, right });
      boxes.set(
        key,
        here.filter((one) => one !== box),
      );
    }
  }
  return findings;
}

/**
 * Whether a write asked for something else since the container was created. A node that does not exist is nothing that can be
 * asked for: while the status says that the microservice is on this one, it stays as it is. Then no write is a cause that began later.
 */
function wasChanged(history: History, { uuid, node, at }: EngineRecord, box: Box): boolean {
  const { versions } = history;
  const nameIn = ({ uuids }: Version) => Object.keys(uuids).find((each) => uuids[each] === uuid) ?? '';
  const isKept = (version: Version) =>
    wantedRuns(version.state).get(nameIn(version))?.node === MISSPELT && version.places?.[nameIn(version)] === node;
  const isSame = (version: Version) => {
    const wanted = wantedRuns(version.state).get(nameIn(version));
    return (
      wanted !== undefined &&
      wanted.node === node &&
      wanted.value === box.value &&
      wanted.image === box.image &&
      wanted.rebuild === box.rebuild
    );
  };
  const app = versions.find((version) => Object.values(version.uuids).includes(uuid))?.app;
  const known = versions.filter((version) => version.app === app && version.at <= at + LAG);
  const stays = known.some((version) => version.at <= at && isKept(version));
  const begun = app !== undefined && stays ? beginnings(history, app) : undefined;
  const own = known.filter(
    (version) => !isKept(version) && (version.at <= at || !begun || (begun.get(version) ?? 0) <= at),
  );
  const first = own.findIndex(isSame);
  return first < 0 || own.slice(first).some((version) => !isSame(version));
}

/** When the write began to which each version of an application is due; versions of a status follow the write before them. */
function beginnings(history: History, app: string): ReadonlyMap<Version, number> {
  const versions = history.versions.filter((version) => version.app === app);
  const begun = new Map([...explain(history, app, versions).at].map(([{ invoked }, index]) => [index, invoked]));
  let last = Number.NEGATIVE_INFINITY;
  return new Map(
    versions.map((version, index) => {
      last = begun.get(index) ?? last;
      return [version, last];
    }),
  );
}

/** Ready requires that the node's own agent saw a container with this value, image and rebuild run. */
function status(history: History): Finding[] {
  const findings: Finding[] = [];
  const made = new Map<string, EngineRecord & { what: 'create' }>();
  const seen = new Map<string, number[]>();
  for (const record of history.engine) {
    if (record.what === 'create') made.set(`${record.node}/${record.id}`, record);
    if (record.what !== 'seen') continue;
    const box = made.get(`${record.node}/${record.id}`);
    if (!box) continue;
    const key = claimKey(record.node, record.uuid, box);
    seen.set(key, [...(seen.get(key) ?? []), record.at]);
  }
  const said = new Set<string>();
  for (const versions of applications(history).values()) {
    let claim = '';
    let rebuilds: Readonly<Record<string, number>> = {};
    for (const { app, at, state, generation, ready, readyEntries, uuids, resourceVersion } of versions) {
      if (!state || state.deleting || !ready || ready.observedGeneration !== generation) continue;
      // A rebuild is an annotation and raises no generation: a status is about the rebuilds requested when it was written.
      const text = JSON.stringify([generation, ready, readyEntries]);
      if (text !== claim) rebuilds = state.rebuilds;
      claim = text;
      const wanted = wantedRuns({ ...state, rebuilds });
      const claimed = ready.status === 'True' ? [...wanted.keys()] : readyEntries.filter((name) => wanted.has(name));
      for (const name of claimed) {
        const entry = wanted.get(name);
        const uuid = uuids[name] ?? '';
        if (!entry) continue;
        const key = claimKey(entry.node, uuid, entry);
        const looks = seen.get(key) ?? [];
        if (looks.some((look) => look <= at && look >= at - MEMORY) || said.has(key)) continue;
        said.add(key);
        findings.push({
          app,
          uuid,
          at,
          text: `version ${resourceVersion} of ${app} calls ${name} ready (${ready.reason}), and nobody on ${entry.node} had seen ${entry.value} (rebuild ${entry.rebuild}) run`,
        });
      }
    }
  }
  return findings;
}

const claimKey = (
  node: string,
  uuid: string,
  { value, image, rebuild }: { value: string; image: string; rebuild: number },
) => `${node}/${uuid}/${value}/${image}/${rebuild}`;

/** A terminal echoes what was typed, a log has lines with numbers: some may be lost with a connection, none comes twice. */
function sessions({ operations }: History): Finding[] {
  return operations.flatMap((one) => {
    const { action, app, shown = [], typed = 0, invoked, answered = invoked } = one;
    if (action.kind !== 'session') return [];
    const wrong = shown.findIndex(
      (number, i) => number <= (shown[i - 1] ?? 0) || (action.what === 'exec' && number > typed),
    );
    if (wrong < 0) return [];
    const around = shown.slice(Math.max(0, wrong - 2), wrong + 1).join(', ');
    return [{ app, at: answered, text: `${describe(one)} showed ${around} after ${typed} numbers were typed` }];
  });
}

/** An application disappears only when no live machine runs it any more; `settles` checks that deletions end. */
function deletions(history: History): Finding[] {
  const findings: Finding[] = [];
  for (const [app, versions] of applications(history)) {
    for (const [index, { state, at }] of versions.entries()) {
      const before = versions[index - 1];
      if (state || !before) continue;
      for (const [name, uuid] of Object.entries(before.uuids)) {
        const node = before.state?.entries[name]?.node ?? '';
        const troubled = history.faults.some((fault) => fault.at <= at && (fault.until ?? fault.at) >= at - 60_000);
        const run = lastRun(history.engine, node, uuid, at);
        if (troubled || run === undefined || at - run.seenSince < REPORTED) continue;
        findings.push({
          app,
          uuid,
          at,
          text: `${app} was gone while ${node} still ran its ${name} and had known so for ${Math.round((at - run.seenSince) / 1000)} s`,
        });
      }
    }
  }
  return findings;
}

/** The run of a microservice at a given time, and since when its agent knew of it. */
function lastRun(
  engine: readonly EngineRecord[],
  node: string,
  uuid: string,
  at: number,
): { seenSince: number } | undefined {
  const seen = new Map<string, number>();
  const vanished = new Set<string>();
  for (const record of engine) {
    if (record.at > at) break;
    if (record.node !== node || record.uuid !== uuid) continue;
    if (record.what === 'vanish') vanished.add(record.id);
    if (record.what !== 'seen') seen.delete(record.id);
    // An observation that began before the container vanished may be recorded after it.
    else if (!seen.has(record.id) && !vanished.has(record.id)) seen.set(record.id, record.at);
  }
  return seen.size === 0 ? undefined : { seenSince: Math.min(...seen.values()) };
}

function settles({ end }: History): Finding[] {
  return [
    ...end.unsettled.map((text) => `not settled in time: ${text}`),
    ...end.restless.map((text) => `not at rest although settled: ${text}`),
    ...end.unmet,
  ].map((text) => ({ at: end.at, text }));
}

function applications({ versions }: History): Map<string, Version[]> {
  return Map.groupBy(versions, ({ app }) => app);
}

const whereOf = ({ uuid, at }: EngineRecord) => ({ uuid, at });

/** An operation in one line. */
export function describe({ id, user, door, app, action }: Operation): string {
  const { kind, ...rest } = action;
  const detail = Object.entries(rest)
    .map(([key, value]) => `${key}=${typeof value === 'object' ? entriesText(value as never) : value}`)
    .join(' ');
  return `${id} ${user}/${door} ${kind} ${app}${detail && ` ${detail}`}`;
}

const entriesText = (entries: Readonly<Record<string, { value: string; node: string }>>) =>
  `{${Object.entries(entries)
    .map(([name, { value, node }]) => `${name}: ${value} on ${node}`)
    .join(', ')}}`;
