import { z } from 'zod';
import { DEFAULT_INSTALLATION } from '../api/names.ts';
import { amountVariable, ConfigError, flagVariable, flagVariableOf, listed, seconds, textVariable } from './values.ts';

/** Who logs in, and where: the environment of logins. */

const cookieKeys = z.string().transform((text, context) => {
  const keys = listed(text);
  if (keys.length >= 1 && keys.length <= 8 && keys.every((key) => key.length >= 16)) return keys;
  context.addIssue('has to be one to eight keys of at least 16 characters');
  return z.NEVER;
});

/** An http(s) URL without credentials, query and fragment; a slash at its end counts. */
const issuerUrl = z.string().refine(isPlainUrl, 'has to be an https:// URL without credentials, query and fragment');
const originUrl = z
  .string()
  .refine(isPlainUrl, 'has to be an http(s):// URL without credentials, query and fragment')
  .transform((url) => url.replace(/(?<!\/)\/+$/, ''));

function isPlainUrl(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && /^https?:$/.test(url.protocol) && !url.username && !url.password && !/[?#]/.test(text);
}

export const authEnvironment = z.object({
  AUTH_MODE: z
    .enum(['embedded', 'external'])
    .default('embedded')
    .describe('Who has the users: embedded (this controller), or external (the OpenID provider at OIDC_ISSUER_URL).'),
  OIDC_ISSUER_URL: issuerUrl
    .optional()
    .describe('URL of the OpenID provider of AUTH_MODE=external, exactly as its tokens name it.'),
  OIDC_CLIENT_ID: z
    .string()
    .regex(/^[!-9;-~]{1,128}$/, 'has to be 1 to 128 printable characters of ASCII without a space or a colon')
    .optional()
    .describe('Client of the OpenID provider, which is the audience of its tokens.'),
  OIDC_CLIENT_SECRET: textVariable('Secret of this client.'),
  AUTH_INSECURE_ALLOW_HTTP: flagVariable.describe(
    'Whether people may log in over http:// to another machine, and an OpenID provider may be http://. Passwords and tokens can then be read on the way.',
  ),
  CONSOLE_URL: originUrl
    .optional()
    .describe('URL of the console to which a login in the browser leads; CONTROLLER_PUBLIC_URL when unset.'),
  SKERRY_GROUPS_PREFIX: z
    .string()
    .max(63, 'has to be at most 63 characters')
    .regex(/^(?!system)(?!:)(?!.*:$)/, 'has to begin with neither "system" nor ":", and not to end with ":"')
    .default(DEFAULT_INSTALLATION)
    .describe(
      'What names and groups of people begin with in role bindings, before a colon; the chart sets roles.groups.',
    ),
  OIDC_BOOTSTRAP_ADMIN_USERNAME: z
    .string()
    .trim()
    .max(254, 'has to be at most 254 characters')
    .regex(
      /^(?!system:)[^\s]+$/,
      'has to be a name or an e-mail address without spaces that does not begin with "system:"',
    )
    .optional()
    .describe('Name of the first administrator, with OIDC_BOOTSTRAP_ADMIN_PASSWORD; admin when unset.'),
  OIDC_BOOTSTRAP_ADMIN_PASSWORD: textVariable(
    'Password of the first administrator; a generated one, in the Secret skerry-bootstrap-admin, when unset.',
  ),
  AUTH_INSECURE_ALLOW_BOOTSTRAP_LOG: flagVariable.describe(
    'Whether the log has the generated password of the first administrator, once.',
  ),
  AUTH_ACCESS_TOKEN_TTL_SECONDS: seconds(60, 3600)
    .optional()
    .describe('Seconds that an access token is valid, where the AuthPolicy says nothing; 900 when unset.'),
  AUTH_REFRESH_TOKEN_TTL_SECONDS: seconds(300, 43_200)
    .optional()
    .describe('Seconds that a refresh token is valid, where the AuthPolicy says nothing; 3600 when unset.'),
  AUTH_RATE_LIMIT_ENABLED: flagVariableOf('true').describe(
    'Whether requests with which a password or code can be guessed are limited by address; the attempts of an account always are.',
  ),
  AUTH_RATE_LIMIT_MAX_REQUESTS: amountVariable(60, 100_000).describe(
    'Such requests of one address in AUTH_RATE_LIMIT_WINDOW_MS, at each replica.',
  ),
  AUTH_RATE_LIMIT_WINDOW_MS: z.coerce
    .number()
    .int()
    .min(1_000)
    .max(3_600_000)
    .default(60_000)
    .describe('The time that AUTH_RATE_LIMIT_MAX_REQUESTS is about, in milliseconds.'),
  AUTH_OIDC_INTERACTION_TTL_SECONDS: seconds(60, 3600)
    .default(600)
    .describe('How long a login in the browser may take, in seconds.'),
  AUTH_OIDC_GRANT_TTL_SECONDS: seconds(60, 3600)
    .default(600)
    .describe('How long the consent of such a login is kept, in seconds.'),
  AUTH_OIDC_SESSION_TTL_SECONDS: seconds(60, 43_200)
    .optional()
    .describe('How long the browser can log out of the provider, in seconds; as long as a refresh token when unset.'),
  AUTH_OIDC_ID_TOKEN_TTL_SECONDS: seconds(60, 3600)
    .optional()
    .describe('How long an ID token is valid, in seconds; as long as an access token when unset.'),
  SKERRY_OAUTH_INTERACTION_URL: z
    .string()
    .regex(/^\/(?!\/)[^\s?#\\]*$/, 'has to be a path that begins with one slash, without a query and fragment')
    .default('/login/oauth')
    .describe('Path of the page for logins in the browser, below CONSOLE_URL.'),
  AUTH_CONSOLE_CLIENT_ENABLED: flagVariable.describe(
    'Whether the provider has a client without a secret, for a console in the browser.',
  ),
  OIDC_CONSOLE_CLIENT_ID: z
    .string()
    .regex(/^[!-9;-~]{1,128}$/, 'has to be 1 to 128 printable characters of ASCII without a space or a colon')
    .default('console')
    .describe('Name of this client.'),
  AUTH_SESSION_STORE_TYPE: z
    .enum(['database', 'memory'])
    .default('database')
    .describe('Where logins in the browser are stored: database. memory is accepted, and stores them there as well.'),
  AUTH_SESSION_STORE_TTL_MS: z.coerce
    .number()
    .int()
    .min(60_000)
    .max(3_600_000)
    .default(600_000)
    .describe('The time in which a browser has to come back from the provider, in milliseconds.'),
  AUTH_SESSION_SECRET: z
    .string()
    .min(32, 'has to be at least 32 characters')
    .optional()
    .describe('Secret that seals what a browser keeps during a login; generated and stored when unset.'),
  OIDC_COOKIE_KEYS: cookieKeys
    .optional()
    .describe(
      'Keys that sign cookies of logins, with commas between them; the first signs. Generated and stored when unset.',
    ),
  SKERRY_OIDC_CA_FILE: textVariable(
    'File (PEM) with the authority of the OpenID provider, besides the authorities of the system.',
  ),
});

/** What the settings of logins follow from. */
type Variables = z.infer<typeof authEnvironment> & { CONTROLLER_PUBLIC_URL?: string | undefined };

/** Who logs in, and where. */
export interface AuthSettings {
  mode: 'embedded' | 'external';
  /** people may log in over plain HTTP */
  allowsHttp: boolean;
  /** of names and groups in role bindings; may be empty */
  groupsPrefix: string;
  /** attempts at credentials of one address; false: no limit */
  attempts: { requests: number; windowMs: number } | false;
  /** ms in which a browser has to come back from the provider */
  returnMs: number;
  /** where a login in the browser ends, without a slash at its end */
  consoleUrl?: string;
  /** what the mode embedded has of the environment */
  embedded?: EmbeddedSettings;
  /** the OpenID provider of the mode external */
  provider?: { issuer: string; clientId: string; clientSecret: string; caFile?: string };
}

export interface EmbeddedSettings {
  clientId: string;
  /** values in place of generated ones */
  given: { clientSecret?: string; cookieKeys?: readonly string[]; sessionSecret?: string };
  ttls: { accessTokenTtlSeconds?: number; refreshTokenTtlSeconds?: number };
  /** logins in the browser */
  browser: {
    interactionPath: string;
    /** absent: there is no client without a secret */
    consoleClientId?: string;
    ttlSeconds: { interaction: number; grant: number; session?: number; idToken?: number };
  };
  bootstrap: { given?: { username: string; password: string }; maySayPassword: boolean };
}

/** `isPrefixEmpty`: an empty prefix was asked for, which other variables take for absent. */
export function authOf(e: Variables, isPrefixEmpty: boolean): AuthSettings {
  const consoleUrl = e.CONSOLE_URL ?? e.CONTROLLER_PUBLIC_URL?.replace(/(?<!\/)\/+$/, '');
  const shared = {
    mode: e.AUTH_MODE,
    allowsHttp: e.AUTH_INSECURE_ALLOW_HTTP,
    returnMs: e.AUTH_SESSION_STORE_TTL_MS,
    groupsPrefix: isPrefixEmpty ? '' : e.SKERRY_GROUPS_PREFIX,
    attempts: e.AUTH_RATE_LIMIT_ENABLED && {
      requests: e.AUTH_RATE_LIMIT_MAX_REQUESTS,
      windowMs: e.AUTH_RATE_LIMIT_WINDOW_MS,
    },
    ...(consoleUrl && { consoleUrl }),
  };
  return e.AUTH_MODE === 'external' ? { ...shared, provider: providerOf(e) } : { ...shared, embedded: embeddedOf(e) };
}

function embeddedOf(e: Variables): EmbeddedSettings {
  const { OIDC_BOOTSTRAP_ADMIN_USERNAME: username, OIDC_BOOTSTRAP_ADMIN_PASSWORD: password } = e;
  const { AUTH_ACCESS_TOKEN_TTL_SECONDS: access, AUTH_REFRESH_TOKEN_TTL_SECONDS: refresh } = e;
  if ((username === undefined) !== (password === undefined))
    throw new ConfigError('OIDC_BOOTSTRAP_ADMIN_USERNAME and OIDC_BOOTSTRAP_ADMIN_PASSWORD need each other');
  if (refresh !== undefined && refresh < (access ?? 900))
    throw new ConfigError(
      `AUTH_REFRESH_TOKEN_TTL_SECONDS="${refresh}": has to be at least AUTH_ACCESS_TOKEN_TTL_SECONDS`,
    );
  if (e.OIDC_CLIENT_SECRET !== undefined && e.OIDC_CLIENT_SECRET.length < 32)
    throw new ConfigError('OIDC_CLIENT_SECRET: has to be at least 32 characters in AUTH_MODE=embedded');
  return {
    clientId: e.OIDC_CLIENT_ID ?? 'controller',
    given: {
      ...(e.OIDC_CLIENT_SECRET && { clientSecret: e.OIDC_CLIENT_SECRET }),
      ...(e.OIDC_COOKIE_KEYS && { cookieKeys: e.OIDC_COOKIE_KEYS }),
      ...(e.AUTH_SESSION_SECRET && { sessionSecret: e.AUTH_SESSION_SECRET }),
    },
    ttls: {
      ...(access !== undefined && { accessTokenTtlSeconds: access }),
      ...(refresh !== undefined && { refreshTokenTtlSeconds: refresh }),
    },
    browser: browserOf(e),
    bootstrap: {
      ...(username && password && { given: { username, password } }),
      maySayPassword: e.AUTH_INSECURE_ALLOW_BOOTSTRAP_LOG,
    },
  };
}

function browserOf(e: Variables): EmbeddedSettings['browser'] {
  const { OIDC_CONSOLE_CLIENT_ID: consoleClientId, OIDC_CLIENT_ID: clientId = 'controller' } = e;
  if (e.AUTH_CONSOLE_CLIENT_ENABLED && consoleClientId === clientId)
    throw new ConfigError(`OIDC_CONSOLE_CLIENT_ID="${consoleClientId}": is OIDC_CLIENT_ID, which has a secret`);
  const { AUTH_OIDC_SESSION_TTL_SECONDS: session, AUTH_OIDC_ID_TOKEN_TTL_SECONDS: idToken } = e;
  return {
    interactionPath: e.SKERRY_OAUTH_INTERACTION_URL,
    ...(e.AUTH_CONSOLE_CLIENT_ENABLED && { consoleClientId }),
    ttlSeconds: {
      interaction: e.AUTH_OIDC_INTERACTION_TTL_SECONDS,
      grant: e.AUTH_OIDC_GRANT_TTL_SECONDS,
      ...(session !== undefined && { session }),
      ...(idToken !== undefined && { idToken }),
    },
  };
}

function providerOf(e: Variables): NonNullable<AuthSettings['provider']> {
  const { OIDC_ISSUER_URL: issuer, OIDC_CLIENT_ID: clientId, OIDC_CLIENT_SECRET: clientSecret } = e;
  const { SKERRY_OIDC_CA_FILE: caFile, CONTROLLER_PUBLIC_URL: publicUrl } = e;
  if (!issuer || !clientId || !clientSecret) {
    const given = { OIDC_ISSUER_URL: issuer, OIDC_CLIENT_ID: clientId, OIDC_CLIENT_SECRET: clientSecret };
    const missing = Object.entries(given).flatMap(([name, value]) => (value ? [] : [name]));
    throw new ConfigError(`AUTH_MODE=external needs ${missing.join(', ')}`);
  }
  if (issuer.startsWith('http:') && !e.AUTH_INSECURE_ALLOW_HTTP)
    throw new ConfigError(
      `OIDC_ISSUER_URL="${issuer}": has to begin with https://, or needs AUTH_INSECURE_ALLOW_HTTP=true`,
    );
  const same = (url: string) => url.replace(/(?<!\/)\/+$/, '');
  if (publicUrl && same(issuer) === `${same(publicUrl)}/oidc`)
    throw new ConfigError(
      `OIDC_ISSUER_URL="${issuer}": is the issuer of this controller itself, which AUTH_MODE=embedded has`,
    );
  return { issuer, clientId, clientSecret, ...(caFile && { caFile }) };
}
