import { join } from 'node:path';
import type { StartedContainerd } from './machine/started.ts';

/** Where the adapter has the files of containers, beside the files of containerd. */
export interface RecordPlaces {
  /** the log that containerd writes */
  logDirectory(id: string): string;
  log(id: string): string;
  hosts(id: string): string;
  /** all files of a record */
  all(id: string): string;
  /** pipes of programs, which end with the machine */
  programs: string;
}

export const LOG_FILE = 'log';

export function recordPlaces({ root, state }: Pick<StartedContainerd, 'root' | 'state'>): RecordPlaces {
  const all = (id: string) => join(root, 'containers', id);
  return {
    all,
    logDirectory: all,
    log: (id) => join(all(id), LOG_FILE),
    hosts: (id) => join(all(id), 'hosts'),
    programs: join(state, 'programs'),
  };
}
