import { line } from '../../src/terminal/safe.ts';
import type { CommandContext } from './command.ts';

/** A connection that takes no longer than this is not worth a word. */
const PATIENCE = 1_000;

/**
 * Texts of the controller, on stderr: all with --verbose, none where no person reads them, else those about something that takes
 * longer than a moment.
 */
export function createNotices({ flags, streams, err }: Pick<CommandContext, 'flags' | 'streams' | 'err'>, prefix = '') {
  let waiting: NodeJS.Timeout | undefined;
  let hasShown = false;
  const write = (text: string) => {
    hasShown = true;
    // A terminal in raw mode begins no line by itself.
    err(`${prefix}${line(text.trim())}\r\n`);
  };
  return {
    show(text: string) {
      clearTimeout(waiting);
      waiting = undefined;
      if (flags.verbose) return write(text);
      if (!streams.errors.isTTY) return;
      if (hasShown) {
        hasShown = false;
        return write(text);
      }
      if (!/^\s*connected/i.test(text)) waiting = setTimeout(write, PATIENCE, text);
    },
    end: () => clearTimeout(waiting),
  };
}
