import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import { cookiesNamed } from '../http/cookies.ts';

/** The cookie by which the browser that began an interaction is known in its steps. */

export const STEP_COOKIE = 'skerry_step';

/** Its value: nobody can compute it from the uid of the interaction, which is no secret between browsers. */
export const stepCookie = (cookieKey: string, uid: string): string =>
  createHmac('sha256', cookieKey).update(`interaction\0${uid}`).digest('base64url');

/** Whether a cookie header has the value of one of the keys, of which the first signs. */
export function beganHere(cookieKeys: readonly string[], uid: string, header: string | undefined): boolean {
  const values = cookiesNamed(header, STEP_COOKIE).map(digest);
  const expected = cookieKeys.map((key) => digest(stepCookie(key, uid)));
  return values.some((value) => expected.some((one) => timingSafeEqual(value, one)));
}

const digest = (text: string) => createHash('sha256').update(text).digest();
