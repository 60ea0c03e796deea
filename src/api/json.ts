/** Levels that the JSON of any message may have; the deepest that we know has a fifth of it. */
export const JSON_DEPTH = 64;

/**
 * Whether a JSON text is nested deeper than this. Counts brackets outside of strings, so that no parser has to go where the
 * text leads.
 */
export function isDeeperThan(text: string, limit = JSON_DEPTH): boolean {
  let depth = 0;
  let inString = false;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (inString) {
      if (code === 0x5c) i++;
      else if (code === 0x22) inString = false;
    } else if (code === 0x22) inString = true;
    else if (code === 0x5b || code === 0x7b) {
      if (++depth > limit) return true;
    } else if (code === 0x5d || code === 0x7d) depth--;
  }
  return false;
}
