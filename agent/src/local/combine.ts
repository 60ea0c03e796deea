import { LOCAL_APPLICATION } from '../../../src/api/names.ts';
import type { MicroserviceView } from '../../../src/wire/agent.ts';
import type { Entry } from '../domain/entry.ts';
import { isControlPlaneUuid, isLocalUuid } from '../domain/local-uuid.ts';
import type { Records } from '../domain/record.ts';
import { entryOf, type ViewRules } from '../domain/sent-microservices.ts';
import type { Desired } from '../domain/wanted.ts';
import type { LocalRow } from './row.ts';

/** An entry of the controller that may not become what runs here. */
export interface RefusedEntry {
  reason: string;
  message: string;
  application?: string | undefined;
  name?: string | undefined;
}

/** What a machine is to run by all its sources, and what follows for the rows and for the controller. */
export interface Combination extends Desired {
  /** rows whose microservices the controller has taken over */
  adopted: readonly string[];
  /** by uuid */
  refused: ReadonlyMap<string, RefusedEntry>;
  /** the control plane of this machine as its controller describes it, which changes nothing of it; by uuid */
  described: ReadonlyMap<string, MicroserviceView>;
}

export interface Sources {
  /** of the controller's list; undefined while that is not known */
  managed: readonly Entry[] | undefined;
  rows: ReadonlyMap<string, LocalRow>;
  /** uuids of rows that cannot be read */
  unreadable: ReadonlySet<string>;
  records: Records;
  rules: ViewRules;
  /** the runtime of the engine that a microservice of this machine means by this name; undefined: what it means cannot be read */
  runtimeOf(name: string): string | undefined;
  /** the list is of a controller whose membership has ended: it takes nothing over */
  isEnding?: boolean;
}

/**
 * Combines the entries of the controller with the microservices of the machine itself. Pure.
 *
 * Guarantees:
 * - the controller changes none of the machine's own: an entry with the uuid of one is refused, unless it was this controller's
 *   to begin with, by uuid, application and name, and was left to the machine;
 * - a row that is lost or damaged, and the damaged runtime class of one, leave its microservice as it is.
 */
export function combineSources(sources: Sources): Combination {
  const { managed, rows, unreadable, records } = sources;
  const adopted: string[] = [];
  const refused = new Map<string, RefusedEntry>();
  const described = new Map<string, MicroserviceView>();
  const accepted = (managed ?? []).flatMap((entry): Entry[] => {
    if (isControlPlaneUuid(entry.uuid) && rows.has(entry.uuid)) {
      if (entry.kind === 'run') described.set(entry.uuid, entry.view);
      return [];
    }
    const refusal = refusalOf(entry, sources);
    if (refusal) {
      refused.set(entry.uuid, { ...refusal, ...namesOf(entry) });
      return [];
    }
    const isHere = rows.has(entry.uuid) || unreadable.has(entry.uuid);
    if (isHere && sources.isEnding) return [];
    if (isHere) adopted.push(entry.uuid);
    return [isReserved(entry) ? reservedHold(entry) : entry];
  });
  const taken = new Set(adopted);
  const own = [...rows.values()].filter(({ uuid }) => !taken.has(uuid));
  const removed = own.filter(({ desiredState }) => desiredState === 'deleted');
  const wanted = own.filter(({ desiredState }) => desiredState !== 'deleted');
  const damaged = [...unreadable].filter((uuid) => !taken.has(uuid));
  return {
    entries: [
      ...accepted,
      ...wanted.map((row) => ownEntry(row, sources)),
      ...damaged.map((uuid) => damagedEntry(uuid, records)),
    ],
    removed: new Set(removed.map(({ uuid }) => uuid)),
    isListKnown: managed !== undefined,
    adopted,
    refused,
    described,
  };
}

/** Why the controller may not change what has this uuid. */
function refusalOf(entry: Entry, { rows, unreadable, records }: Sources): RefusedEntry | undefined {
  const { uuid } = entry;
  if (isLocalUuid(uuid))
    return {
      reason: 'LocalUuid',
      message: 'this uuid has the form of a microservice that was deployed on the machine',
    };
  const record = records.get(uuid);
  const kept = rows.get(uuid) ?? (unreadable.has(uuid) || record?.isKept ? record : undefined);
  if (!kept && !unreadable.has(uuid)) return undefined;
  const { application, name } = namesOf(entry);
  if (entry.kind === 'run' && kept?.application === application && kept?.name === name) return undefined;
  if (entry.kind === 'hold') return { reason: entry.reason, message: entry.message || 'the machine keeps it as it is' };
  const called = kept ? `${kept.application}.${kept.name}` : 'a microservice';
  const isRemoved = rows.get(uuid)?.desiredState === 'deleted';
  const fate = isRemoved
    ? 'which was removed, and whose volumes are on the machine'
    : 'which the machine keeps as its own';
  return { reason: 'KeptByMachine', message: `this uuid is of ${called}, ${fate}` };
}

function namesOf(entry: Entry): Pick<RefusedEntry, 'application' | 'name'> {
  const { application, name } = entry.kind === 'run' ? entry.view : entry;
  return { application, name };
}

/** Containers of this application would have the names of those that are deployed on the machine. */
const isReserved = (entry: Entry): boolean => namesOf(entry).application?.toLowerCase() === LOCAL_APPLICATION;

const reservedHold = (entry: Entry): Entry => ({
  kind: 'hold',
  uuid: entry.uuid,
  ...namesOf(entry),
  reason: 'ApplicationReserved',
  message: `the application name ${LOCAL_APPLICATION} is reserved for what is deployed on the machine itself`,
});

function ownEntry(row: LocalRow, { rules, runtimeOf }: Pick<Sources, 'rules' | 'runtimeOf'>): Entry {
  const { uuid, application, name, view, origin } = row;
  const own = { isStopped: row.desiredState === 'stopped', ...(origin === 'kept' && { isKept: true as const }) };
  const hold = { kind: 'hold' as const, uuid, application, name, ...own };
  if (!view)
    return {
      ...hold,
      reason: 'ViewUnknown',
      message: 'only its container is known: it is started again when it ends, and cannot be made again',
    };
  // What a kept one binds of the agent's files is in its view; the volume mounts of a later controller are others. So is its runtime.
  if (origin === 'kept') return { ...entryOf(view, { ...rules, resolve: undefined }), ...own };
  const runtime = view.runtime && runtimeOf(view.runtime);
  if (runtime === undefined)
    return {
      ...hold,
      reason: 'RuntimeClassUnreadable',
      message: `its runtime class ${view.runtime} cannot be read: it runs on as it is; deploy that class again`,
    };
  return { ...entryOf({ ...view, runtime }, rules), ...own };
}

function damagedEntry(uuid: string, records: Records): Entry {
  const { application, name } = records.get(uuid) ?? {};
  return {
    ...{ kind: 'hold', uuid, ...(application && { application }), ...(name && { name }) },
    ...(!isLocalUuid(uuid) && { isKept: true as const }),
    reason: 'RowUnreadable',
    message: `its file on this machine cannot be read: it runs on as it is; deploy it again, or remove it: skerry-agent ms rm ${uuid}`,
  };
}
