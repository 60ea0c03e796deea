import type { Door } from './history.ts';
import { type Action, MISSPELT, type Wanted } from './model.ts';
import { type Chance, chance } from './random.ts';

/** The plan of a story: which user does what, what breaks, and when. A pure function of the seed. */
export interface Story {
  seed: number;
  profile: Profile;
  /** number of controllers */
  replicas: number;
  engine: 'memory' | 'real';
  nodes: readonly string[];
  apps: readonly string[];
  users: readonly { name: string; steps: readonly UserStep[] }[];
  faults: readonly Fault[];
  /** how long faults are injected, ms */
  lasts: number;
}

export interface UserStep {
  id: string;
  /** pause before it, ms */
  pause: number;
  door: Door;
  app: string;
  action: Action;
}

/** One fault type for several kinds with the same members. */
type Each<Kind extends string, Members> = { [K in Kind]: { kind: K } & Members }[Kind];

/** A fault, `at` ms after the start. Nodes and replicas by number. */
export type Fault = { at: number } & (
  | { kind: 'agent killed'; node: number; forMs: number }
  /** killed, and its database is lost when it starts again; its identity is not */
  | { kind: 'agent forgets'; node: number; forMs: number }
  /** killed before or after its n-th next operation on the engine */
  | { kind: 'agent killed at a step'; node: number; steps: number; when: 'before' | 'after'; forMs: number }
  /** its containers end with it, as after a crash of the engine */
  | { kind: 'engine killed'; node: number; forMs: number }
  /** the next operations fail, or are carried out and then appear to fail */
  | { kind: 'engine errors'; node: number; count: number; when: 'before' | 'after' }
  | Each<'container ended' | 'container removed', { node: number; which: number }>
  | Each<'link cut' | 'link slow' | 'link half-open' | 'link deaf', { node: number; forMs: number }>
  | { kind: 'clock moved'; node: number; byMs: number }
  | { kind: 'controller killed'; replica: number; forMs: number }
  | {
      kind: 'controller killed at a write';
      replica: number;
      when: 'before' | 'after';
      writes: number;
      of: Writes;
      forMs: number;
    }
  | { kind: 'controller frozen'; replica: number; forMs: number }
  | { kind: 'API refuses'; replica: number; status: 409 | 429 | 500 | 503; count: number }
  /** it carries out requests, and its responses are lost */
  | { kind: 'API answer lost'; replica: number; count: number; of: Writes }
  | { kind: 'API watch expired'; replica: number }
  | { kind: 'API hangs'; replica: number; count: number }
  | { kind: 'API connections cut'; replica: number }
  | Each<'API half-open' | 'API down', { replica: number; forMs: number }>
  /** no request of any agent arrives until its node is UNKNOWN */
  | { kind: 'mass silence' }
);
type FaultKind = Fault['kind'];
/** Which writes of a controller: all, or only those that are not of a status. */
export type Writes = 'any' | 'specs';

/** The kind of faults of a story; the last digit of the seed selects it, so that ten consecutive seeds have all. */
export const PROFILES = [
  'everything',
  'agents',
  'engines',
  'links',
  'replicas',
  'API server',
  'clocks',
  'everything, replicated',
  'mass silence',
  'real engine',
] as const;
type Profile = (typeof PROFILES)[number];

const OF_AGENTS = ['agent killed', 'agent forgets', 'agent killed at a step', 'agent killed at a step'] as const;
const OF_ENGINES = ['engine killed', 'engine errors', 'container ended', 'container removed'] as const;
const OF_LINKS = ['link cut', 'link slow', 'link half-open', 'link deaf'] as const;
const OF_CONTROLLERS = ['controller killed', 'controller killed at a write', 'controller frozen'] as const;
const OF_API = [
  'API refuses',
  'API refuses',
  'API answer lost',
  'API watch expired',
  'API hangs',
  'API connections cut',
  'API half-open',
  'API down',
] as const;
/** All kinds of faults of the profile that combines them. */
export const ALL = [...OF_AGENTS, ...OF_ENGINES, ...OF_LINKS, ...OF_CONTROLLERS, ...OF_API, 'clock moved'] as const;

const KINDS: Record<Profile, readonly FaultKind[]> = {
  everything: ALL,
  agents: OF_AGENTS,
  engines: [...OF_ENGINES, ...OF_AGENTS],
  links: [...OF_LINKS, 'agent killed'],
  replicas: [...OF_CONTROLLERS, 'API half-open', 'API half-open', 'API down', 'link cut', 'link cut'],
  'API server': OF_API,
  clocks: ['clock moved', 'clock moved', 'agent killed', 'link cut'],
  'everything, replicated': ALL,
  'mass silence': [],
  'real engine': [
    ...OF_AGENTS,
    'container ended',
    'container removed',
    'link cut',
    'controller killed',
    'API answer lost',
  ],
};

const REPLICATED: ReadonlySet<Profile> = new Set(['replicas', 'everything, replicated']);
/** Images by colour; the runner knows their references. */
export const IMAGES = ['blue', 'green'] as const;
const ENTRIES = ['web', 'db'];
const APPS = ['plant', 'mill'];
const LASTS = 14_000;

export function generate(seed: number): Story {
  const chances = chance(seed);
  const profile = PROFILES[seed % PROFILES.length] as Profile;
  const replicas = REPLICATED.has(profile) ? 2 : 1;
  const nodes = [`n${seed}a`, `n${seed}b`];
  const apps = APPS.map((name) => `${name}-${seed}`);
  const lasts = profile === 'mass silence' ? 5_000 : LASTS;
  const users = ['ann', 'bob', 'eve'].map((name) => ({
    name,
    steps: steps(chances, { seed, name, apps, nodes, lasts }),
  }));
  const faults = profile === 'mass silence' ? [{ at: lasts, kind: 'mass silence' } as const] : [];
  return {
    seed,
    profile,
    replicas,
    engine: profile === 'real engine' ? 'real' : 'memory',
    nodes,
    apps,
    users: [
      ...users,
      { name: 'ida', steps: sessions(chance(seed ^ SESSIONS), { seed, name: 'ida', apps, nodes, lasts }) },
      { name: 'tom', steps: places(chance(seed ^ PLACES), { seed, name: 'tom', apps, nodes, lasts }) },
    ],
    faults: [...faults, ...troubles(chances, KINDS[profile], replicas, nodes.length)].sort((a, b) => a.at - b.at),
    lasts,
  };
}

interface Scene {
  seed: number;
  name: string;
  apps: readonly string[];
  nodes: readonly string[];
  lasts: number;
}

function steps(chances: Chance, { seed, name, apps, nodes, lasts }: Scene): UserStep[] {
  const list: UserStep[] = [];
  for (let time = 0; ; ) {
    const pause = list.length === 0 ? chances.between(0, 500) : chances.between(200, 2_500);
    time += pause;
    if (time > lasts) return list;
    const id = `${name[0]}${list.length + 1}`;
    const wanted = (): Wanted => ({ value: `v${seed}-${id}`, image: chances.pick(IMAGES), node: chances.pick(nodes) });
    const entry = chances.pick(ENTRIES);
    const some = () => Object.fromEntries(ENTRIES.filter(() => chances.happens(0.75)).map((each) => [each, wanted()]));
    // Each user begins with an action that creates the application.
    const action: Action =
      list.length === 0
        ? chances.pick<Action>([
            { kind: 'apply', entry, ...wanted() },
            { kind: 'create', entries: some() },
          ])
        : chances.weighted<() => Action>([
            [6, () => ({ kind: 'apply', entry, ...wanted() })],
            [2, () => ({ kind: 'create', entries: some() })],
            [3, () => ({ kind: 'replace', entries: some() })],
            [2, () => ({ kind: 'add', entry, ...wanted() })],
            [
              6,
              () => ({
                kind: 'patch',
                entry,
                value: `v${seed}-${id}`,
                ...(chances.happens(0.3) && { image: chances.pick(IMAGES) }),
              }),
            ],
            [1.5, () => ({ kind: 'remove', entry })],
            [1.5, () => ({ kind: 'stop', entry })],
            [2.5, () => ({ kind: 'start', entry })],
            [2, () => ({ kind: 'rebuild', entry })],
            [0.7, () => ({ kind: 'activate', active: false })],
            [1.4, () => ({ kind: 'activate', active: true })],
            [1, () => ({ kind: 'delete' })],
            [4, () => ({ kind: 'read' })],
          ])();
    list.push({ id, pause, door: doorFor(chances, action), app: chances.pick(apps), action });
  }
}

/** Sessions have chances of their own, so that they change no other part of a story. */
const SESSIONS = 0x5e5510;

function sessions(chances: Chance, { apps, lasts }: Scene): UserStep[] {
  const list: UserStep[] = [];
  for (let time = 0; ; ) {
    const pause = list.length === 0 ? chances.between(1_500, 3_000) : chances.between(100, 800);
    const forMs = chances.between(300, 3_500);
    time += pause + forMs;
    if (time > lasts) return list;
    const entry = chances.pick(ENTRIES);
    const what = chances.pick(['exec', 'log'] as const);
    const leaves = chances.pick(['closed', 'cut'] as const);
    const action: Action = { kind: 'session', entry, what, forMs, leaves };
    list.push({ id: `i${list.length + 1}`, pause, door: 'rest', app: chances.pick(apps), action });
  }
}

/** So has the user who misspells names of nodes, and sets them right. */
const PLACES = 0x91ace5;

function places(chances: Chance, { apps, nodes, lasts }: Scene): UserStep[] {
  const list: UserStep[] = [];
  for (let time = 0; ; ) {
    const pause = list.length === 0 ? chances.between(2_000, 4_000) : chances.between(500, 2_500);
    time += pause;
    if (time > lasts) return list;
    const node = chances.happens(0.6) ? MISSPELT : chances.pick(nodes);
    const action: Action = { kind: 'place', entry: chances.pick(ENTRIES), node };
    list.push({ id: `t${list.length + 1}`, pause, door: 'api', app: chances.pick(apps), action });
  }
}

/** The API surfaces over which an action is possible. */
function doorFor(chances: Chance, { kind }: Action): Door {
  switch (kind) {
    case 'apply':
      return chances.weighted<Door>([
        [1, 'kubectl'],
        [6, 'api'],
      ]);
    case 'create':
    case 'replace':
    case 'add':
      return chances.pick<Door>(['rest', 'yaml']);
    case 'patch':
    case 'remove':
    case 'delete':
    case 'activate':
      return chances.pick<Door>(['api', 'rest', 'rest']);
    default:
      return 'rest';
  }
}

function troubles(chances: Chance, kinds: readonly FaultKind[], replicas: number, nodes: number): Fault[] {
  if (kinds.length === 0) return [];
  const count = chances.between(4, 8);
  return Array.from({ length: count }, () => {
    const node = chances.between(0, nodes - 1);
    const replica = chances.between(0, replicas - 1);
    const forMs = chances.between(300, 5_000);
    const when = chances.pick(['before', 'after'] as const);
    const at = chances.between(500, LASTS - 1_000);
    const of = chances.pick(['any', 'specs'] as const);
    const kind = chances.pick(kinds);
    switch (kind) {
      case 'agent killed at a step':
        return { at, kind, node, steps: chances.between(1, 4), when, forMs };
      case 'engine errors':
        return { at, kind, node, count: chances.between(1, 2), when };
      case 'container ended':
      case 'container removed':
        return { at, kind, node, which: chances.between(0, 9) };
      case 'clock moved':
        return { at, kind, node, byMs: chances.pick([-3_600_000, -90_000, -20_000, 20_000, 90_000, 3_600_000]) };
      case 'controller killed at a write':
        return { at, kind, replica, when, writes: chances.between(1, 6), of, forMs };
      case 'API refuses':
        return { at, kind, replica, status: chances.pick([409, 429, 500, 503] as const), count: chances.between(1, 6) };
      case 'API answer lost':
        return { at, kind, replica, count: chances.between(1, 2), of };
      case 'API hangs':
        return { at, kind, replica, count: chances.between(1, 2) };
      case 'API watch expired':
      case 'API connections cut':
        return { at, kind, replica };
      case 'mass silence':
        return { at, kind };
      case 'controller killed':
      case 'controller frozen':
      case 'API half-open':
      case 'API down':
        return { at, kind, replica, forMs };
      default:
        return { at, kind, node, forMs };
    }
  });
}
