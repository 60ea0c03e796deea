import type { VerifiedBearer } from '../identity/contract/tokens.ts';

/** What an access token of a provider says: who somebody is, and whether it is an access token at all. Pure. */

export type ProviderClaims = Readonly<Record<string, unknown>>;

/** Members of a header that name a key or change how the rest is read. No token of ours or of a provider needs them. */
const REFUSED_MEMBERS = ['jwk', 'jku', 'x5u', 'x5c', 'crit', 'b64', 'zip'];
/** The claims that name a person, in the order in which they are asked. */
const NAMES = ['preferred_username', 'username', 'email', 'sub'] as const;
/** Values of the claim `typ` that are no access token's (Keycloak). */
const OTHER_TYPES: ReadonlySet<string> = new Set(['refresh', 'offline', 'id', 'logout', 'serialized-id']);
/** Media types of tokens that are no access tokens. */
const OTHER_MEDIA_TYPES: ReadonlySet<string> = new Set([
  'logout+jwt',
  'dpop+jwt',
  'secevent+jwt',
  'token-introspection+jwt',
]);

const MOST_GROUPS = 512;
const NAME_LENGTH = 254;
const GROUP_LENGTH = 253;

/** The header of a JWT, or undefined: it is no JWT, or no verifier may follow its header. */
export function providerHeader(token: string): { alg: string; kid?: string } | undefined {
  const parts = token.split('.');
  if (parts.length !== 3 || parts.some((part) => part === '')) return undefined;
  const header = objectOf(parts[0]);
  if (!header || REFUSED_MEMBERS.some((member) => Object.hasOwn(header, member))) return undefined;
  const { alg, kid, typ } = header;
  if (typeof alg !== 'string' || (kid !== undefined && typeof kid !== 'string')) return undefined;
  if (typ !== undefined && (typeof typ !== 'string' || OTHER_MEDIA_TYPES.has(mediaType(typ)))) return undefined;
  return { alg, ...(kid !== undefined && { kid }) };
}

const mediaType = (typ: string) => typ.toLowerCase().replace(/^application\//, '');

function objectOf(part: string | undefined): ProviderClaims | undefined {
  try {
    const value: unknown = JSON.parse(Buffer.from(part ?? '', 'base64url').toString());
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as ProviderClaims) : undefined;
  } catch {
    return undefined;
  }
}

/** Whether claims that a signature proves are an access token's. */
export function isAccessToken({ token_use: use, typ }: ProviderClaims): boolean {
  if (use !== undefined && use !== 'access') return false;
  return typ === undefined || (typeof typ === 'string' && !OTHER_TYPES.has(typ.toLowerCase()));
}

/** The groups of a person, in lower case: of the first of the three places that has any. */
export function groupsOf(claims: ProviderClaims, clientId: string): string[] {
  const ofClient = memberOf(memberOf(claims.resource_access, clientId), 'roles');
  for (const place of [ofClient, claims.roles, claims.groups]) {
    const found = textsOf(place);
    if (found.length > 0) return found;
  }
  return [];
}

const memberOf = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? (value as ProviderClaims)[name]
    : undefined;

function textsOf(value: unknown): string[] {
  if (!Array.isArray(value)) return [];
  const texts = value.filter(
    (one): one is string => typeof one === 'string' && one !== '' && one.length <= GROUP_LENGTH,
  );
  return [...new Set(texts.map((one) => one.toLowerCase()))].slice(0, MOST_GROUPS);
}

/**
 * The name of a person: the first claim that has one. An address that the provider has not verified is nobody's name. The API server takes
 * the same by the expressions that `kubectl skerry authentication-config` prints.
 */
function humanOf(claims: ProviderClaims): string | undefined {
  const isName = (name: (typeof NAMES)[number]) =>
    typeof claims[name] === 'string' &&
    claims[name] !== '' &&
    (name !== 'email' || (claims.email_verified ?? true) !== false);
  const found = NAMES.find(isName);
  const human = found === undefined ? '' : String(claims[found]);
  return human === '' || human.length > NAME_LENGTH || /\p{Cc}/u.test(human) ? undefined : human;
}

/** Who the claims of an access token name; undefined for names that the system has for itself. */
export function personOf(
  claims: ProviderClaims,
  { clientId, prefix }: { clientId: string; prefix: string },
): VerifiedBearer | undefined {
  const human = humanOf(claims);
  if (human === undefined) return undefined;
  const prefixed = (name: string) => (prefix === '' ? name : `${prefix}:${name}`);
  const groups = groupsOf(claims, clientId).map(prefixed);
  const name = prefixed(human);
  if ([name, ...groups].some((one) => one.startsWith('system:'))) return undefined;
  return {
    user: {
      name,
      groups: [...groups, 'system:authenticated'],
      ...(typeof claims.sub === 'string' && { uid: claims.sub }),
    },
    human,
    door: 'external',
    ...(typeof claims.exp === 'number' && { expiresAt: claims.exp * 1000 }),
    claims,
  };
}
