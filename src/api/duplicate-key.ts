/**
 * The first member that an object of a JSON text has twice, of which JSON.parse would silently keep the last; kubectl and files refuse
 * such documents as well. The text must be valid JSON.
 */
export function duplicateKey(text: string): string | undefined {
  /** names of the members of each open object; undefined for a list */
  const open: (Set<string> | undefined)[] = [];
  let isName = false;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === OPEN_OBJECT || code === OPEN_LIST) {
      isName = code === OPEN_OBJECT;
      open.push(isName ? new Set() : undefined);
    } else if (code === CLOSE_OBJECT || code === CLOSE_LIST) open.pop();
    else if (code === COMMA) isName = open.at(-1) !== undefined;
    else if (code === QUOTE) {
      const start = i;
      for (i++; text.charCodeAt(i) !== QUOTE; i++) if (text.charCodeAt(i) === BACKSLASH) i++;
      const names = isName ? open.at(-1) : undefined;
      isName = false;
      if (!names) continue;
      const name = JSON.parse(text.slice(start, i + 1)) as string;
      if (names.has(name)) return name;
      names.add(name);
    }
  }
  return undefined;
}

const [QUOTE, COMMA, BACKSLASH] = [0x22, 0x2c, 0x5c];
const [OPEN_OBJECT, CLOSE_OBJECT, OPEN_LIST, CLOSE_LIST] = [0x7b, 0x7d, 0x5b, 0x5d];
