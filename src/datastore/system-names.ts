import { type Kind, referenceKey } from '../kinds/definition.ts';
import type { KindObject } from '../kinds/object.ts';
import { type Log, silentLog } from '../lib/log.ts';
import { EVERY_NAME, isJudged, type NamedObject, systemNamesData } from '../rules/system-names.ts';
import { CORE_KINDS } from '../subjects/content/kinds/core-objects.ts';
import { KINDS, type Kinds } from '../subjects/kinds.ts';
import { indexesOf } from './indexes.ts';
import { storeOf } from './stores.ts';
import { referrersOf } from './use.ts';

/** The names that applications of the system give to objects, by themselves or by what they name. */
export interface SystemNames extends Disposable {
  /** Data of the ConfigMap of the admission policy: of what the stores have. The same until a name changes. */
  data(): Readonly<Record<string, string>>;
}

/** Follows the stores of all kinds that refer to others: a change costs what its object refers to, whatever else is stored. */
export function trackSystemNames(
  stores: object,
  { kinds = KINDS, log = silentLog }: { kinds?: Kinds; log?: Log } = {},
): SystemNames {
  const sources = referrersOf(kinds).map((kind) => ({ kind, store: storeOf(stores, kind) }));
  const targets = targetsOf(kinds);
  /** how many objects have a reference, by plural and name */
  const counts = new Map<string, Map<string, number>>();
  let data: Record<string, string> | undefined;
  let unbounded = '';

  function add(key: string, factor: 1 | -1) {
    const named = namedBy(key, targets);
    if (!named) return;
    const names = counts.get(named.plural) ?? new Map<string, number>();
    counts.set(named.plural, names);
    const before = names.get(named.name) ?? 0;
    const after = before + factor;
    if (after === 0) names.delete(named.name);
    else names.set(named.name, after);
    if (before === 0 || after === 0) data = undefined;
  }

  function current(): Record<string, string> {
    const made = systemNamesData(new Map(Array.from(counts, ([plural, names]) => [plural, names.keys()])));
    const beyond = Object.keys(made)
      .filter((plural) => made[plural] === EVERY_NAME)
      .join(', ');
    if (beyond !== '' && beyond !== unbounded)
      log.warn(
        { kinds: beyond },
        'Applications of the system name too many objects of a kind: over kubectl only who may change the system creates or renames objects of this kind',
      );
    unbounded = beyond;
    return made;
  }

  const subscriptions = new DisposableStack();
  for (const { kind, store } of sources) {
    const { systemRef } = indexesOf(kind);
    const keysOf = (object?: KindObject): readonly string[] => (object && systemRef ? [...systemRef(object)] : []);
    for (const object of store.list()) for (const key of keysOf(object)) add(key, 1);
    subscriptions.use(
      store.subscribe(({ type, object, previous }) => {
        // First the new ones, so that a name that stays is always there.
        for (const key of keysOf(type === 'set' ? object : undefined)) add(key, 1);
        for (const key of keysOf(previous)) add(key, -1);
      }),
    );
  }

  return {
    data() {
      data ??= current();
      return data;
    },
    [Symbol.dispose]: () => subscriptions.dispose(),
  };
}

/** Finds whether an application of the system names a number of a kind, by its name in the Kubernetes API; takes constant time. */
export function createSystemNumbers(stores: object, kinds: Kinds): (kind: string, id: number) => boolean {
  const sources = referrersOf(kinds).map((kind) => storeOf(stores, kind));
  const keys = new Map(Object.values(kinds).map(({ key, definition }) => [definition.kind, key]));
  return (kind, ref) => {
    const to = keys.get(kind);
    return to !== undefined && sources.some((store) => store.countByIndex('systemRef', referenceKey({ to, ref })) > 0);
  };
}

interface Target {
  plural: string;
  /** Names and numbers of objects that exist from the start: they belong to these, whoever asks for them. */
  builtIn: ReadonlySet<string>;
}

/** The kinds whose objects a reference may mean, by key. Applications have rules of their own. */
const targetsOf = (kinds: Kinds): ReadonlyMap<string, Target> =>
  new Map(
    [...Object.values(kinds), ...(Object.values(CORE_KINDS) as unknown as Kind[])].flatMap((kind) => {
      const { key, definition, builtIns = [], isOfSystem } = kind;
      const builtIn = new Set(builtIns.flatMap(({ name, spec: { id } }) => [`name:${name}`, `id:${id}`]));
      return isOfSystem ? [] : [[key, { plural: definition.plural, builtIn }] as const];
    }),
  );

/** What a key of the index of references means, if the policy judges it: `registries/id:12`. */
function namedBy(key: string, targets: ReadonlyMap<string, Target>): NamedObject | undefined {
  const end = key.indexOf('/');
  const target = targets.get(key.slice(0, end));
  const name = key.slice(end + 1);
  if (!target || target.builtIn.has(name)) return undefined;
  const named = { plural: target.plural, name };
  return isJudged(named) ? named : undefined;
}
