import { createHash } from 'node:crypto';
import { join } from 'node:path';
import type { z } from 'zod';
import { jsonOr } from '../domain/json.ts';
import { isPlainName } from '../domain/names.ts';
import { listDirectory, readText, removeDurably, removePath, writeDurably } from '../machine/disk.ts';

/**
 * Rows of state that exist on this machine alone, a file each: what is damaged in one leaves the others.
 *
 * Guarantees: a row that `save` has returned from survives a loss of power; a save or removal that throws leaves the former
 * row; a file that cannot be read is never overwritten by reading it, and is not taken for an absent row.
 */
export interface Rows<T> {
  /** by id */
  readonly all: ReadonlyMap<string, T>;
  /** ids of files that cannot be read, each with the reason, without content of the file */
  readonly unreadable: ReadonlyMap<string, string>;
  /** Adds or replaces a row; the id has to be a plain name. Throws when it cannot be written. */
  save(id: string, row: T): void;
  /** Removes a row, also one that cannot be read; one that does not exist is no error. Throws when it cannot be removed. */
  remove(id: string): void;
}

const EXTENSION = '.json';
/** What a write that was interrupted left: it may hold a password that was since changed or removed. */
const LEFTOVER = /\.json\.\d+\.tmp$/;

/** Opens the rows in a directory, which is made with the first row. A row is JSON of the schema's output, which it has to accept as input. */
export function openRows<T>(directory: string, schema: z.ZodType<T>): Rows<T> {
  const all = new Map<string, T>();
  const unreadable = new Map<string, string>();
  const fileOf = (id: string) => {
    if (!isPlainName(id)) throw new TypeError(`"${id}" is not a plain name`);
    return join(directory, id + EXTENSION);
  };
  for (const name of listDirectory(directory)) {
    const id = name.endsWith(EXTENSION) ? name.slice(0, -EXTENSION.length) : '';
    if (LEFTOVER.test(name)) removeLeftover(join(directory, name));
    if (!isPlainName(id)) continue;
    const row = readRow(join(directory, name), schema);
    if (row && 'value' in row) all.set(id, row.value);
    else if (row) unreadable.set(id, row.problem);
  }
  return {
    all,
    unreadable,
    save: (id, row) => {
      const file = fileOf(id);
      writeDurably(file, sealed(row), 0o600);
      all.set(id, row);
      unreadable.delete(id);
    },
    remove: (id) => {
      const file = fileOf(id);
      if (!all.has(id) && !unreadable.has(id)) return;
      removeDurably(file);
      all.delete(id);
      unreadable.delete(id);
    },
  };
}

/** The JSON texts of the rows in the folders of a directory, damaged ones too, for a search; by path. */
export function rowTexts(directory: string): Map<string, string> {
  const paths = listDirectory(directory).flatMap((folder) =>
    listDirectory(join(directory, folder)).map((name) => join(directory, folder, name)),
  );
  return new Map(paths.map((path) => [path, readText(path)?.split('\n')[1] ?? '']));
}

/** On a disk that cannot be written it stays until another start. */
function removeLeftover(path: string): void {
  try {
    removePath(path);
  } catch {}
}

/** The digest tells a damaged row from another one: a flipped bit may leave valid JSON. */
function sealed(row: unknown): string {
  const text = JSON.stringify(row);
  return `${digestOf(text)}\n${text}\n`;
}

function readRow<T>(path: string, schema: z.ZodType<T>): { value: T } | { problem: string } | undefined {
  let file: string | undefined;
  try {
    file = readText(path);
  } catch (error) {
    return { problem: `it cannot be read: ${(error as NodeJS.ErrnoException).code}` };
  }
  if (file === undefined) return undefined;
  const [digest, text = '', ...more] = file.split('\n');
  if (digest !== digestOf(text) || more.join('') !== '') return { problem: 'it is damaged' };
  const { data, error } = schema.safeParse(jsonOr(text, undefined));
  // The message of a schema may quote what is secret.
  if (error) return { problem: `another version of the agent wrote it: ${error.issues[0]?.path.join('.')}` };
  return { value: data };
}

const digestOf = (text: string): string => createHash('sha256').update(text).digest('hex');
