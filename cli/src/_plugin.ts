import { stripVTControlCharacters } from 'node:util';
import type { KubeClient } from '../../src/kube/mod.ts';
import { runPlugin } from './plugin.ts';

export interface Ran {
  code: number;
  out: string;
  err: string;
}

/** Runs command lines of the plugin against a client. */
export function createPlugin(
  client: KubeClient,
  namespace: string,
  { colours = false, now = Date.now, signal = new AbortController().signal } = {},
) {
  return async (...args: string[]): Promise<Ran> => {
    let [out, err] = ['', ''];
    const code = await runPlugin(args, {
      out: (text) => {
        out += text;
      },
      err: (text) => {
        err += text;
      },
      colours,
      env: {},
      connect: () => ({ client, namespace, [Symbol.asyncDispose]: async () => {} }),
      now,
      signal,
    });
    return { code, out: colours ? out : stripVTControlCharacters(out), err };
  };
}
