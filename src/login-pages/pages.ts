import type { IncomingMessage, ServerResponse } from 'node:http';
import { basePathOf } from '../http/base-path.ts';
import { PAGE_HEADERS } from '../http/page.ts';
import { type Reply, send } from '../http/reply.ts';
import { loginDocument } from './document.ts';
import bundled from './script.json' with { type: 'json' };
import { STYLE } from './style.ts';

export interface LoginPagesOptions {
  /** both without a slash at the end, and of one origin */
  publicUrl: string;
  consoleUrl: string;
  /** of the page of an interaction, below the URL of the console */
  interactionPath: string;
}

/** The page of a login that has no other path: where it begins and ends. */
export const LOGIN_PATH = '/login';

/** Whether the controller has pages of its own: a console of another origin has its own. */
export const hasLoginPages = ({ publicUrl, consoleUrl }: Pick<LoginPagesOptions, 'publicUrl' | 'consoleUrl'>) =>
  new URL(publicUrl).origin === new URL(consoleUrl).origin;

/** The path of the style, for the pages of the provider. */
export const stylesheetOf = (consoleUrl: string): string => `${basePathOf(consoleUrl)}${LOGIN_PATH}.css`;

/** Serves the pages of logins in the browser; false for all other requests. Nothing in them depends on a request. */
export function createLoginPages({ publicUrl, consoleUrl, interactionPath }: LoginPagesOptions) {
  const api = basePathOf(publicUrl);
  const pages = basePathOf(consoleUrl);
  const document: Reply = { status: 200, type: 'text/html; charset=utf-8', body: loginDocument({ pages, api }) };
  const files: Readonly<Record<string, Reply>> = {
    [LOGIN_PATH]: document,
    [interactionPath]: document,
    [`${LOGIN_PATH}.js`]: { status: 200, type: 'text/javascript; charset=utf-8', body: bundled.script },
    [`${LOGIN_PATH}.css`]: { status: 200, type: 'text/css; charset=utf-8', body: STYLE },
  };
  // A proxy may have removed the path of the public URL.
  const prefixes = pages.startsWith(api) ? [pages, pages.slice(api.length)] : [pages];
  const table = new Map(
    prefixes.flatMap((prefix) => Object.entries(files).map(([path, reply]) => [`${prefix}${path}`, reply])),
  );

  return (request: IncomingMessage, response: ServerResponse): boolean => {
    const reply = table.get((request.url ?? '').replace(/[?#].*$/s, ''));
    if (!reply || (request.method !== 'GET' && request.method !== 'HEAD')) return false;
    send(response, { ...reply, headers: PAGE_HEADERS }, { compress: true });
    return true;
  };
}
