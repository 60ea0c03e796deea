import { createHash } from 'node:crypto';
import { z } from 'zod';
import { cookiesNamed, setCookie } from '../../../http/cookies.ts';
import { HttpError } from '../../../http/http-error.ts';
import type { BrowserOutcome, BrowserTarget } from '../../../identity/contract/external.ts';
import type { TokenPair } from '../../../identity/contract/tokens.ts';
import { type BrowserDoor, browserDoor, type EmbeddedDoor } from '../../../rest/contract/identity-door.ts';
import { type Call, grouped, route } from '../../../rest/contract/route.ts';

/** The cookie that a browser carries from the begin of a login to its end. */
const COOKIE = 'skerry_login';
const COOKIE_SECONDS = 600;
const BROKERED_MS = 60_000;
/** Characters of a code, and of each other member of the query. */
const LONGEST = 16 * 1024;

const begin = z.object({
  loopback_port: z.coerce
    .number()
    .int()
    .min(1024)
    .max(65_535)
    .optional()
    .describe('Port of 127.0.0.1 at which kubectl waits for the end of the login, instead of the console.'),
  code_challenge: z
    .string()
    .regex(/^[A-Za-z0-9_-]{43}$/, 'has to be a SHA-256 in base64url')
    .optional()
    .describe('S256 challenge of the verifier by which kubectl gets its tokens; with loopback_port.'),
});

const callback = z.looseObject({
  code: z.string().max(LONGEST).optional().describe('Code of the provider.'),
  state: z.string().max(LONGEST).optional().describe('State that the login began with.'),
  error: z.string().max(LONGEST).optional().describe('Error of the provider, instead of a code.'),
});

/** The login in the browser, of both modes. */
export const oauthRoutes = grouped('User', [
  route({
    method: 'GET',
    path: '/user/oauth/authorize',
    operation: 'getUserOauthAuthorize',
    summary: 'Begin a login in the browser',
    description: 'Leads to the provider. kubectl names a port of the machine and a challenge, and gets a code there.',
    access: 'public',
    guessable: true,
    query: begin,
    reply: { status: 302 },
    errors: [501],
    async handler({ query: { loopback_port: port, code_challenge: challenge }, deps, headers, signal }) {
      const { browser, urls } = browserDoor(deps);
      if ((port === undefined) !== (challenge === undefined))
        throw new HttpError(400, 'VALIDATION_ERROR', 'loopback_port and code_challenge need each other');
      const to: BrowserTarget =
        port !== undefined && challenge !== undefined
          ? { loopback: String(port), challenge }
          : { console: urls.console };
      const { location, cookie } = await browser.begin(to, signal);
      headers.location = location;
      headers['set-cookie'] = cookieOf(urls, cookie, COOKIE_SECONDS);
      return undefined;
    },
  }),
  route({
    method: 'GET',
    path: '/user/oauth/callback',
    operation: 'getUserOauthCallback',
    summary: 'End a login in the browser',
    description:
      'The provider leads here. Leads to the console with the tokens in the fragment, or to kubectl with a code.',
    access: 'public',
    guessable: true,
    query: callback,
    reply: { status: 302 },
    errors: [401, 431, 501],
    async handler({ query, deps, headers, signal, client }) {
      const door = browserDoor(deps);
      const { browser, urls } = door;
      const outcome = await browser
        .finish(paramsOf(query), cookiesNamed(client.cookie, COOKIE)[0], signal)
        .catch((error) => Promise.reject(leadingAway(error, urls.console)));
      headers['set-cookie'] = cookieOf(urls, '', 0);
      headers.location = await placeOf(outcome, door, { client, signal });
      return undefined;
    },
  }),
]);

/** A refusal that takes the code out of the address bar: people see the page of the console in its place. */
const leadingAway = (error: unknown, console: string) =>
  error instanceof HttpError && error.status === 401
    ? new HttpError(401, 'UNAUTHENTICATED', error.message, {
        headers: { refresh: `0; url=${console}/login?oauthError=login_expired` },
      })
    : error;

/** Where the browser goes: tokens are in the fragment, which no server sees. */
async function placeOf(
  outcome: BrowserOutcome,
  door: BrowserDoor,
  call: Pick<Call, 'client' | 'signal'>,
): Promise<string> {
  const { to } = outcome;
  if ('loopback' in to) {
    const answer: [string, string] =
      'refused' in outcome ? ['error', outcome.refused] : ['code', brokeredCode(outcome, to.challenge, door)];
    return `http://127.0.0.1:${to.loopback}/?${new URLSearchParams([answer])}`;
  }
  const login = (problem: string) => `${to.console}/login?${new URLSearchParams({ oauthError: problem })}`;
  if ('refused' in outcome) return login(outcome.refused);
  if ('brokered' in outcome) return login('server_error');
  if (outcome.problem === 'OPAQUE_TOKEN') return login('opaque_token');
  const pair = outcome.tokens ?? (await mint(outcome.claims.sub, door, call));
  const fragment = new URLSearchParams({ ...pair });
  return `${outcome.problem === 'NO_GROUPS' ? login('missing_groups') : `${to.console}/login`}#${fragment}`;
}

const expired = () => new HttpError(401, 'UNAUTHENTICATED', 'this login took too long: begin again');

/** Tokens of this controller for a person whom its own provider has named. */
async function mint(
  sub: string,
  door: BrowserDoor,
  { client, signal }: Pick<Call, 'client' | 'signal'>,
): Promise<TokenPair> {
  const { users, tokens, events } = embedded(door);
  const user = await users.byUuid(sub, signal);
  if (!user) throw expired();
  const { address, requestId } = client;
  const pair = await tokens.login(user, { address, requestId }, signal);
  events.record({ what: 'login', human: user.email, ok: true, address, requestId });
  return pair;
}

function embedded(door: BrowserDoor): EmbeddedDoor {
  if (door.mode === 'embedded') return door;
  throw new HttpError(500, 'INTERNAL_ERROR', 'the provider gave no tokens');
}

interface Brokered {
  sub: string;
  challenge: string;
  id: string;
}

function brokeredCode(
  outcome: Exclude<BrowserOutcome, { refused: string }>,
  challenge: string,
  door: BrowserDoor,
): string {
  if ('brokered' in outcome) return outcome.brokered;
  const brokered: Brokered = { sub: outcome.claims.sub, challenge, id: crypto.randomUUID() };
  return embedded(door).keys.seal('brokered login', brokered, BROKERED_MS);
}

/** The tokens for the code that a login of kubectl ended with; 401 for all others, and the second time. */
export async function redeemBrokered(
  door: BrowserDoor,
  { code, codeVerifier }: { code: string; codeVerifier: string },
  call: Pick<Call, 'client' | 'signal'>,
): Promise<TokenPair> {
  const { browser } = door;
  if (door.mode === 'external') {
    if (!browser.redeem) throw expired();
    return browser.redeem(code, codeVerifier, call.signal);
  }
  const brokered = door.keys.open<Brokered>('brokered login', code);
  const challenge = createHash('sha256').update(codeVerifier).digest('base64url');
  if (!brokered || brokered.challenge !== challenge) throw expired();
  const isFirst = await door.once?.take('broker', brokered.id, Date.now() + BROKERED_MS, call.signal);
  if (!isFirst) throw expired();
  return mint(brokered.sub, door, call);
}

/** The browser sends it to the callback alone. */
const cookieOf = ({ public: publicUrl }: BrowserDoor['urls'], value: string, seconds: number): string =>
  setCookie({ name: COOKIE, path: '/api/v3/user/oauth', ...{ value, seconds, publicUrl } });

/** The query as the provider wrote it, repeated members included. */
function paramsOf(query: Readonly<Record<string, unknown>>): URLSearchParams {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    for (const one of Array.isArray(value) ? value : [value]) if (typeof one === 'string') params.append(name, one);
  return params;
}
