import type { Tree } from './atomic-directory.ts';

/** The sets of the system's files on this machine. */
export interface SystemSets {
  /** content of a set */
  read(set: string): Tree | undefined;
  /** when the content of a set changed last, Unix ms */
  changedAt(set: string): number | undefined;
}

/** What somebody reads from some of these sets: read again once one of them has changed, or while there was nothing. */
export class ReadSets<T> {
  readonly #sets: SystemSets;
  readonly #names: readonly string[];
  readonly #parse: (read: SystemSets['read']) => T | undefined;
  /** the state of the disk that `#value` was read from */
  #from = '';
  #value: T | undefined;

  constructor(sets: SystemSets, names: readonly string[], parse: (read: SystemSets['read']) => T | undefined) {
    this.#sets = sets;
    this.#names = names;
    this.#parse = parse;
  }

  /** What was read last. */
  get value(): T | undefined {
    return this.#value;
  }

  refresh(): void {
    const state = this.#names.map((set) => this.#sets.changedAt(set)).join();
    if (state === this.#from && this.#value !== undefined) return;
    this.#value = this.#parse(this.#sets.read);
    this.#from = state;
  }
}
