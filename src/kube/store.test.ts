import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { CONFIG_MAPS, type ConfigMap, makeConfigMap } from './_util.ts';
import { type KubeObject, keyOf } from './object.ts';
import { type Change, createStore, type StoreOptions, selectionQuery, selects } from './store.ts';

function makeStore(options: Partial<StoreOptions<ConfigMap>> = {}) {
  const store = createStore<ConfigMap>({ resource: CONFIG_MAPS, ...options });
  const changes: Change<ConfigMap>[] = [];
  store.subscribe((change) => changes.push(change));
  const reported = () =>
    changes.splice(0).map(({ type, key, object }) => `${type} ${key} ${object.metadata.resourceVersion}`);
  const version = (name: string) => store.get('test', name)?.metadata.resourceVersion;
  return { store, changes, reported, version };
}

describe('a store', () => {
  test('is synced after its first list, whose objects it reports as initial', async () => {
    const { store, changes } = makeStore();
    expect(store.synced).toBe(false);
    store.swap([makeConfigMap('a', 1)], '5');
    await store.whenSynced();
    expect(changes).toMatchObject([{ type: 'set', key: 'test/a', initial: true }]);
    store.set(makeConfigMap('b', 6));
    expect(changes[1]).toMatchObject({ key: 'test/b', initial: false });
  });

  test('rejects whenSynced with the reason of an aborted signal', async () => {
    const { store } = makeStore();
    const controller = new AbortController();
    const waiting = store.whenSynced(controller.signal);
    controller.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
  });

  test('is changed by a new list in one step: the first listener that is called sees all changes', () => {
    const { store } = makeStore();
    store.swap([makeConfigMap('old', 1), makeConfigMap('kept', 2)], '5');
    const seen: string[][] = [];
    store.subscribe(() =>
      seen.push(
        store
          .list()
          .map((object) => object.metadata.name)
          .sort(),
      ),
    );
    store.swap([makeConfigMap('kept', 2), makeConfigMap('new-1', 6), makeConfigMap('new-2', 7)], '9');
    expect(seen).toEqual([
      ['kept', 'new-1', 'new-2'],
      ['kept', 'new-1', 'new-2'],
      ['kept', 'new-1', 'new-2'],
    ]);
  });

  test('reports nothing and keeps every version when a new list has no changes', () => {
    const { store, reported } = makeStore();
    store.swap([makeConfigMap('a', 1)], '5');
    reported();
    const before = [store.version, store.versionOf('test', 'a'), store.list()] as const;
    store.swap([makeConfigMap('a', 1)], '9');
    expect(reported()).toEqual([]);
    expect([store.version, store.versionOf('test', 'a'), store.list()]).toEqual(before);
    expect(store.list()).toBe(before[2]);
  });

  test('reports an object that was deleted and created again as a delete and a set, from a watch and from a list', () => {
    const { store, reported } = makeStore();
    store.swap([makeConfigMap('a', 1, { uid: 'first' }), makeConfigMap('b', 1, { uid: 'first' })], '5');
    reported();
    store.set(makeConfigMap('a', 7, { uid: 'second' }));
    expect(reported()).toEqual(['delete test/a 1', 'set test/a 7']);
    store.swap([makeConfigMap('a', 7, { uid: 'second' }), makeConfigMap('b', 8, { uid: 'second' })], '9');
    expect(reported()).toEqual(['delete test/b 1', 'set test/b 8']);
  });

  test('reports the last state of a deleted object and the state before it', () => {
    const { store, changes } = makeStore();
    store.swap([makeConfigMap('a', 1)], '5');
    store.remove(makeConfigMap('a', 7));
    expect(changes.at(-1)).toMatchObject({
      type: 'delete',
      object: { metadata: { resourceVersion: '7' } },
      previous: { metadata: { resourceVersion: '1' } },
    });
  });

  test('drops managedFields', () => {
    const { store } = makeStore();
    store.swap([makeConfigMap('a', 1, { managedFields: [{}] })], '5');
    store.set(makeConfigMap('b', 6, { managedFields: [{}] }));
    store.observe(makeConfigMap('c', 7, { managedFields: [{}] }));
    expect(store.list().map((object) => Object.keys(object.metadata).includes('managedFields'))).toEqual([
      false,
      false,
      false,
    ]);
  });

  test('freezes its objects in tests, and copies observed ones', () => {
    const { store } = makeStore();
    const written = makeConfigMap('a', 7);
    store.observe(written);
    const stored = store.get('test', 'a') as ConfigMap;
    expect(() => {
      (stored.data as Record<string, string>).version = 'mine';
    }).toThrow(TypeError);
    (written.data as Record<string, string>).version = 'changed later';
    expect(stored.data?.version).toBe('7');
  });

  test('calls the other listeners when one listener throws', () => {
    const { store } = makeStore();
    const seen: string[] = [];
    store.subscribe(() => {
      throw new Error('bug');
    });
    store.subscribe((change) => seen.push(change.key));
    store.swap([makeConfigMap('a', 1)], '5');
    expect(seen).toEqual(['test/a']);
  });

  test('reports nothing to a subscription that was disposed', () => {
    const { store } = makeStore();
    const seen: string[] = [];
    const listener = (change: Change<ConfigMap>) => seen.push(change.key);
    const first = store.subscribe(listener);
    store.subscribe(listener);
    first[Symbol.dispose]();
    store.set(makeConfigMap('a', 1));
    expect(seen).toEqual(['test/a']);
  });
});

describe('own writes', () => {
  const synced = () => {
    const made = makeStore();
    made.store.swap([makeConfigMap('a', 10)], '10');
    made.reported();
    return made;
  };

  test('are visible to the next read, before any watch event', () => {
    const { store, reported, version } = synced();
    store.observe(makeConfigMap('a', 12));
    store.observe(makeConfigMap('b', 13));
    expect([version('a'), version('b')]).toEqual(['12', '13']);
    expect(reported()).toEqual(['set test/a 12', 'set test/b 13']);
  });

  test('are reported once: the watch event of the same write leads to no change', () => {
    const { store, reported } = synced();
    store.observe(makeConfigMap('a', 12));
    reported();
    store.set(makeConfigMap('a', 12));
    expect(reported()).toEqual([]);
  });

  test('are not undone by older events that arrive later', () => {
    const { store, version } = synced();
    store.observe(makeConfigMap('a', 12));
    store.set(makeConfigMap('a', 11));
    expect(version('a')).toBe('12');
  });

  test('are not undone by a list that was taken before them', () => {
    const { store, version } = synced();
    store.observe(makeConfigMap('a', 12));
    store.observe(makeConfigMap('b', 13));
    store.swap([makeConfigMap('a', 10)], '11');
    expect([version('a'), version('b')]).toEqual(['12', '13']);
  });

  test('do not restore an object after the watch sent its deletion', () => {
    const { store, version } = synced();
    store.set(makeConfigMap('b', 12));
    store.remove(makeConfigMap('b', 13));
    store.observe(makeConfigMap('b', 12));
    expect(version('b')).toBeUndefined();
  });

  test('stay after a first list that is older, and are replaced by one that is newer', () => {
    const { store, version } = makeStore();
    store.observe(makeConfigMap('newer', 12));
    store.observe(makeConfigMap('deleted-since', 8));
    store.swap([], '10');
    expect([version('newer'), version('deleted-since')]).toEqual(['12', undefined]);
  });

  test('include a deletion, which is visible at once and which older events do not undo', () => {
    const { store, reported, version } = synced();
    store.observeGone({ namespace: 'test', name: 'a' }, 'uid-a');
    expect(reported()).toEqual(['delete test/a 10']);
    store.set(makeConfigMap('a', 11));
    store.swap([makeConfigMap('a', 11)], '11');
    expect(version('a')).toBeUndefined();
    store.remove(makeConfigMap('a', 12));
    expect(reported()).toEqual([]);
    store.set(makeConfigMap('a', 13, { uid: 'its successor' }));
    expect(version('a')).toBe('13');
  });

  test('include a deletion during the first list, which then does not add the object', () => {
    const { store, version } = makeStore();
    store.observeGone({ namespace: 'test', name: 'a' }, 'uid-a');
    store.swap([makeConfigMap('a', 10)], '10');
    expect(version('a')).toBeUndefined();
  });

  test('include a deletion of an unknown object, which an older list and older events do not undo', () => {
    const { store, version } = synced();
    store.observeGone({ namespace: 'test', name: 'b' }, 'uid-b');
    store.swap([makeConfigMap('a', 10)], '10');
    store.set(makeConfigMap('b', 11));
    expect(version('b')).toBeUndefined();
  });

  test('include a deletion whose response is late, which does not hide a later object with the same name', () => {
    const { store, version } = synced();
    store.remove(makeConfigMap('a', 12));
    store.set(makeConfigMap('a', 13, { uid: 'second' }));
    store.observeGone({ namespace: 'test', name: 'a' }, 'uid-a');
    expect(version('a')).toBe('13');
  });

  test('that take an object out of the selection remove it from the store, until it is selected again', () => {
    const { store, version } = makeStore({ selection: { labels: { app: 'x' } } });
    const labelled = (at: number, app: string) => makeConfigMap('a', at, { labels: { app } });
    store.swap([labelled(10, 'x')], '10');
    store.observe(labelled(12, 'y'));
    expect(version('a')).toBeUndefined();
    store.set(labelled(11, 'x'));
    expect(version('a')).toBeUndefined();
    store.set(labelled(14, 'x'));
    expect(version('a')).toBe('14');
  });

  test('of objects outside of the selection are ignored', () => {
    const { store } = makeStore({ selection: { namespace: 'test', labels: { app: 'x' } } });
    store.observe(makeConfigMap('a', 12));
    store.observe(makeConfigMap('b', 12, { namespace: 'other', labels: { app: 'x' } }));
    expect(store.size).toBe(0);
  });
});

test('a list with an older version than before replaces everything, own writes included', () => {
  const { store, version } = makeStore();
  store.swap([makeConfigMap('a', 100), makeConfigMap('b', 101)], '110');
  expect([store.latest, store.seenTo]).toEqual(['101', '110']);
  store.observe(makeConfigMap('c', 120));
  store.swap([makeConfigMap('a', 50)], '60');
  expect([store.latest, store.seenTo]).toEqual(['50', '60']);
  expect([version('a'), version('b'), version('c')]).toEqual(['50', undefined, undefined]);
  store.set(makeConfigMap('a', 61));
  store.observe(makeConfigMap('b', 62));
  expect([version('a'), version('b')]).toEqual(['61', '62']);
});

describe('an index', () => {
  const byOwner = { owner: (object: ConfigMap) => (object.metadata.labels?.owner ?? '').split('.').filter(Boolean) };
  const owned = (name: string, at: number, owner: string) => makeConfigMap(name, at, { labels: { owner } });
  const names = (objects: readonly KubeObject[]) => objects.map((object) => object.metadata.name).sort();

  test('finds objects under all keys that they have and not under former ones', () => {
    const { store } = makeStore({ indexes: byOwner });
    store.swap([owned('a', 1, 'x.y'), owned('b', 2, 'x')], '5');
    expect(names(store.byIndex('owner', 'x'))).toEqual(['a', 'b']);
    expect(names(store.byIndex('owner', 'y'))).toEqual(['a']);
    expect(['x', 'y', 'z'].map((key) => store.countByIndex('owner', key))).toEqual([2, 1, 0]);
    store.set(owned('a', 6, 'y.z'));
    store.remove(owned('b', 7, 'x'));
    expect([store.byIndex('owner', 'x'), names(store.byIndex('owner', 'z'))]).toEqual([[], ['a']]);
    expect(store.byIndex('owner', 'y')[0]?.metadata.resourceVersion).toBe('6');
    expect(['x', 'y', 'z'].map((key) => store.countByIndex('owner', key))).toEqual([0, 1, 1]);
  });

  test('has a version per key that changes exactly when an object under the key is changed, added or removed', () => {
    const { store } = makeStore({ indexes: byOwner });
    store.swap([owned('a', 1, 'x'), owned('b', 2, 'y')], '5');
    const version = () => store.indexVersion('owner', 'x');
    const first = version();
    store.set(owned('b', 6, 'y'));
    expect(version()).toBe(first);
    store.set(owned('a', 7, 'x'));
    const changed = version();
    store.set(owned('c', 8, 'x'));
    const came = version();
    store.set(owned('c', 9, 'y'));
    const left = version();
    store.remove(owned('a', 10, 'x'));
    expect(new Set([first, changed, came, left, version()]).size).toBe(5);
    expect(version()).toBe(0);
  });

  test('that was not declared is an error, not an empty result', () => {
    expect(() => makeStore().store.byIndex('owner', 'x')).toThrow(TypeError);
  });
});

test('the query of a selection and its predicate select the same objects', () => {
  expect(selectionQuery({ namespace: 'n', labels: { b: '2', a: '1' }, name: 'x' })).toEqual({
    namespace: 'n',
    labelSelector: 'a=1,b=2',
    fieldSelector: 'metadata.name=x',
  });
  expect(selectionQuery({})).toEqual({});
  const object = makeConfigMap('x', 1, { labels: { a: '1', b: '2' } });
  expect(selects({ namespace: 'test', labels: { a: '1' }, name: 'x' }, object)).toBe(true);
  expect(selects({ labels: { a: '2' } }, object)).toBe(false);
  expect(selects({ namespace: 'n' }, object)).toBe(false);
  expect(selects({ name: 'y' }, object)).toBe(false);
});

/**
 * A server with three names, a store that follows it with a delay, and a writer whose responses come at any time. In any
 * order of these: no read goes back, a completed write is visible, the reported changes are sufficient to rebuild the
 * store, and finally the store equals the server.
 */
test('in any order of events, lists and responses reads never go back, and finally the store equals the server', () => {
  const names = ['a', 'b', 'c'];
  const step = fc.oneof(
    { weight: 4, arbitrary: fc.record({ do: fc.constantFrom('write', 'foreign'), name: fc.constantFrom(...names) }) },
    {
      weight: 2,
      arbitrary: fc.record({ do: fc.constantFrom('delete', 'foreign-delete'), name: fc.constantFrom(...names) }),
    },
    { weight: 5, arbitrary: fc.record({ do: fc.constantFrom('event', 'answer'), name: fc.constant('') }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('list', 'swap', 'bookmark'), name: fc.constant('') }) },
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 120, size: 'max' }), (steps) => {
      let now = 100;
      const server = new Map<string, ConfigMap>();
      let events: { deleted: boolean; object: ConfigMap }[] = [];
      const answers: (() => void)[] = [];
      let list: { objects: ConfigMap[]; at: number } | undefined;
      const { store } = makeStore({ freeze: false });
      const rebuilt = new Map<string, string | undefined>();
      store.subscribe((change) => {
        expect(rebuilt.has(change.key)).toBe(change.previous !== undefined);
        if (change.type === 'set') rebuilt.set(change.key, change.object.metadata.resourceVersion);
        else rebuilt.delete(change.key);
      });
      store.swap([], String(now));
      /** Highest version read of each name, an absence counting as the version at which the deletion was confirmed. */
      const floor = new Map<string, number>();
      const check = () => {
        for (const name of names) {
          const read = store.get('test', name)?.metadata.resourceVersion;
          if (read === undefined) continue;
          expect(Number(read)).toBeGreaterThanOrEqual(floor.get(name) ?? 0);
          floor.set(name, Number(read));
        }
      };
      const confirmed = (name: string, at: number) => floor.set(name, Math.max(at, floor.get(name) ?? 0));

      const write = (name: string, own: boolean) => {
        const known = server.get(name);
        const object = makeConfigMap(name, ++now, { uid: known?.metadata.uid ?? `uid-${now}` });
        server.set(name, object);
        events.push({ deleted: false, object });
        if (!own) return;
        const at = now;
        answers.push(() => {
          store.observe(structuredClone(object));
          confirmed(name, at);
          const read = store.get('test', name)?.metadata.resourceVersion;
          // Visible, or already replaced by a newer state or by the deletion.
          const overtaken = events.every((event) => Number(event.object.metadata.resourceVersion) > at);
          if (read === undefined) expect(overtaken || gone.has(object.metadata.uid as string)).toBe(true);
        });
      };
      const gone = new Set<string>();
      const remove = (name: string, own: boolean) => {
        const known = server.get(name);
        if (!known) return;
        const at = ++now;
        server.delete(name);
        events.push({
          deleted: true,
          object: { ...structuredClone(known), metadata: { ...known.metadata, resourceVersion: String(at) } },
        });
        if (!own) return;
        const uid = known.metadata.uid as string;
        answers.push(() => {
          store.observeGone({ namespace: 'test', name }, uid);
          gone.add(uid);
          expect(store.get('test', name)?.metadata.uid).not.toBe(uid);
        });
      };
      const deliver = () => {
        const event = events.shift();
        if (!event) return;
        if (event.deleted) store.remove(structuredClone(event.object));
        else store.set(structuredClone(event.object));
      };
      const swap = () => {
        if (!list) return;
        const { objects, at } = list;
        list = undefined;
        store.swap(structuredClone(objects), String(at));
        // The watch continues from the version of the list.
        events = events.filter((event) => Number(event.object.metadata.resourceVersion) > at);
      };
      const actions: Record<string, (name: string) => void> = {
        write: (name) => write(name, true),
        foreign: (name) => write(name, false),
        delete: (name) => remove(name, true),
        'foreign-delete': (name) => remove(name, false),
        event: deliver,
        answer: () => answers.shift()?.(),
        list: () => {
          list ??= { objects: [...server.values()], at: now };
        },
        swap,
        bookmark: () => {
          if (events.length === 0) store.progress(String(now));
        },
      };
      for (const { do: action, name } of steps) {
        // There is no watch during a list.
        if (list && action === 'event') continue;
        actions[action]?.(name);
        check();
        for (const uid of gone) expect(store.list().every((object) => object.metadata.uid !== uid)).toBe(true);
      }
      swap();
      while (events.length > 0) {
        deliver();
        check();
      }
      for (const answer of answers) answer();
      const state = (objects: Iterable<ConfigMap>) =>
        [...objects].map((object) => `${keyOf(object)} ${object.metadata.resourceVersion}`).sort();
      expect(state(store.list())).toEqual(state(server.values()));
      expect([...rebuilt].map(([key, version]) => `${key} ${version}`).sort()).toEqual(state(server.values()));
    }),
    { numRuns: 1000 },
  );
});

test('bookmarks raise seenTo and not latest, and own writes raise latest and not seenTo', () => {
  const store = createStore<ConfigMap>({ resource: CONFIG_MAPS });
  const both = () => [store.latest, store.seenTo];
  expect(both()).toEqual([undefined, undefined]);
  store.swap([makeConfigMap('a', 3)], '5');
  expect(both()).toEqual(['3', '5']);
  store.progress('9');
  expect(both()).toEqual(['3', '9']);
  store.set(makeConfigMap('b', 12));
  expect(both()).toEqual(['12', '12']);
  store.remove(makeConfigMap('b', 14));
  expect(both()).toEqual(['14', '14']);
  // An own write, before its watch event.
  store.observe(makeConfigMap('a', 20));
  expect(both()).toEqual(['20', '14']);
});
