/**
 * The model: what an Application is to the users of a story, and what each of their operations makes of it. Pure.
 *
 * Every write carries a unique text (`value`), so that a version of an object shows which writes it contains.
 */

/** The state of one microservice that users ask for. */
export interface EntryState {
  /** environment variable VALUE: unique to the write that set it */
  value: string;
  image: string;
  /** name of the node */
  node: string;
  active: boolean;
}

/** The state of one application that users ask for. Undefined in its place: it does not exist. */
export interface AppState {
  active: boolean;
  entries: Readonly<Record<string, EntryState>>;
  /** rebuilds ever requested, by entry; they outlive the entry */
  rebuilds: Readonly<Record<string, number>>;
  deleting: boolean;
}

export type Wanted = Omit<EntryState, 'active'>;

/** What a user does to an application. */
export type Action =
  /** server-side apply of the application with this one entry */
  | ({ kind: 'apply'; entry: string } & Wanted)
  | { kind: 'create'; entries: Readonly<Record<string, Wanted>> }
  /** sets the whole state: entries that are not named are removed */
  | { kind: 'replace'; entries: Readonly<Record<string, Wanted>> }
  | ({ kind: 'add'; entry: string } & Wanted)
  | { kind: 'patch'; entry: string; value: string; image?: string }
  /** names another node, perhaps one that does not exist */
  | { kind: 'place'; entry: string; node: string }
  | { kind: 'remove'; entry: string }
  | { kind: 'start' | 'stop' | 'rebuild'; entry: string }
  | { kind: 'activate'; active: boolean }
  | { kind: 'delete' }
  | { kind: 'read' }
  | SessionAction;

/** A terminal or a log that a user has open for a while; it changes nothing. */
export interface SessionAction {
  kind: 'session';
  entry: string;
  what: 'exec' | 'log';
  forMs: number;
  /** whether the user closes the socket, or is cut off */
  leaves: 'closed' | 'cut';
}

/** The state after an action; undefined when the action is refused or has no meaning in that state. */
export function apply(action: Action, state: AppState | undefined): AppState | undefined {
  switch (action.kind) {
    case 'apply': {
      const { value, image, node } = action;
      const before = state?.entries[action.entry];
      return withEntry(state ?? EMPTY, action.entry, { value, image, node, active: before?.active ?? true });
    }
    case 'create':
      return state ? undefined : { ...EMPTY, entries: entriesOf(action.entries, {}) };
    case 'replace':
      return state && { ...state, entries: entriesOf(action.entries, state.entries) };
    case 'add':
      if (!state || state.entries[action.entry]) return undefined;
      return withEntry(state, action.entry, {
        value: action.value,
        image: action.image,
        node: action.node,
        active: true,
      });
    case 'remove': {
      if (!state?.entries[action.entry]) return undefined;
      const { [action.entry]: _, ...entries } = state.entries;
      return { ...state, entries };
    }
    case 'patch':
      return change(state, action.entry, { value: action.value, ...(action.image && { image: action.image }) });
    case 'place':
      return change(state, action.entry, { node: action.node });
    case 'start':
    case 'stop':
      return change(state, action.entry, { active: action.kind === 'start' });
    case 'rebuild': {
      if (!state?.entries[action.entry]) return undefined;
      const count = (state.rebuilds[action.entry] ?? 0) + 1;
      return { ...state, rebuilds: { ...state.rebuilds, [action.entry]: count } };
    }
    case 'activate':
      return state && { ...state, active: action.active };
    case 'delete':
      return state && { ...state, deleting: true };
    case 'read':
    case 'session':
      return undefined;
  }
}

/** A name of a node that no node of a story has. */
export const MISSPELT = 'misspelt';

const EMPTY: AppState = { active: true, entries: {}, rebuilds: {}, deleting: false };

const withEntry = (state: AppState, name: string, entry: EntryState): AppState => ({
  ...state,
  entries: { ...state.entries, [name]: entry },
});

function change(state: AppState | undefined, name: string, changes: Partial<EntryState>): AppState | undefined {
  const entry = state?.entries[name];
  return state && entry && withEntry(state, name, { ...entry, ...changes });
}

function entriesOf(
  wanted: Readonly<Record<string, Wanted>>,
  before: AppState['entries'],
): Readonly<Record<string, EntryState>> {
  return Object.fromEntries(
    Object.entries(wanted).map(([name, entry]) => [name, { ...entry, active: before[name]?.active ?? true }]),
  );
}

/** Whether two states are the same to users. */
export const sameState = (a: AppState | undefined, b: AppState | undefined): boolean => stateText(a) === stateText(b);

/** A state in one line, equal for equal states. */
export function stateText(state: AppState | undefined): string {
  if (!state) return 'absent';
  const entries = Object.keys(state.entries)
    .sort()
    .map((name) => {
      const { value, image, node, active } = state.entries[name] as EntryState;
      const rebuilds = state.rebuilds[name] ?? 0;
      return `${name}=${value} ${image} on ${node}${active ? '' : ' stopped'}${rebuilds ? ` rebuilt ${rebuilds}x` : ''}`;
    });
  const left = Object.keys(state.rebuilds)
    .filter((name) => !state.entries[name] && state.rebuilds[name])
    .sort()
    .map((name) => `(${name} rebuilt ${state.rebuilds[name]}x)`);
  const flags = [state.active ? '' : 'inactive', state.deleting ? 'deleting' : ''].filter(Boolean);
  return [...flags, ...entries, ...left].join('; ') || 'empty';
}

/** The desired containers by entry, without stopped entries. */
export function wantedRuns(state: AppState | undefined): ReadonlyMap<string, EntryState & { rebuild: number }> {
  const runs = new Map<string, EntryState & { rebuild: number }>();
  if (!state?.active || state.deleting) return runs;
  for (const [name, entry] of Object.entries(state.entries))
    if (entry.active) runs.set(name, { ...entry, rebuild: state.rebuilds[name] ?? 0 });
  return runs;
}
