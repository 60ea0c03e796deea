import { hash } from 'node:crypto';
import { cookiesNamed, setCookie } from '../../../http/cookies.ts';
import type { BrowserDoor } from '../../../rest/contract/identity-door.ts';
import type { Client } from '../../../rest/contract/route.ts';

/** The cookie of the browser that last logged in as a user. It opens nothing: the browser may try while others may not. */

const COOKIE = 'skerry_device';
const SECONDS = 90 * 86_400;

/** From where a login comes. `device`: the hash by which the Secret of a user knows the browser. */
export function contextOf({ address, requestId, cookie }: Client) {
  const [value] = cookiesNamed(cookie, COOKIE);
  return { address, requestId, ...(value && { device: hash('sha256', value, 'hex') }) };
}

/** The cookie as the browser gets it at the end of a login; it sends it to the steps of others. */
export const deviceCookie = (value: string, urls: NonNullable<BrowserDoor['urls']>): string =>
  setCookie({
    name: COOKIE,
    ...{ value, seconds: SECONDS, path: '/api/v3/user', publicUrl: urls.public },
    isShared: new URL(urls.console).hostname !== new URL(urls.public).hostname,
  });
