import { describe, expect, test } from 'vitest';
import { CHECKERS, check } from './check.ts';
import { ALL, generate, PROFILES } from './generate.ts';
import type { EngineRecord, FaultRecord, History, Operation, Version } from './history.ts';
import { type Action, type AppState, apply, MISSPELT, stateText } from './model.ts';

/**
 * Each checker gets a correct history, in which it must find nothing, and the same one with one false claim or one fault
 * of the product in it, which it must find.
 */

const wanted = (value: string, node = 'n1') => ({ value, image: 'blue', node });
const UUID = 'uuid-web';

/** Records a history step by step, as the runner would. */
class Scribe {
  #at = 0;
  #states = new Map<string, AppState | undefined>();
  #generation = 0;
  #box = 0;
  operations: Operation[] = [];
  versions: Version[] = [];
  engine: EngineRecord[] = [];
  faults: FaultRecord[] = [];
  end: History['end'] = { at: 1e6, unsettled: [], restless: [], unmet: [] };

  later(ms: number): this {
    this.#at += ms;
    return this;
  }

  /** An operation with a response. The stored state is separate: `stored`. */
  asks(action: Action, outcome: Operation['outcome'] = 'done', read?: Record<string, string>): this {
    const id = `o${this.operations.length + 1}`;
    this.operations.push({
      id,
      user: 'ann',
      door: 'rest',
      app: 'plant',
      action,
      invoked: this.#at,
      answered: this.#at + 40,
      outcome,
      read,
    });
    this.#at += 20;
    return this;
  }

  /** The API server has a new version: the result of an action on the last one, or the given state. */
  stored(change: Action | { state: AppState | undefined }, status?: Partial<Version>): this {
    const before = this.#states.get('plant');
    const state = 'state' in change ? change.state : apply(change, before);
    this.#states.set('plant', state);
    this.versions.push({
      app: 'plant',
      uid: 'uid',
      at: this.#at,
      resourceVersion: String(this.versions.length + 1),
      state,
      generation: ++this.#generation,
      uuids: { web: UUID },
      readyEntries: [],
      ...status,
    });
    this.#at += 40;
    return this;
  }

  /** A terminal that showed these numbers, of which so many were typed; or a log, when none was. */
  watches(typed: number, ...shown: number[]): this {
    const what = typed > 0 ? 'exec' : 'log';
    this.asks({ kind: 'session', entry: 'web', what, forMs: 900, leaves: 'cut' });
    Object.assign(this.operations.at(-1) as Operation, { typed, shown });
    return this;
  }

  /** `asks` and `stored`. */
  does(action: Action): this {
    return this.asks(action).stored(action);
  }

  /** The status of the last version is written again. */
  says(status: string, reason = 'AllRunning'): this {
    const last = this.versions.at(-1) as Version;
    this.versions.push({
      ...last,
      at: this.#at,
      resourceVersion: String(this.versions.length + 1),
      ready: { status, reason, message: '', observedGeneration: last.generation },
    });
    this.#at += 20;
    return this;
  }

  engineDid(what: EngineRecord['what'], more: Record<string, unknown> = {}): this {
    const id = `c${this.#box}`;
    this.engine.push({ at: this.#at, node: 'n1', uuid: UUID, id, what, ...more } as EngineRecord);
    this.#at += 10;
    return this;
  }

  makes(value: string, rebuild = 0): this {
    this.#box++;
    return this.engineDid('create', { value, image: 'blue', rebuild });
  }

  runs(value: string, rebuild = 0): this {
    return this.makes(value, rebuild).engineDid('start', { reason: 'New' }).engineDid('seen');
  }

  box(number: number): this {
    this.#box = number;
    return this;
  }

  written(): History {
    return { seed: 0, ...this };
  }
}

/** A correct history to start from. */
const good = () =>
  new Scribe()
    .does({ kind: 'create', entries: { web: wanted('v1') } })
    .runs('v1')
    .says('True')
    .asks({ kind: 'read' }, 'done', { web: 'v1' })
    .does({ kind: 'patch', entry: 'web', value: 'v2' })
    .makes('v2')
    .box(1)
    .engineDid('stop', { reason: 'Replacing' })
    .box(2)
    .engineDid('start', { reason: 'Replacement' })
    .engineDid('seen')
    .box(1)
    .engineDid('remove')
    .box(2)
    .says('True')
    .later(20_000);

const found = (scribe: Scribe) => check(scribe.written()).map(({ checker, text }) => `${checker}: ${text}`);

test('no checker finds a violation in a correct history', () => {
  const scribe = good()
    .engineDid('exit', { because: 'fault' })
    .engineDid('start', { reason: 'Crashed' })
    .watches(9, 1, 2, 5, 9)
    .watches(0, 700, 701, 708)
    .does({ kind: 'rebuild', entry: 'web' })
    .makes('v2', 1)
    .box(2)
    .engineDid('stop')
    .box(3)
    .engineDid('start')
    .does({ kind: 'delete' })
    .engineDid('stop')
    .engineDid('remove')
    .stored({ state: undefined });
  expect(found(scribe)).toEqual([]);
});

test('no checker blames a write without effect for a later change to the same state', () => {
  const scribe = new Scribe()
    .does({ kind: 'create', entries: { web: wanted('v1') } })
    .asks({ kind: 'activate', active: true })
    .does({ kind: 'activate', active: false })
    .asks({ kind: 'read' }, 'done', { web: 'v1' })
    .does({ kind: 'patch', entry: 'web', value: 'v2' })
    .does({ kind: 'activate', active: true })
    .makes('v2');
  expect(found(scribe)).toEqual([]);
});

/** Histories in which a checker must find a violation, and what it says. */
const FORGED: Record<keyof typeof CHECKERS, Record<string, [(scribe: Scribe) => Scribe, RegExp]>> = {
  'no acknowledged write is lost': {
    'an acknowledged write that no version has': [
      (s) => s.asks({ kind: 'patch', entry: 'web', value: 'v3' }),
      /o4 .* no version has it/,
    ],
    'a write that another one overwrote with an older state': [
      (s) => {
        const stale = {
          active: true,
          entries: { web: { ...wanted('v2'), active: true } },
          rebuilds: {},
          deleting: false,
        };
        return s
          .does({ kind: 'add', entry: 'db', ...wanted('v3') })
          .asks({ kind: 'stop', entry: 'web' })
          .stored({ state: { ...stale, entries: { web: { ...stale.entries.web, active: false } } } });
      },
      /nobody's write: from \[db=v3/,
    ],
    'one rebuild carried out twice': [
      (s) => s.does({ kind: 'rebuild', entry: 'web' }).stored({ kind: 'rebuild', entry: 'web' }),
      /nobody's write.*rebuilt 2x/,
    ],
    'a write that was refused and carried out': [
      (s) => s.asks({ kind: 'stop', entry: 'web' }, 'refused').stored({ kind: 'stop', entry: 'web' }),
      /was refused .* and carried out/,
    ],
  },
  'a read is never older than a write acknowledged before it': {
    'a read that shows the state before an acknowledged write': [
      (s) => s.asks({ kind: 'read' }, 'done', { web: 'v1' }),
      /showed \[web=v1\].*\[web=v2\]/,
    ],
  },
  'a session shows what there is, once and in its order': {
    'a terminal that shows something twice': [
      (s) => s.watches(9, 1, 2, 2),
      /showed 1, 2, 2 after 9 numbers were typed/,
    ],
    'a terminal that shows what was not typed': [(s) => s.watches(3, 1, 4), /showed 1, 4 after 3/],
    'a log whose lines come again': [(s) => s.watches(0, 700, 701, 700), /showed 700, 701, 700/],
  },
  'no container is started twice or restarted without a listed reason': {
    'a container that is stopped because a user opens a terminal': [
      (s) => s.watches(2, 1, 2).engineDid('stop'),
      /stopped v2 .* which was wanted all the time/,
    ],
    'a container that is stopped because the name of its node is misspelt': [
      (s) =>
        s
          .asks({ kind: 'place', entry: 'web', node: MISSPELT })
          .stored({ kind: 'place', entry: 'web', node: MISSPELT }, { places: { web: 'n1' } })
          .engineDid('stop', { reason: 'NoLongerWanted' })
          .later(1_000)
          .does({ kind: 'patch', entry: 'web', value: 'v3' }),
      /stopped v2 \(NoLongerWanted\), which was wanted all the time/,
    ],
    'two containers that run at the same time': [
      (s) => s.does({ kind: 'patch', entry: 'web', value: 'v3' }).runs('v3'),
      /started v3 while v2 of the same microservice ran/,
    ],
    'a second container of the same revision': [
      (s) => s.engineDid('exit', { because: 'fault' }).makes('v2'),
      /second container of v2/,
    ],
    'a container that was stopped although it was wanted all the time': [
      (s) => s.engineDid('stop', { reason: 'NoLongerWanted' }),
      /stopped v2 \(NoLongerWanted\), which was wanted all the time/,
    ],
    'a container that was removed and created again without a change': [
      (s) => s.engineDid('exit', { because: 'fault' }).engineDid('remove').makes('v2'),
      /had removed the container of v2 and made it again/,
    ],
    'a start for a reason that is not in the list': [
      (s) => s.engineDid('exit', { because: 'fault' }).engineDid('start', { reason: 'Whim' }),
      /not in the list: Whim/,
    ],
  },
  'the newest revision wins': {
    'a container of an older revision created after one of a newer revision': [
      (s) => s.does({ kind: 'remove', entry: 'web' }).engineDid('stop').engineDid('remove').makes('v1'),
      /made v1 .* after the newer v2/,
    ],
    'a revision that no write asked for': [(s) => s.makes('v9'), /v9, which nobody/],
  },
  'the status never claims what was not observed': {
    'ready before the agent saw the container run': [
      (s) => s.does({ kind: 'patch', entry: 'web', value: 'v3' }).makes('v3').says('True'),
      /calls web ready .* nobody on n1 had seen v3/,
    ],
    'ready after a rebuild with the container from before it': [
      (s) => s.does({ kind: 'rebuild', entry: 'web' }).says('False', 'Updating').says('True'),
      /nobody on n1 had seen v2 \(rebuild 1\)/,
    ],
  },
  'a deletion ends, and not before the machine has stopped the containers': {
    'an application that disappears while its container runs': [
      (s) => s.does({ kind: 'delete' }).later(1_000).stored({ state: undefined }),
      /gone while n1 still ran its web/,
    ],
  },
  'everything settles': {
    'a deletion that never ends': [
      (s) => Object.assign(s, { end: { ...s.end, unsettled: ['plant is still being deleted: undefined'] } }),
      /still being deleted/,
    ],
    'a silent node that never becomes UNKNOWN': [
      (s) => Object.assign(s, { end: { ...s.end, unmet: ['n1 was silent and was never called UNKNOWN'] } }),
      /never called UNKNOWN/,
    ],
  },
};

describe('the checker finds the violation', () => {
  const all = Object.entries(FORGED).flatMap(([checker, histories]) =>
    Object.entries(histories).map(([history, [forge, text]]) => [checker, history, forge, text] as const),
  );
  test.each(all)('%s: %s', (checker, _, forge, text) => {
    expect(found(good())).toEqual([]);
    const own = CHECKERS[checker as keyof typeof CHECKERS](forge(good()).written()).map((one) => one.text);
    expect(own).toEqual([expect.stringMatching(text)]);
  });

  test('there is a history with a violation for every checker', () => {
    expect(Object.keys(FORGED).sort()).toEqual(Object.keys(CHECKERS).sort());
  });
});

describe('no checker finds a violation when', () => {
  test('a write without a response is carried out, or is not', () => {
    const lost = good().asks({ kind: 'stop', entry: 'web' }, 'unknown');
    expect(found(lost)).toEqual([]);
    expect(
      found(good().asks({ kind: 'stop', entry: 'web' }, 'unknown').later(9_000).stored({ kind: 'stop', entry: 'web' })),
    ).toEqual([]);
  });

  test('a write that changes nothing has no version', () => {
    expect(found(good().asks({ kind: 'start', entry: 'web' }))).toEqual([]);
  });

  test('a read during a write shows the state before or after it', () => {
    for (const shown of ['v2', 'v3'])
      expect(
        found(good().asks({ kind: 'read' }, 'done', { web: shown }).does({ kind: 'patch', entry: 'web', value: 'v3' })),
      ).toEqual([]);
  });

  test('the old container is started again when its successor cannot run', () => {
    const back = good()
      .does({ kind: 'patch', entry: 'web', value: 'v3' })
      .makes('v3')
      .box(2)
      .engineDid('stop', { reason: 'Replacing' })
      .engineDid('start', { reason: 'Returned' });
    expect(found(back)).toEqual([]);
  });
});

describe('the generator of stories', () => {
  test('makes the same story from the same seed, and another one from another seed', () => {
    expect(generate(7)).toEqual(generate(7));
    expect(JSON.stringify(generate(7).users)).not.toBe(JSON.stringify(generate(17).users));
  });

  test('uses every profile within any ten consecutive seeds', () => {
    const profiles = Array.from({ length: 10 }, (_, i) => generate(i + 3).profile);
    expect(new Set(profiles)).toEqual(new Set(PROFILES));
  });

  test('uses every fault and every API surface within 60 seeds', () => {
    const stories = Array.from({ length: 60 }, (_, seed) => generate(seed));
    const kinds = new Set(stories.flatMap(({ faults }) => faults.map(({ kind }) => kind)));
    expect(kinds).toEqual(new Set([...ALL, 'mass silence']));
    const doors = new Set(stories.flatMap(({ users }) => users.flatMap(({ steps }) => steps.map(({ door }) => door))));
    expect([...doors].sort()).toEqual(['api', 'kubectl', 'rest', 'yaml']);
  });

  test('gives every write of a story a unique value', () => {
    const { users } = generate(4);
    const texts = users.flatMap(({ steps }) =>
      steps.flatMap(({ action }) => ('value' in action ? [action.value] : [])),
    );
    expect(new Set(texts).size).toBe(texts.length);
  });
});

describe('the model', () => {
  const state = apply({ kind: 'create', entries: { web: wanted('v1'), db: wanted('v1') } }, undefined);
  const cases: [Action, string][] = [
    [{ kind: 'patch', entry: 'web', value: 'v2' }, 'db=v1 blue on n1; web=v2 blue on n1'],
    [{ kind: 'stop', entry: 'db' }, 'db=v1 blue on n1 stopped; web=v1 blue on n1'],
    [{ kind: 'place', entry: 'db', node: 'n2' }, 'db=v1 blue on n2; web=v1 blue on n1'],
    [{ kind: 'remove', entry: 'db' }, 'web=v1 blue on n1'],
    [{ kind: 'replace', entries: { web: wanted('v3', 'n2') } }, 'web=v3 blue on n2'],
    [{ kind: 'rebuild', entry: 'web' }, 'db=v1 blue on n1; web=v1 blue on n1 rebuilt 1x'],
    [{ kind: 'activate', active: false }, 'inactive; db=v1 blue on n1; web=v1 blue on n1'],
    [{ kind: 'delete' }, 'deleting; db=v1 blue on n1; web=v1 blue on n1'],
    [{ kind: 'create', entries: {} }, 'absent'],
    [{ kind: 'add', entry: 'web', ...wanted('v2') }, 'absent'],
  ];
  test.each(cases)('applies %j to the state as expected', (action, text) => {
    expect(stateText(apply(action, state))).toBe(text);
  });
});
