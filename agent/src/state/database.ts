import type { DocumentName, StoredDocument } from '../domain/desired.ts';
import type { MicroserviceRecord } from '../domain/record.ts';
import { newRecord } from '../domain/record.ts';

/**
 * What the agent keeps between starts, apart from its identity. It is a cache: all of it can be had again from the
 * controller and from the labels of the containers.
 *
 * Guarantee: what a method has returned from survives a loss of power; a method that throws has changed nothing.
 */
export interface Store extends Disposable {
  /** What the controller said, by document. */
  documents(): Map<DocumentName, StoredDocument>;
  /** Replaces some of them, all or none. */
  saveDocuments(documents: ReadonlyMap<DocumentName, StoredDocument>): void;
  /** What is remembered of each microservice. */
  rows(): Map<string, MicroserviceRecord>;
  saveRows(changed: readonly MicroserviceRecord[], removed: readonly string[]): void;
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
  trouble(): string | undefined;
}

/**
 * instance: a copy of the identity's instance id, should that file be lost. bootId: the machine's boot that the rows were
 * last saved in. orders: JSON counters of orders carried out. ending: the controller deletes this node. epochPosition:
 * sealed, of the datastore behind the controller that sent what runs here; it outlives a provisioning, since the containers
 * do. notOlderThan: bound of the responses that the documents came with.
 */
export const VALUES = ['instance', 'bootId', 'orders', 'ending', 'epochPosition', 'notOlderThan'] as const;
export type ValueName = (typeof VALUES)[number];

/** A row as it is saved: what is known only while the process lives stays out. */
export function rowText({ live, ...row }: MicroserviceRecord): string {
  return JSON.stringify(row);
}

/** Reads what rowText wrote; members that an older version did not write get their defaults. */
export function parseRow(text: string): MicroserviceRecord | undefined {
  try {
    const row = JSON.parse(text) as Partial<MicroserviceRecord>;
    return typeof row.uuid === 'string' ? { ...newRecord(row.uuid), ...row, live: {} } : undefined;
  } catch {
    return undefined;
  }
}

/** A store that dies with the process: for simulations and tests. */
export function memoryStore(): Store {
  const documents = new Map<DocumentName, StoredDocument>();
  const rows = new Map<string, string>();
  const images = new Map<string, string>();
  const values = new Map<ValueName, string>();
  return {
    documents: () => new Map(documents),
    saveDocuments: (changed) => {
      for (const [name, document] of changed) documents.set(name, document);
    },
    rows: () => readRows(rows.values()),
    saveRows: (changed, removed) => {
      for (const row of changed) rows.set(row.uuid, rowText(row));
      for (const uuid of removed) rows.delete(uuid);
    },
    images: () => new Map(images),
    saveImage: (id, reference) => void images.set(id, reference),
    forgetImage: (id) => void images.delete(id),
    value: (name) => values.get(name),
    saveValue: (name, value) => void (value === undefined ? values.delete(name) : values.set(name, value)),
    forgetController: () => documents.clear(),
    trouble: () => undefined,
    [Symbol.dispose]: () => {},
  };
}

/** Adds everything of one store to another. */
export function copyStore(from: Store, to: Store): void {
  to.saveDocuments(from.documents());
  to.saveRows([...from.rows().values()], []);
  for (const [id, reference] of from.images()) to.saveImage(id, reference);
  for (const name of VALUES) to.saveValue(name, from.value(name));
}

/** Rows by microservice; a row that cannot be read is left out. */
export function readRows(texts: Iterable<string>): Map<string, MicroserviceRecord> {
  const rows = new Map<string, MicroserviceRecord>();
  for (const text of texts) {
    const row = parseRow(text);
    if (row) rows.set(row.uuid, row);
  }
  return rows;
}
