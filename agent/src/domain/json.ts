/** The value of a JSON text; `otherwise` for a text that is none. */
export function jsonOr(text: string, otherwise: unknown): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return otherwise;
  }
}
