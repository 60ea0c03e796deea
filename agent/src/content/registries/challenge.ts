/** The authentication that a registry asks for (RFC 9110 section 11.6.1, and the distribution project's token scheme). */
export type Challenge = { scheme: 'basic' } | { scheme: 'bearer'; realm: string; service?: string; scope?: string };

/** The first challenge of a `WWW-Authenticate` header that can be answered; bearer before basic. Pure. */
export function parseChallenge(header: string | undefined): Challenge | undefined {
  const text = (header ?? '').slice(0, 4096);
  const bearer = /(?:^|,\s*)bearer\s+(.*)$/is.exec(text);
  if (bearer) {
    const { realm, service, scope } = parameters(bearer[1] ?? '');
    if (realm) return { scheme: 'bearer', realm, service, scope };
  }
  return /(?:^|,\s*)basic(\s|$)/i.test(text) ? { scheme: 'basic' } : undefined;
}

/**
 * `name="value"` pairs; a quote or a backslash in a value is escaped with a backslash. What is no pair is taken as a whole, so that
 * no letter of it is looked at as the beginning of a name again.
 */
function parameters(text: string): Record<string, string | undefined> {
  const found: Record<string, string | undefined> = {};
  for (const [, name, quoted, plain] of text.matchAll(
    /([a-z]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))|[a-z]+|[^a-z]+/gi,
  ))
    if (name) found[name.toLowerCase()] ??= quoted?.replaceAll(/\\(.)/g, '$1') ?? plain;
  return found;
}
