import { constants } from 'node:os';

/** Real-time signals have numbers from 34 to 64, and names that count from either end. */
const REAL_TIME = /^RT(?:MIN(?:\+(?:[1-9]|1[0-5]))?|MAX(?:-(?:[1-9]|1[0-4]))?)$/;
const LAST = 64;

/** Whether a text is a POSIX signal: its name, with SIG before it or without, or its number. */
export function isSignal(text: string): boolean {
  if (/^[1-9]\d?$/.test(text)) return Number(text) <= LAST;
  const name = text.replace(/^SIG/, '');
  return `SIG${name}` in constants.signals || REAL_TIME.test(name);
}
