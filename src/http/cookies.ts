import { basePathOf } from './base-path.ts';

/** The values of the cookies of a name in a header: a browser sends several of one name, of different paths. */
export const cookiesNamed = (header: string | undefined, name: string): string[] =>
  (header ?? '')
    .split(';')
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(`${name}=`))
    .map((pair) => pair.slice(name.length + 1));

export interface CookieOptions {
  name: string;
  value: string;
  /** below the path of the public URL */
  path: string;
  publicUrl: string;
  /** 0 removes it */
  seconds: number;
  /** scripts of a console of another site send it */
  isShared?: boolean;
}

/** A cookie that no script reads. */
export function setCookie({ name, value, path, publicUrl, seconds, isShared = false }: CookieOptions): string {
  const isSecure = new URL(publicUrl).protocol === 'https:';
  const attributes = [
    `Path=${basePathOf(publicUrl)}${path}`,
    `Max-Age=${seconds}`,
    'HttpOnly',
    `SameSite=${isShared && isSecure ? 'None' : 'Lax'}`,
    ...(isSecure ? ['Secure'] : []),
  ];
  return [`${name}=${value}`, ...attributes].join('; ');
}
