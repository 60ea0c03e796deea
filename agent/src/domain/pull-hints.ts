/** What would help, where the words of an engine about a pull do not say so. */
const HINTS: readonly [RegExp, string][] = [
  [/x509: certificate signed by unknown authority/, 'the authority may be named as `ca` of the registry'],
  [/HTTP response to HTTPS client/, 'only `insecure` of the registry allows plain HTTP'],
];

/** The words of an engine about a pull that failed, with a hint where there is one. */
export function withHint(text: string): string {
  const hint = HINTS.find(([pattern]) => pattern.test(text))?.[1];
  return hint ? `${text}; ${hint}` : text;
}
