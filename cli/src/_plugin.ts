import { Readable, Writable } from 'node:stream';
import { stripVTControlCharacters } from 'node:util';
import type { KubeClient } from '../../src/kube/mod.ts';
import type { ClusterFlags } from './cluster.ts';
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
  {
    colours = false,
    now = Date.now,
    signal = new AbortController().signal,
    env = {} as NodeJS.ProcessEnv,
    connected = (_: ClusterFlags) => {},
    wrote = (_: string) => {},
  } = {},
) {
  return async (...args: string[]): Promise<Ran> => {
    let [out, err] = ['', ''];
    const code = await runPlugin(args, {
      out: (text) => {
        out += text;
        wrote(text);
      },
      err: (text) => {
        err += text;
      },
      streams: {
        input: Readable.from([]),
        output: collect((text) => {
          out += text;
        }),
        errors: collect((text) => {
          err += text;
        }),
      },
      colours,
      env,
      connect(flags) {
        connected(flags);
        return { client, namespace, [Symbol.asyncDispose]: async () => {} };
      },
      now,
      signal,
    });
    return { code, out: colours ? out : stripVTControlCharacters(out), err };
  };
}

const collect = (add: (text: string) => void) =>
  new Writable({
    write(chunk, _, done) {
      add(String(chunk));
      done();
    },
  });
