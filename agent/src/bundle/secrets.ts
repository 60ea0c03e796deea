import type { SavedResponse } from '../domain/desired.ts';
import { jsonOr } from '../domain/json.ts';
import type { Identity } from '../state/identity.ts';

const MASK = '***';
/** Shorter secrets are common words; masking them would make the bundle unreadable. */
const SHORTEST = 6;
const LONGEST = 64 * 1024;
/** Names of which the values are secret. */
const TELLING = /pass|secret|token|credential|api[-_]?key|private/i;

/** Patterns of secrets in any text. */
const SHAPES: readonly [RegExp, string][] = [
  [/-----BEGIN [A-Z ]*PRIVATE KEY-----(?:(?!-----)[\s\S])*-----END [A-Z ]*PRIVATE KEY-----/g, MASK],
  [/(?<![\w-])(?=[\w-]+\.[\w-]+\.)[\w-]*?\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*/g, MASK],
  [/(\b(?:Bearer|Basic)\s+)[\w.~+/=-]{6,}/gi, `$1${MASK}`],
  [/(\bskerry:\/\/[^/\s"']+\/)[^\s"'?]+/g, `$1${MASK}`],
  [/((?<![a-z0-9+.-])[a-z][a-z0-9+.-]*:\/\/)[^/\s"'@:]*:[^/\s"'@]*(?=@)/gi, `$1${MASK}`],
];

/** Every secret that the agent has: keys, tokens, passwords of registries, secret values of env, config and volume mounts. */
export function knownSecrets(sources: {
  identity?: Identity;
  token?: string;
  documents: ReadonlyMap<string, Pick<SavedResponse, 'body'>>;
}): Set<string> {
  const secrets = new Set<string>();
  const note = (value: unknown) => {
    if (typeof value !== 'string' || value.length < SHORTEST || value.length > LONGEST) return;
    secrets.add(value);
    // The same value escaped, as inside JSON.
    secrets.add(JSON.stringify(value).slice(1, -1));
  };
  const { identity, token, documents } = sources;
  note(token?.trim());
  for (const key of [identity?.localKey, identity?.nodeKey]) note(key?.d);
  note(identity?.joining?.keyDigest);
  for (const { body } of documents.values()) {
    try {
      const document: unknown = JSON.parse(body);
      walk(document, note);
      noteMounts(document, note);
    } catch {
      // A file that cannot be read is not in the bundle either.
    }
  }
  return secrets;
}

/** The content of Secrets that are mounted, as it was sent and as containers see it. */
function noteMounts(document: unknown, note: (secret: unknown) => void): void {
  const { volumeMounts } = (document ?? {}) as { volumeMounts?: unknown };
  for (const mount of Array.isArray(volumeMounts) ? volumeMounts : []) {
    const { type, data } = (mount ?? {}) as { type?: unknown; data?: unknown };
    if (type === 'configMap') continue;
    for (const value of Object.values(data ?? {})) {
      note(value);
      if (typeof value === 'string') note(Buffer.from(value, 'base64').toString('utf8').trim());
    }
  }
}

const byLength = (a: string, b: string): number => b.length - a.length;

/** Masks every known secret, the longest first, and everything that matches a pattern of secrets. */
export function masker(secrets: ReadonlySet<string>): (text: string) => string {
  const known = [...secrets].sort(byLength);
  return (text) => {
    // Before anything is masked: a known secret may be a word of a pattern, which is not found without it.
    const shaped = SHAPES.flatMap(([shape]) =>
      [...text.matchAll(shape)].map(([all, kept = '']) => all.slice(kept.length)),
    );
    const found = new Set(shaped.filter(({ length }) => length >= SHORTEST));
    const ordered = found.size > 0 ? [...known, ...found].sort(byLength) : known;
    let masked = text;
    for (const secret of ordered) masked = masked.replaceAll(secret, MASK);
    for (const [shape, mask] of SHAPES) masked = masked.replace(shape, mask);
    return masked;
  };
}

/** Finds secret values: marked as secret, of an env variable or member with a secret name, or inside a config. */
function walk(value: unknown, note: (secret: unknown) => void): void {
  if (Array.isArray(value)) for (const item of value) walk(item, note);
  else if (value !== null && typeof value === 'object') {
    const { key, value: content, secret } = value as { key?: unknown; value?: unknown; secret?: unknown };
    if (typeof key === 'string' && (secret === true || TELLING.test(key))) note(content);
    for (const [name, member] of Object.entries(value)) {
      if (TELLING.test(name)) note(member);
      if (name === 'config' && typeof member === 'string') walk(jsonOr(member, undefined), note);
      else walk(member, note);
    }
  }
}
