import type { IncomingMessage, ServerResponse } from 'node:http';
import { basePathOf } from './base-path.ts';
import { HttpError, replyTo } from './http-error.ts';
import { send } from './reply.ts';

export interface CrossOriginOptions {
  /** URL of the console whose scripts may call this controller */
  consoleUrl: string;
  publicUrl: string;
  /** whether the console redeems codes of the provider by itself */
  hasConsoleClient: boolean;
}

/**
 * What a script of the console may request from another origin, the first that fits. All other paths have no header of cross-origin
 * requests.
 */
const SHARED: readonly { path: RegExp; methods: string; hasCookies?: true; needsClient?: true; isGuarded?: true }[] = [
  {
    path: /^\/api\/v3\/user\/interaction\/[^/]+(?:\/[a-z-]+)?\/?$/,
    methods: 'GET, POST',
    hasCookies: true,
    // Its cookie makes a step count, and a body without a type needs no preflight request.
    isGuarded: true,
  },
  // Its cookie lets the browser of the last login continue while the account is locked.
  { path: /^\/api\/v3\/user\/login\/?$/, methods: 'POST', hasCookies: true },
  { path: /^\/api\/v3\/user\/(?:refresh|logout)\/?$/, methods: 'POST' },
  { path: /^\/oidc\/token$/, methods: 'POST', needsClient: true },
  // Their credential is a token, which no browser sends by itself.
  { path: /^\/api\/v3\/(?!agent\/)/, methods: 'GET, POST, PUT, PATCH, DELETE' },
];
const MAX_AGE_SECONDS = 600;

/**
 * Permits scripts of a console of another origin the login and, with a token, the API of users; the exact origin is compared, and never reflected.
 * The handler serves preflight requests, adds headers to the others, and refuses steps that scripts of a third origin take.
 */
export function createCrossOrigin({ consoleUrl, publicUrl, hasConsoleClient }: CrossOriginOptions) {
  const { origin } = new URL(consoleUrl);
  const { origin: own } = new URL(publicUrl);
  const base = basePathOf(publicUrl);
  const rules = SHARED.filter(({ needsClient }) => !needsClient || hasConsoleClient);

  return (request: IncomingMessage, response: ServerResponse): boolean => {
    const target = (request.url ?? '').replace(/[?#].*$/s, '');
    const path = target.startsWith(`${base}/`) ? target.slice(base.length) : target;
    const rule = rules.find((one) => one.path.test(path));
    if (!rule) return false;
    const { origin: asking } = request.headers;
    if (rule.isGuarded && request.method === 'POST' && asking !== undefined && asking !== own && asking !== origin) {
      send(response, replyTo(strange()), { closing: true });
      return true;
    }
    if (origin === own) return false;
    response.setHeader('vary', 'Origin');
    if (asking !== origin) return false;
    response.setHeader('access-control-allow-origin', origin);
    if (rule.hasCookies) response.setHeader('access-control-allow-credentials', 'true');
    if (request.method !== 'OPTIONS' || request.headers['access-control-request-method'] === undefined) {
      response.setHeader('access-control-expose-headers', 'Retry-After, Request-Id, X-Timestamp');
      return false;
    }
    response
      .writeHead(204, {
        'access-control-allow-methods': rule.methods,
        'access-control-allow-headers': 'Authorization, Content-Type, Request-Id',
        'access-control-max-age': String(MAX_AGE_SECONDS),
      })
      .end();
    return true;
  };
}

const strange = () => new HttpError(403, 'FORBIDDEN', 'a page of another origin takes no step of a login');
