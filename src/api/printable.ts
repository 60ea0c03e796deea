/** Characters that a terminal, a log viewer or a browser may interpret: controls, bidi marks, lone surrogates. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

/** Greatest number of characters in a message for people. */
const MESSAGE = 2048;

/**
 * Makes untrusted text safe to show, as one line: characters that cannot be printed become escapes,
 * and a text that is too long ends with an ellipsis.
 */
export function printable(text: string, max = MESSAGE): string {
  const cut = text.length > max ? `${text.slice(0, max - 3)}...` : text;
  return cut.replaceAll(UNPRINTABLE, (character) => {
    const hex = (character.codePointAt(0) ?? 0).toString(16);
    return hex.length > 4 ? `\\u{${hex}}` : `\\u${hex.padStart(4, '0')}`;
  });
}
