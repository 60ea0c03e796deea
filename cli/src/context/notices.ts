import { line } from '../../../src/terminal/safe.ts';
import type { CommandContext } from './command.ts';

/** How long a connection may take before that is worth a word, ms: to a person at a terminal, and to the reader of a script's output. */
const PATIENCE = { terminal: 1_000, script: 5_000 } as const;

/** Texts of the controller, on stderr: all with --verbose, else those about something that takes longer than a moment. */
export function createNotices({ flags, streams, err }: Pick<CommandContext, 'flags' | 'streams' | 'err'>, prefix = '') {
  const { isTTY } = streams.errors;
  let waiting: NodeJS.Timeout | undefined;
  let hasShown = false;
  const write = (text: string) => {
    hasShown = true;
    // A terminal in raw mode begins no line by itself.
    err(`${prefix}${line(text.trim())}${isTTY ? '\r\n' : '\n'}`);
  };
  return {
    show(text: string) {
      clearTimeout(waiting);
      waiting = undefined;
      if (flags.verbose) return write(text);
      if (hasShown) {
        hasShown = false;
        return write(text);
      }
      if (!/^\s*connected/i.test(text)) waiting = setTimeout(write, isTTY ? PATIENCE.terminal : PATIENCE.script, text);
    },
    end: () => clearTimeout(waiting),
  };
}
