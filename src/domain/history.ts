/**
 * The history of the store, as far as it must be known to tell a store that went on from one that was restored from an
 * older backup, emptied or swapped. Resource versions cannot tell that: they go on counting after a restore, and the
 * usual procedure makes them leap.
 *
 * The store counts beats: one soon after each change of what machines are to run. Each leader begins a term of its own,
 * with a random id, and counts from there. An agent remembers the mark that it was given last, `<term>.<id>.<beat>`. A
 * mark that a store has given out is part of its history for ever; one that is ahead of its term, or of a term that the
 * history has not, was given out by something that this store does not remember.
 */
export interface Term {
  /** grows from term to term */
  n: number;
  /** random: two stores that went apart count on with different ids */
  id: string;
  beats: number;
}

/** Oldest first; the last one runs. */
export type History = readonly Term[];

export interface Mark {
  n: number;
  id: string;
  beat: number;
}

/** Terms that are kept. Marks of still older ones are believed. */
const KEPT = 200;
const MARK = /^([1-9]\d{0,14})\.([0-9a-f]{8})\.(0|[1-9]\d{0,14})$/;
const TERM = /^([1-9]\d{0,14})\.([0-9a-f]{8})$/;

export const formatMark = ({ n, id, beat }: Mark): string => `${n}.${id}.${beat}`;

/** Undefined for what no store has ever given out. */
export function parseMark(text: string | undefined): Mark | undefined {
  const [, n, id, beat] = MARK.exec(text ?? '') ?? [];
  return id === undefined ? undefined : { n: Number(n), id, beat: Number(beat) };
}

/** What agents are given now; undefined before the first term. */
export function markOf(history: History): Mark | undefined {
  const term = history.at(-1);
  return term && { n: term.n, id: term.id, beat: term.beats };
}

/** Whether this store gave out the mark. */
export function hasGivenOut(history: History, mark: Mark): boolean {
  const term = history.findLast(({ n, id }) => n === mark.n && id === mark.id);
  return term ? mark.beat <= term.beats : mark.n < (history[0]?.n ?? 0);
}

/**
 * The history with a new term. `above`: a term of a mark that this store has not given out; the new one is later. A
 * history that is empty begins with term 1 all the same: a first term with a higher number says that there were others.
 */
export function withTerm(history: History, id: string, above = 0): History {
  if (history.length === 0 && above > 0) return withTerm([{ n: 1, id, beats: 0 }], id, above);
  const n = Math.max(history.at(-1)?.n ?? 0, above) + 1;
  return [...history, { n, id, beats: 0 }].slice(-KEPT);
}

export const withBeat = (history: History): History =>
  history.map((term, i) => (i === history.length - 1 ? { ...term, beats: term.beats + 1 } : term));

/** The running term as an operator names it to accept this store. */
export function termName(history: History): string | undefined {
  const term = history.at(-1);
  return term && `${term.n}.${term.id}`;
}

/** Whether the operator said, after this mark was given out, that this store is the truth. */
export function isAccepted(history: History, mark: Mark, accepted: string | undefined): boolean {
  const [, n, id] = TERM.exec(accepted ?? '') ?? [];
  return Number(n) > mark.n && history.some((term) => term.n === Number(n) && term.id === id);
}

export const formatHistory = (history: History): string =>
  history.map(({ n, id, beats }) => formatMark({ n, id, beat: beats })).join('\n');

/** What cannot be read is left out. */
export const parseHistory = (text: string | undefined): History =>
  (text ?? '').split('\n').flatMap((line) => {
    const mark = parseMark(line);
    return mark ? [{ n: mark.n, id: mark.id, beats: mark.beat }] : [];
  });
