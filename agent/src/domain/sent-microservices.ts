import {
  type MicroserviceHold,
  type MicroserviceView,
  microserviceHoldSchema,
  microserviceViewSchema,
  type RetainUnlisted,
  retainUnlistedSchema,
  type ServiceAccountView,
} from '../../../src/wire/agent.ts';
import { containerDigest } from './digest.ts';
import { type Entry, type HoldEntry, POLICY_REFUSED } from './entry.ts';
import { isPlainName } from './names.ts';
import { isOfMachine } from './registry-number.ts';
import type { Resolution } from './volume-mounts.ts';

/** The list of microservices that the controller sent, as far as this agent can read it. */
export interface SentMicroservices {
  items: readonly (HoldEntry | { kind: 'view'; view: MicroserviceView })[];
  /** the views as they were sent, by microservice: for the names of entries on hold, and for inspection */
  views: ReadonlyMap<string, MicroserviceView>;
  /** as whom microservices on hold ask the local API, as far as the controller says it */
  heldAccounts: ReadonlyMap<string, ServiceAccountView>;
  /** uuids of all items, also of those that cannot be read */
  named: ReadonlySet<unknown>;
  /** the agent retains what the list does not name */
  retainUnlisted?: RetainUnlisted;
}

/** What this machine says to a view. */
export interface ViewRules {
  /** why a microservice may not run here */
  refusal(view: MicroserviceView): string | undefined;
  /** what its container binds of the agent's files, or why it has to wait for them; absent: the view as it is */
  resolve?: ((view: MicroserviceView) => Resolution) | undefined;
  /** what its image is pulled by; undefined while its registry is not known */
  pullReference?(view: MicroserviceView): string | undefined;
}

/** Unreadable is not the same as absent. */
const UNREADABLE_RETAIN_UNLISTED: RetainUnlisted = { reason: 'DatastoreRestored', acceptEpoch: '', position: '' };

/** A view of a controller. With a number of the machine's own registries it would get the credentials of the machine. */
const sentViewSchema = microserviceViewSchema.refine(({ registryId }) => !isOfMachine(registryId), {
  path: ['registryId'],
  error: 'a registry of a controller has a positive number',
});

/** Reads a response. An item that cannot be read becomes a hold and does not affect the others. */
export function readMicroservices(list: readonly unknown[], retainUnlisted: unknown): SentMicroservices {
  const read = list.map((item) => ({
    item,
    view: sentViewSchema.safeParse(item),
    hold: microserviceHoldSchema.safeParse(item).data,
  }));
  return {
    items: read.flatMap(({ item, ...parsed }) => itemOf(item, parsed) ?? []),
    views: new Map(read.flatMap(({ view: { data } }) => (data ? [[data.uuid, data]] : []))),
    heldAccounts: new Map(read.flatMap(({ hold }) => (hold?.serviceAccount ? [[hold.uuid, hold.serviceAccount]] : []))),
    named: new Set(list.map((item) => (item as { uuid?: unknown } | null)?.uuid)),
    retainUnlisted:
      retainUnlisted === undefined
        ? undefined
        : (retainUnlistedSchema.safeParse(retainUnlisted).data ?? UNREADABLE_RETAIN_UNLISTED),
  };
}

function itemOf(
  item: unknown,
  { view, hold }: { view: ReturnType<typeof sentViewSchema.safeParse>; hold: MicroserviceHold | undefined },
): SentMicroservices['items'][number] | undefined {
  const { uuid, delete: deleted } = (item ?? {}) as { uuid?: unknown; delete?: unknown };
  if (typeof uuid !== 'string' || deleted === true) return undefined;
  // It becomes a part of names and paths, and a uuid of any other form is of no container here.
  if (!isPlainName(uuid)) return undefined;
  if (hold) {
    const { reason, message, application, name } = hold;
    return { kind: 'hold', uuid, reason, message, application, name };
  }
  if (view.success) return { kind: 'view', view: view.data };
  const wrong = view.error.issues[0];
  const message = `the controller's view cannot be read: ${wrong?.path.join('.')}: ${wrong?.message}`;
  return { kind: 'hold', uuid, reason: 'NotUnderstood', message, ...namesOf(item) };
}

/** What people call a microservice, as far as its view says so. */
function namesOf(item: unknown): Pick<HoldEntry, 'application' | 'name'> {
  return microserviceHoldSchema.pick({ application: true, name: true }).safeParse(item).data ?? {};
}

/** The desired entries. Undefined without a list that can be read: then absence of an entry means nothing. */
export function desiredEntries(
  sent: SentMicroservices | undefined,
  rules: ViewRules,
  /** microservices that this agent runs */
  known: Iterable<string> = [],
): Entry[] | undefined {
  if (!sent) return undefined;
  const entries = sent.items.map((item) => (item.kind === 'hold' ? item : entryOf(item.view, rules)));
  const { retainUnlisted } = sent;
  if (!retainUnlisted) return entries;
  const message = 'the controller no longer has this microservice; it runs on until an operator accepts the datastore';
  const retained = unnamed(sent, known).map(
    (uuid): Entry => ({ kind: 'hold', uuid, reason: retainUnlisted.reason, message }),
  );
  return [...entries, ...retained];
}

/** The microservices that the list does not name. */
export function unnamed({ named }: SentMicroservices, known: Iterable<string>): string[] {
  return [...known].filter((uuid) => !named.has(uuid));
}

/** The entry of a view on this machine. */
export function entryOf(view: MicroserviceView, { refusal, resolve, pullReference }: ViewRules): Entry {
  const { uuid, application, name } = view;
  const names = { application, name };
  const refused = refusal(view);
  if (refused) return { kind: 'hold', uuid, reason: POLICY_REFUSED, message: refused, ...names };
  const resolved = resolve?.(view) ?? { view };
  if (!('view' in resolved)) return { kind: 'hold', uuid, ...names, ...resolved };
  const { view: wanted } = resolved;
  return { kind: 'run', uuid, view: wanted, digest: containerDigest(wanted), pullReference: pullReference?.(wanted) };
}

/** The views as they were sent, and of what is to run those that its containers are made from. */
export function viewsAsMade(
  sent: ReadonlyMap<string, MicroserviceView> = new Map(),
  desired: readonly Entry[] = [],
): ReadonlyMap<string, MicroserviceView> {
  const made = desired.flatMap((entry): [string, MicroserviceView][] =>
    entry.kind === 'run' ? [[entry.uuid, entry.view]] : [],
  );
  return new Map([...sent, ...made]);
}
