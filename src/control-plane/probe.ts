import { readFileSync } from 'node:fs';
import { get as getHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { keyFile, type Layout } from './layout.ts';

const ANSWER_MS = 2_000;

/** Whether a program of the control plane answers 200; by HTTPS as its admin. */
export function isReady(url: string, layout: Layout): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const answered = (response: { statusCode?: number | undefined; resume(): unknown }) => {
    response.resume();
    resolve(response.statusCode === 200);
  };
  const request = url.startsWith('https:')
    ? requestHttps(url, { ...credentials(layout), timeout: ANSWER_MS }, answered).end()
    : getHttp(url, { timeout: ANSWER_MS }, answered);
  request.on('timeout', () => request.destroy());
  request.on('error', () => resolve(false));
  request.on('close', () => resolve(false));
  return promise;
}

const credentials = (layout: Layout) => ({
  agent: false as const,
  ca: readFileSync(keyFile(layout, 'authority.crt')),
  cert: readFileSync(keyFile(layout, 'admin.crt')),
  key: readFileSync(keyFile(layout, 'admin.key')),
});
