import fc from 'fast-check';
import type { Example } from '../example.ts';
import { EXAMPLES } from '../examples.ts';
import type { Entry, Kind, NodeSettings } from './model.ts';

/**
 * Operations as they are drawn: names come from small pools, so that operations meet, and what a name means is decided when
 * the operation is carried out. That keeps a sequence meaningful while it shrinks.
 */

/** Over REST with a JSON body, over REST with a file, or at the Kubernetes API. */
export type Surface = 'json' | 'yaml' | 'kubectl';

/** The content of an object before its references are resolved. */
export interface RawDraft {
  text: string;
  isHub: boolean;
  files: boolean;
  image: string;
  registry: string;
  source: { to: 'secrets' | 'configMaps'; name: string };
  data: Readonly<Record<string, string>>;
  role: string;
}

export interface RawEntry extends Pick<Entry, 'models' | 'knowledge'> {
  node: string;
  byUuid: boolean;
  image: string;
  catalog?: string;
  registry?: string;
  template?: string;
  runtime?: string;
  mount?: NonNullable<Entry['mount']>;
  env?: { source: RawDraft['source']; key: string };
  role?: string;
  port?: number;
}

export type Operation =
  | { do: 'create' | 'change'; kind: Exclude<Kind, 'applications'>; name: string; draft: RawDraft; surface: Surface }
  | { do: 'delete'; kind: Kind; name: string; by: 'rest' | 'kubectl' | 'force' }
  | { do: 'duplicate'; kind: DuplicableKind; name: string; draft: RawDraft; entry: RawEntry; settings: NodeSettings }
  | { do: 'rename'; name: string; to: string }
  | {
      do: 'link' | 'unlink';
      kind: LinkableKind;
      name: string;
      node: string;
      byUuid: boolean;
      surface: 'rest' | 'kubectl';
    }
  | {
      do: 'apply';
      verb: 'create' | 'replace';
      name: string;
      entries: readonly (RawEntry & { name: string })[];
      surface: Surface;
    }
  | { do: 'configure'; name: string; settings: NodeSettings; surface: 'json' | 'kubectl' }
  | { do: 'instantiate'; name: string; template: string; image: string }
  | { do: 'activate'; name: string; isActivated: boolean; surface: 'json' | 'kubectl' }
  | { do: 'add' | 'set'; application: string; name: string; entry: RawEntry; surface: Surface }
  | { do: 'start' | 'stop' | 'rebuild' | 'remove'; application: string; name: string }
  | { do: 'bind'; kind: 'models' | 'knowledge'; application: string; name: string; items: readonly string[] }
  | { do: 'publish'; application: string; name: string; port: number }
  | { do: 'withdraw'; application: string; name: string };

/** Kinds of which kubectl can make two objects with one name. */
type DuplicableKind = 'nodes' | 'registries' | 'catalogItems' | 'applications';
type LinkableKind = 'runtimeClasses' | 'models' | 'knowledge' | 'volumeMounts';

/** The names of each kind that operations draw from. */
export const POOL = Object.fromEntries(
  Object.entries(EXAMPLES).map(([kind, { names }]) => [kind, names]),
) as unknown as Readonly<Record<Kind, Example['names']>>;

const from = <T>(items: readonly T[]) => fc.constantFrom(...items);
/** The first of a pool more often: it is there from the start. */
const named = (kind: Kind) => from([POOL[kind][0], POOL[kind][0], POOL[kind][0], ...POOL[kind]] as const);
const maybe = <T>(arbitrary: fc.Arbitrary<T>, freq = 2) => fc.option(arbitrary, { nil: undefined, freq });
const surface = from<Surface>(['json', 'yaml', 'kubectl']);
const source = fc.oneof(
  fc.record({ to: fc.constant('secrets' as const), name: named('secrets') }),
  fc.record({ to: fc.constant('configMaps' as const), name: named('configMaps') }),
);
const registry = from(['remote', 'remote', ...POOL.registries]);
const role = from(['microservice', 'agent-admin', 'nothing']);

const draft = fc.record<RawDraft>({
  text: from(['one', 'two']),
  isHub: from([false, false, true]),
  files: from([false, false, true]),
  image: from(['team/reader:1', 'team/reader:2']),
  registry,
  source,
  data: from<RawDraft['data']>([{ a: '1' }, { a: '2' }, { a: '1', b: '1' }]),
  role,
});

const names = (kind: 'models' | 'knowledge') =>
  fc.oneof(
    fc.constant([]),
    named(kind).map((one) => [one]),
  );
const entry: fc.Arbitrary<RawEntry> = fc
  .record({
    node: from(POOL.nodes),
    byUuid: fc.boolean(),
    image: from(['team/web:1', 'team/web:2']),
    catalog: maybe(named('catalogItems'), 3),
    registry: maybe(registry, 3),
    template: maybe(named('microserviceTemplates'), 6),
    runtime: maybe(named('runtimeClasses'), 4),
    models: names('models'),
    knowledge: names('knowledge'),
    mount: maybe(fc.record({ name: named('volumeMounts'), key: maybe(from(['a', 'b'])) }), 3),
    env: maybe(fc.record({ source, key: from(['a', 'b']) }), 3),
    role: maybe(role, 4),
    port: maybe(from([8080, 8081])),
  })
  .map(
    (one) => Object.fromEntries(Object.entries(one).filter(([, value]) => value !== undefined)) as unknown as RawEntry,
  );

/** A node that is there from the start, whose agent reports. */
export const LIVE_NODE = 'gateway-0';
const nodes = [...POOL.nodes, LIVE_NODE];
const settings: fc.Arbitrary<NodeSettings> = fc.record(
  {
    routerMode: from(['edge', 'edge', 'interior', 'none'] as const),
    busMode: from(['leaf', 'server', 'none'] as const),
    host: from(['a.example', 'b.example', '10.0.0.7']),
    networkRouter: from(nodes),
  },
  { requiredKeys: [] },
);

const plainKinds = (Object.keys(POOL) as Kind[]).filter((kind) => kind !== 'applications');
const at = { application: named('applications'), name: from(['web', 'web', 'db']) };
const ofKind = <R>(kinds: readonly Kind[], more: (kind: Kind) => fc.Arbitrary<R>) => fc.oneof(...kinds.map(more));

const operation: fc.Arbitrary<Operation> = fc.oneof(
  {
    weight: 8,
    arbitrary: ofKind(plainKinds, (kind) =>
      fc.record({
        do: from(['create', 'create', 'change']),
        kind: fc.constant(kind),
        name: named(kind),
        draft,
        surface,
      }),
    ) as fc.Arbitrary<Operation>,
  },
  {
    weight: 4,
    arbitrary: ofKind(Object.keys(POOL) as Kind[], (kind) =>
      fc.record({
        do: fc.constant('delete' as const),
        kind: fc.constant(kind),
        name: named(kind),
        by: from(['rest', 'rest', 'kubectl', 'force'] as const),
      }),
    ),
  },
  {
    weight: 2,
    arbitrary: ofKind(['nodes', 'registries', 'catalogItems', 'applications'], (kind) =>
      fc.record({
        do: fc.constant('duplicate' as const),
        kind: fc.constant(kind),
        name: named(kind),
        draft,
        entry,
        settings,
      }),
    ) as fc.Arbitrary<Operation>,
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('rename' as const),
      name: named('applicationTemplates'),
      to: from([...POOL.applicationTemplates, 'other']),
    }),
  },
  {
    weight: 2,
    arbitrary: ofKind(['runtimeClasses', 'models', 'knowledge', 'volumeMounts'], (kind) =>
      fc.record({
        do: from(['link', 'link', 'unlink']),
        kind: fc.constant(kind),
        name: named(kind),
        node: from(POOL.nodes),
        byUuid: fc.boolean(),
        surface: from(['rest', 'rest', 'kubectl']),
      }),
    ) as fc.Arbitrary<Operation>,
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('apply' as const),
      verb: from(['create', 'create', 'replace'] as const),
      name: named('applications'),
      entries: fc
        .record({ web: maybe(entry), db: maybe(entry) }, { requiredKeys: [] })
        .map((all) => Object.entries(all).flatMap(([name, one]) => (one ? [{ ...one, name }] : []))),
      surface,
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('configure' as const),
      name: from(nodes),
      settings,
      surface: from(['json', 'kubectl'] as const),
    }),
  },
  fc.record({
    do: fc.constant('instantiate' as const),
    name: named('applications'),
    template: named('applicationTemplates'),
    image: from(['team/reader:1', 'team/reader:2']),
  }),
  fc.record({
    do: fc.constant('activate' as const),
    name: named('applications'),
    isActivated: fc.boolean(),
    surface: from(['json', 'kubectl'] as const),
  }),
  { weight: 12, arbitrary: fc.record({ do: from(['add', 'set', 'set'] as const), ...at, entry, surface }) },
  {
    weight: 6,
    arbitrary: fc.record({ do: from(['start', 'start', 'stop', 'stop', 'rebuild', 'remove'] as const), ...at }),
  },
  fc.oneof(
    fc.record({
      do: fc.constant('bind' as const),
      kind: fc.constant('models' as const),
      ...at,
      items: names('models'),
    }),
    fc.record({
      do: fc.constant('bind' as const),
      kind: fc.constant('knowledge' as const),
      ...at,
      items: names('knowledge'),
    }),
  ),
  fc.record({ do: fc.constant('publish' as const), ...at, port: from([8080, 8081]) }),
  fc.record({ do: fc.constant('withdraw' as const), ...at }),
);

/** The kinds that an operation is about; one on an entry is about applications. */
const kindOf = (one: Operation): Kind => {
  if ('kind' in one) return one.kind;
  if (one.do === 'configure') return 'nodes';
  return one.do === 'rename' ? 'applicationTemplates' : 'applications';
};

/** Each sequence leaves some kinds alone, so that more happens to the others. */
export const sequence: fc.Arbitrary<Operation[]> = fc
  .tuple(
    fc.subarray(Object.keys(POOL) as Kind[], { maxLength: 9 }),
    fc.array(operation, { minLength: 1, maxLength: 40, size: 'max' }),
  )
  .map(([left, all]) => all.filter((one) => !left.includes(kindOf(one))));
