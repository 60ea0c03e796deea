import { printable } from '../api/printable.ts';

/**
 * What keeps texts of nodes, containers and registries from commanding the terminal of an operator. `line` is for one text
 * among others: a cell, a fact, a reason. `output` is for all that a command prints: what it leaves is the form of the
 * command's own text. The bytes of a program or of a container's log pass neither, as with kubectl.
 */

/** A text as one line without characters that a terminal carries out. */
export const line = (text: string): string => printable(text, Number.POSITIVE_INFINITY);

/** All control characters except line feeds, tabs, and the carriage return of a terminal in raw mode. */
const CONTROLS = /(?!\n|\t|\r\n)\p{Cc}/gu;

/** Escapes control characters. JSON and YAML keep their meaning: both have such characters in quoted texts alone. */
export const output = (text: string): string =>
  text.replace(CONTROLS, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`);

interface Writers {
  out(text: string): void;
  err(text: string): void;
  /** asks a question at the terminal */
  ask?(question: string): Promise<boolean>;
}

/** The writers of a command line, with which nothing reaches a terminal unfiltered; `raw` is for bytes of programs and logs. */
export function safeWriters<W extends Writers>(given: W): W & { raw(text: string): void } {
  const { ask } = given;
  return {
    ...given,
    ask: ask && ((question) => ask(output(question))),
    out: (text) => given.out(output(text)),
    err: (text) => given.err(output(text)),
    raw: (text) => given.out(text),
  };
}
