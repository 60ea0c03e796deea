import type { SavedName } from '../../../src/wire/sections.ts';
import type { SavedResponse } from '../domain/desired.ts';
import type { MicroserviceRecord } from '../domain/record.ts';
import { newRecord } from '../domain/record.ts';

/**
 * The state of the agent between starts, apart from its identity. It is a cache: all of it can be read again from the
 * controller and the labels of the containers.
 *
 * Guarantee: what a method has returned from survives a loss of power; a method that throws has changed nothing.
 */
export interface Database extends Disposable {
  /** The saved responses of the controller, by name. */
  responses(): Map<SavedName, SavedResponse>;
  /** Replaces some of them, all or none. */
  saveResponses(responses: ReadonlyMap<SavedName, SavedResponse>): void;
  /** The record of each microservice. */
  records(): Map<string, MicroserviceRecord>;
  saveRecords(changed: readonly MicroserviceRecord[], removed: readonly string[]): void;
  /** Images that this agent pulled, so that it may remove them: id to reference. */
  images(): Map<string, string>;
  saveImage(id: string, reference: string): void;
  forgetImage(id: string): void;
  /** Single values. */
  value(name: ValueName): string | undefined;
  saveValue(name: ValueName, value: string | undefined): void;
  /** Forgets everything that came from a controller; what is remembered of containers stays. */
  forgetController(): void;
  /** Why nothing can be saved at the moment, as far as that is known without trying. */
  problem(): string | undefined;
}

/**
 * instance: a copy of the identity's instance id, should that file be lost. bootId: the machine's boot that the rows were
 * last saved in. actions: JSON counters of actions carried out. ending: the controller deletes this node. epochPosition:
 * sealed, of the datastore behind the controller that sent what runs here; it outlives a provisioning, since the containers
 * do. notOlderThan: bound of the responses that the documents came with. imageAccess: JSON, the credentials that images were
 * pulled with (image-access.ts). unreferencedVolumes: JSON, since when nothing wants volumes, and countedTime: ms, by which that
 * is counted (content/volumes).
 */
const VALUES = [
  'instance',
  'bootId',
  'actions',
  'ending',
  'epochPosition',
  'notOlderThan',
  'imageAccess',
  'unreferencedVolumes',
  'countedTime',
] as const;
export type ValueName = (typeof VALUES)[number];

/** A row as it is saved: what is known only while the process lives stays out. */
export function recordText({ live, ...row }: MicroserviceRecord): string {
  return JSON.stringify(row);
}

/** Reads what rowText wrote; members that an older version did not write get their defaults. */
function parseRecord(text: string): MicroserviceRecord | undefined {
  try {
    const row = JSON.parse(text) as Partial<MicroserviceRecord>;
    return typeof row.uuid === 'string' ? { ...newRecord(row.uuid), ...row, live: {} } : undefined;
  } catch {
    return undefined;
  }
}

/** A database in memory: the content of a file that cannot be opened where it is. */
export function memoryDatabase(): Database {
  const responses = new Map<SavedName, SavedResponse>();
  const rows = new Map<string, string>();
  const images = new Map<string, string>();
  const values = new Map<ValueName, string>();
  return {
    responses: () => new Map(responses),
    saveResponses: (changed) => {
      for (const [name, document] of changed) responses.set(name, document);
    },
    records: () => readRecords(rows.values()),
    saveRecords: (changed, removed) => {
      for (const row of changed) rows.set(row.uuid, recordText(row));
      for (const uuid of removed) rows.delete(uuid);
    },
    images: () => new Map(images),
    saveImage: (id, reference) => void images.set(id, reference),
    forgetImage: (id) => void images.delete(id),
    value: (name) => values.get(name),
    saveValue: (name, value) => void (value === undefined ? values.delete(name) : values.set(name, value)),
    forgetController: () => responses.clear(),
    problem: () => undefined,
    [Symbol.dispose]: () => {},
  };
}

/** Adds everything of one database to another. */
export function copyDatabase(from: Database, to: Database): void {
  to.saveResponses(from.responses());
  to.saveRecords([...from.records().values()], []);
  for (const [id, reference] of from.images()) to.saveImage(id, reference);
  for (const name of VALUES) to.saveValue(name, from.value(name));
}

/** Rows by microservice; a row that cannot be read is left out. */
export function readRecords(texts: Iterable<string>): Map<string, MicroserviceRecord> {
  const rows = new Map<string, MicroserviceRecord>();
  for (const text of texts) {
    const row = parseRecord(text);
    if (row) rows.set(row.uuid, row);
  }
  return rows;
}
