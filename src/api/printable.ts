/** What a terminal, a log viewer or a browser could take for something else than text: controls, bidi marks, lone surrogates. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

/** Characters of a message to people. */
const MESSAGE = 2048;

/**
 * One line that may be shown anywhere, of text that may come from anywhere: what cannot be printed is written as an escape,
 * and what is too long ends with an ellipsis.
 */
export function printable(text: string, max = MESSAGE): string {
  const cut = text.length > max ? `${text.slice(0, max - 3)}...` : text;
  return cut.replaceAll(UNPRINTABLE, (character) => {
    const hex = (character.codePointAt(0) ?? 0).toString(16);
    return hex.length > 4 ? `\\u{${hex}}` : `\\u${hex.padStart(4, '0')}`;
  });
}
