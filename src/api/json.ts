/** Greatest depth of the JSON of a message; the deepest known message has a fifth of it. */
export const JSON_DEPTH = 64;
/** Greatest number of elements of the JSON of a message, nested ones included: a report of 500 microservices has a tenth. */
const JSON_ELEMENTS = 128 * 1024;

/**
 * The limit that a JSON text exceeds, as text to follow "the body"; undefined when it may be parsed. Counts brackets
 * and commas outside of strings, before a parser spends time and memory on the text.
 */
export function jsonExcess(text: string, { depth = JSON_DEPTH, elements = JSON_ELEMENTS } = {}): string | undefined {
  let level = 0;
  let count = 0;
  let inString = false;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (inString) {
      if (code === 0x5c) i++;
      else if (code === 0x22) inString = false;
    } else if (code === 0x22) inString = true;
    else if (code === 0x2c) count++;
    else if (code === 0x5b || code === 0x7b) {
      count++;
      if (++level > depth) return `is nested deeper than ${depth} levels`;
    } else if (code === 0x5d || code === 0x7d) level--;
    if (count > elements) return `has more than ${elements} elements`;
  }
  return undefined;
}
